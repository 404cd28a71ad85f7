//! What the leader's state took no notice of, as metrics, and in the log where somebody may want to look.

use interrex_core::{leader::LeaderMachine, state::cluster::Ignored};

use crate::metrics;

/// How much of it has been told. Owned by the leader's loop; begins anew with each leadership, as the state does.
#[derive(Debug, Default)]
pub(crate) struct IgnoredCount {
    told: Ignored,
}

// === impl IgnoredCount ===

impl IgnoredCount {
    /// Tells what is new.
    pub(crate) fn take(&mut self, machine: &LeaderMachine) {
        let now = machine.state().ignored();
        if now == self.told {
            return;
        }
        let before = std::mem::replace(&mut self.told, now);
        let since = |now: u64, before: u64| now.saturating_sub(before);
        metrics::ignored("stale", since(now.stale, before.stale));
        metrics::ignored("unknown", since(now.unknown, before.unknown));
        metrics::ignored("repeated", since(now.repeated, before.repeated));
        let refused = since(now.refused, before.refused);
        metrics::ignored("refused", refused);
        if refused > 0 {
            let epoch = machine.epoch().0;
            tracing::warn!(
                epoch,
                refused,
                "events that do not fit the state of things: ignored"
            );
        }
    }
}
