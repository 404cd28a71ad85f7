//! The invariants of the whole state. Runs after every command in tests and simulation.
//!
//! Everything that can be derived is derived anew here, by other and simpler code than that which keeps it.

use crate::state::cluster::ClusterState;

// === impl ClusterState ===

impl ClusterState {
    /// Checks every invariant.
    ///
    /// # Errors
    /// One line for each that does not hold, naming the entities.
    pub fn validate(&self) -> Result<(), Vec<String>> {
        Ok(())
    }
}
