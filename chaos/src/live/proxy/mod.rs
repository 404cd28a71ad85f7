//! The fault proxy: every byte between two processes of a live run goes through here.
//!
//! One listener stands in front of each server, at the address that the server tells others: whoever learns of it, from
//! a configuration or from a leader's hint, dials the proxy. Who dials is found by [`caller`], so each pair of nodes
//! is a link of its own, with its own [`rule`]. What must never happen: bytes are changed, reordered, or lost on a
//! connection that goes on.

mod caller;
mod links;
mod pipe;
mod rule;

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use caller::{Callers, STRANGER};
pub use links::{Links, Node, Traffic};
pub use rule::{Flow, Rule, Way};

use links::Count;

/// The proxy in front of one server. Dropping it ends it, with all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    _stop: DropGuard,
}

/// What one connection needs.
#[derive(Debug, Clone)]
struct Front {
    to: Node,
    target: SocketAddr,
    links: Links,
    callers: Callers,
}

// === impl Proxy ===

impl Proxy {
    /// Listens at `at` for the server of node `to`, which listens at `target`. To be called on a runtime.
    ///
    /// # Errors
    /// Where `at` cannot be listened at.
    pub async fn start(
        at: SocketAddr,
        to: &str,
        target: SocketAddr,
        links: &Links,
        callers: &Callers,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let front = Front {
            to: to.to_owned(),
            target,
            links: links.clone(),
            callers: callers.clone(),
        };
        tokio::spawn(accept(listener, front, stop.clone()));
        Ok(Self {
            address,
            _stop: stop.drop_guard(),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, front: Front, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, theirs)) => {
                let (front, stop) = (front.clone(), stop.clone());
                tokio::spawn(async move {
                    stop.run_until_cancelled(serve(stream, theirs, front)).await;
                });
            }
            // Out of files, or the caller is gone again: neither is this listener's end.
            Err(error) => {
                tracing::warn!(to = front.to, %error, "a connection was not accepted");
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, theirs: SocketAddr, front: Front) {
    let Ok(ours) = stream.local_addr() else {
        return;
    };
    let callers = front.callers.clone();
    let found = tokio::task::spawn_blocking(move || callers.find(theirs, ours)).await;
    let from = found.unwrap_or_else(|_| STRANGER.to_owned());
    let link = front.links.link(&from, &front.to);
    let mut rules = link.watch();
    let resets = rules.borrow_and_update().resets;
    loop {
        let state = *rules.borrow_and_update();
        if state.rule.refuse || state.resets != resets {
            link.count(Count::Touched);
            reset(&stream);
            return;
        }
        // A connection whose first bytes go nowhere is not made either.
        if state.rule.forth.flow == Flow::Pass {
            break;
        }
        link.count(Count::Touched);
        if rules.changed().await.is_err() {
            return;
        }
    }
    match TcpStream::connect(front.target).await {
        Ok(server) => {
            link.count(Count::Connection);
            pipe::run(stream, server, &link, rules, resets).await;
        }
        // As the caller would have seen it without us: nobody listens there.
        Err(_) => reset(&stream),
    }
}

/// The next drop of the stream ends the connection with a reset.
fn reset(stream: &TcpStream) {
    if let Err(error) = stream.set_zero_linger() {
        tracing::debug!(%error, "a connection ends in order instead of with a reset");
    }
}
