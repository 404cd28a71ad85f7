//! Where a master listens, and where others reach it.

use std::net::{Ipv4Addr, SocketAddr};

use interrex_persistence::election::MasterInfo;
use serde::{Deserialize, Serialize};

/// Default port of gRPC.
pub const RPC_PORT: u16 = 7077;
/// Default port of the submission API.
pub const REST_PORT: u16 = 6066;
/// Default port of health, metrics and pages.
pub const WEB_PORT: u16 = 8080;

/// Addresses of one master. Loopback unless the operator says otherwise. Port 0 picks a free one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerOptions {
    /// gRPC. Default `127.0.0.1:7077`.
    pub rpc: SocketAddr,
    /// The submission API. Default `127.0.0.1:6066`.
    pub rest: SocketAddr,
    /// Whether the submission API is served. Default true.
    pub rest_enabled: bool,
    /// Health, metrics and pages. Default `127.0.0.1:8080`.
    pub web: SocketAddr,
    /// Name or address under which others reach this master, for all three servers; needed when listening on
    /// all addresses. Default: the addresses listened on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise_host: Option<String>,
    /// Whether gRPC reflection is served. Default true.
    pub reflection: bool,
}

// === impl ServerOptions ===

impl Default for ServerOptions {
    fn default() -> Self {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            rpc: local(RPC_PORT),
            rest: local(REST_PORT),
            rest_enabled: true,
            web: local(WEB_PORT),
            advertise_host: None,
            reflection: true,
        }
    }
}

impl ServerOptions {
    /// What the master `id` tells others. Call again with the bound ports where one of them was 0.
    #[must_use]
    pub fn advertised(&self, id: &str) -> MasterInfo {
        let at = |address: SocketAddr| match &self.advertise_host {
            Some(host) => format!("{host}:{}", address.port()),
            None => address.to_string(),
        };
        MasterInfo {
            id: id.to_owned(),
            rpc: at(self.rpc),
            rest: if self.rest_enabled {
                at(self.rest)
            } else {
                String::new()
            },
            web: at(self.web),
        }
    }

    /// Adds every fault to `faults`.
    pub(super) fn validate(&self, insecure: bool, faults: &mut Vec<String>) {
        for (field, address) in [
            ("server.rpc", self.rpc),
            ("server.rest", self.rest),
            ("server.web", self.web),
        ] {
            if !address.ip().is_loopback() && !insecure {
                faults.push(format!(
                    "{field}: {address} can be reached from other machines, and anybody who reaches it can run \
                     programs; use a loopback address, or set `insecure` if the network is trusted"
                ));
            } else if address.ip().is_unspecified() && self.advertise_host.is_none() {
                faults.push(format!(
                    "{field}: {address} is no address to be reached at; set server.advertise_host"
                ));
            }
        }
        if let Some(host) = self.advertise_host.as_deref()
            && (host.is_empty()
                || host.contains([':', '/', ' ']) && host.parse::<std::net::Ipv6Addr>().is_err())
        {
            faults.push(format!(
                "server.advertise_host: `{host}`; give a name or address without port"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(options: &ServerOptions, insecure: bool) -> Vec<String> {
        let mut faults = Vec::new();
        options.validate(insecure, &mut faults);
        faults
    }

    #[test]
    fn only_loopback_is_served_without_an_explicit_word() {
        let mut options = ServerOptions::default();
        assert_eq!(faults(&options, false), Vec::<String>::new());
        options.rpc = "192.0.2.1:7077".parse().expect("an address");
        assert!(faults(&options, false)[0].contains("set `insecure`"));
        assert_eq!(faults(&options, true), Vec::<String>::new());
    }

    #[test]
    fn all_addresses_need_a_name_to_be_reached_at() {
        let mut options = ServerOptions {
            rpc: "0.0.0.0:7077".parse().expect("an address"),
            ..Default::default()
        };
        assert!(faults(&options, true)[0].contains("server.advertise_host"));
        options.advertise_host = Some("m1.example".into());
        assert_eq!(faults(&options, true), Vec::<String>::new());
        assert_eq!(options.advertised("m1").rpc, "m1.example:7077");
        options.advertise_host = Some("m1.example:7077".into());
        assert!(faults(&options, true)[0].contains("without port"));
    }

    #[test]
    fn a_server_that_is_off_is_not_advertised() {
        let options = ServerOptions {
            rest_enabled: false,
            ..Default::default()
        };
        assert_eq!(options.advertised("m1").rest, "");
    }
}
