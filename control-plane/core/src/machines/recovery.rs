//! How far recovery is. Pure and total: what does not fit changes nothing.

use crate::state::meta::RecoveryState;

/// Something that happens to a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryEvent {
    /// Nobody is missing any more.
    AllAnswered,
    /// The recovery timeout has passed.
    TimeIsUp,
    /// Whoever is silent is left to its own timeout.
    GivenUp,
}

// === impl RecoveryState ===

impl RecoveryState {
    /// What comes of it.
    pub(crate) fn after(self, event: RecoveryEvent) -> Self {
        match (self, event) {
            (Self::Recovering, RecoveryEvent::TimeIsUp) => Self::CompletingRecovery,
            (Self::Recovering | Self::CompletingRecovery, RecoveryEvent::AllAnswered)
            | (Self::CompletingRecovery, RecoveryEvent::GivenUp) => Self::Alive,
            (Self::Recovering, RecoveryEvent::GivenUp)
            | (Self::CompletingRecovery, RecoveryEvent::TimeIsUp)
            | (Self::Alive, _) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_in_every_state() {
        use RecoveryEvent::{AllAnswered, GivenUp, TimeIsUp};
        use RecoveryState::{Alive, CompletingRecovery, Recovering};
        let table = [
            (Recovering, [Alive, CompletingRecovery, Recovering]),
            (CompletingRecovery, [Alive, CompletingRecovery, Alive]),
            (Alive, [Alive; 3]),
        ];
        for (state, outcomes) in table {
            let events = [AllAnswered, TimeIsUp, GivenUp];
            assert_eq!(
                events.map(|event| state.after(event)),
                outcomes,
                "{state:?}"
            );
        }
    }
}
