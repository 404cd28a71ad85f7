//! The sockets of a master, bound before anything else: a busy port is an error at the start, in words, and the
//! real ports are known before the backend tells them to others.

use std::net::{SocketAddr, TcpListener};

use interrex_persistence::election::MasterInfo;

use crate::{app::StartError, options::ServerOptions};

/// Bound sockets.
#[derive(Debug)]
pub struct Listeners {
    pub(super) rpc: TcpListener,
    pub(super) rest: Option<TcpListener>,
    pub(super) web: TcpListener,
    bound: ServerOptions,
}

// === impl Listeners ===

impl Listeners {
    /// Binds every address of `options`; port 0 picks a free one.
    ///
    /// # Errors
    /// [`StartError::Bind`] names the option and the address.
    pub fn bind(options: &ServerOptions) -> Result<Self, StartError> {
        let mut bound = options.clone();
        let rpc = listen("--peers (server.rpc)", &mut bound.rpc)?;
        let rest = if options.rest_enabled {
            Some(listen("--rest (server.rest)", &mut bound.rest)?)
        } else {
            None
        };
        let web = listen("--web (server.web)", &mut bound.web)?;
        Ok(Self {
            rpc,
            rest,
            web,
            bound,
        })
    }

    /// What the master `id` tells others, with the ports that were bound.
    #[must_use]
    pub fn advertised(&self, id: &str) -> MasterInfo {
        self.bound.advertised(id)
    }

    /// Where gRPC, the submission API and health listen.
    #[must_use]
    pub fn addresses(&self) -> (SocketAddr, Option<SocketAddr>, SocketAddr) {
        let rest = self.rest.as_ref().map(|_| self.bound.rest);
        (self.bound.rpc, rest, self.bound.web)
    }
}

/// Binds, and writes the port that was picked back into `address`.
fn listen(option: &'static str, address: &mut SocketAddr) -> Result<TcpListener, StartError> {
    let wanted = *address;
    let bound = TcpListener::bind(wanted).and_then(|listener| {
        listener.set_nonblocking(true)?;
        *address = listener.local_addr()?;
        Ok(listener)
    });
    bound.map_err(|source| StartError::Bind {
        option,
        address: wanted,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_port_is_named_with_its_option() {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ServerOptions {
            rpc: local,
            rest: local,
            web: local,
            ..ServerOptions::default()
        };
        let first = Listeners::bind(&options).unwrap();
        let (_, rest, _) = first.addresses();
        let taken = ServerOptions {
            rest: rest.unwrap(),
            ..options
        };
        let error = Listeners::bind(&taken).unwrap_err().to_string();
        assert!(
            error.contains(&format!("cannot listen on {}", rest.unwrap())),
            "{error}"
        );
        assert!(error.contains("--rest"), "{error}");
    }
}
