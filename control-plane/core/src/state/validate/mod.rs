//! The invariants of the whole state. Runs after every command in tests and simulation.
//!
//! Everything that can be derived is derived anew here, by other and simpler code than that which keeps it. What a
//! damaged store brought in (`inconsistencies`) excuses references that lead nowhere, and nothing else.

mod entities;
mod indexes;

use crate::state::{cluster::ClusterState, meta::RecoveryState};

/// Collects what does not hold.
#[derive(Debug, Default)]
struct Faults(Vec<String>);

// === impl Faults ===

impl Faults {
    fn check(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.0.push(fault());
        }
    }
}

// === impl ClusterState ===

impl ClusterState {
    /// Checks every invariant: what is placed is within what workers offer, no address is held twice, indexes are what
    /// the entities say, numbers are below their counters, requests and what they created name each other, nothing
    /// that waits would fit, unless a cap holds it. Costs everything; for tests and simulation.
    ///
    /// # Errors
    /// One line for each that does not hold, naming the entities.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        let mut faults = Faults::default();
        self.check_drivers(&mut faults);
        self.check_apps(&mut faults);
        self.check_executors(&mut faults);
        self.check_requests(&mut faults);
        self.check_loads(&mut faults);
        self.check_sums(&mut faults);
        self.check_queues(&mut faults);
        self.check_history(&mut faults);
        self.check_timers(&mut faults);
        self.check_nothing_fits(&mut faults);
        faults.check(self.effects.is_empty(), || {
            "effects are left over".to_owned()
        });
        let answered = self.recovery.workers.is_empty() && self.recovery.apps.is_empty();
        faults.check(
            answered == (self.recovery.state == RecoveryState::Alive),
            || {
                format!(
                    "recovery is {} with {:?}",
                    self.recovery.state.name(),
                    self.recovery
                )
            },
        );
        if faults.0.is_empty() {
            Ok(())
        } else {
            Err(faults.0)
        }
    }

    /// Whether the store was whole, so that references must lead somewhere.
    fn is_whole(&self) -> bool {
        self.inconsistencies.is_empty()
    }
}
