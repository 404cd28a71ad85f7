//! What an operator can set about the pages for people.

use serde::{Deserialize, Serialize};

/// The pages of one master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UiOptions {
    /// Whether there are pages at all; health and metrics are served in any case. Default true.
    pub enabled: bool,
    /// Pages only show, and change nothing. Default false.
    pub read_only: bool,
    /// Names under which browsers reach the pages, without port, such as that of a proxy: from a page under another
    /// name nothing can be changed. Addresses, `localhost` and the advertised host need not be listed. Default: none.
    pub hosts: Vec<String>,
}

// === impl UiOptions ===

impl Default for UiOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            read_only: false,
            hosts: Vec::new(),
        }
    }
}

impl UiOptions {
    /// The names of a master that is advertised as `web` (`host:port`).
    pub(crate) fn known_hosts(&self, web: &str) -> Vec<String> {
        let own = web.rsplit_once(':').map(|(host, _)| host.to_owned());
        self.hosts.iter().cloned().chain(own).collect()
    }

    /// Adds every fault to `faults`.
    pub(super) fn validate(&self, faults: &mut Vec<String>) {
        for host in &self.hosts {
            if host.is_empty() || host.contains([':', '/', ' ']) {
                faults.push(format!(
                    "ui.hosts: `{host}`; give a name without scheme and port"
                ));
            }
        }
    }
}
