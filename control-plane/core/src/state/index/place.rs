//! Where something stands in a queue, and what it asks for there.

use std::cmp::Reverse;

use crate::{
    ids::{ProfileId, QueuePosition},
    resources::Demand,
    state::{app::Application, driver::Driver},
};

/// A place in a queue: larger priorities first, then first come, first served; the profiles of one application
/// ascending. Nobody shares one, and it never changes: queue positions are unique among drivers and among applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    priority: Reverse<i32>,
    queue: QueuePosition,
    profile: ProfileId,
}

/// What makes things equal: the first of them speaks for all. They fit on the same workers, or on none, and count
/// against the same caps.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    /// What one driver or one executor needs. First, because queues are searched by it.
    pub(crate) demand: Demand,
    /// Nothing is started before more than one fits.
    pub(crate) gate: Option<Gate>,
    pub(crate) class: Class,
}

/// Which caps something counts against. Equal for all where no such cap is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    /// A driver that will ask for executors, while the share of these is capped.
    pub(crate) sharing: bool,
    /// Whose it is, while users are capped; "" is a user like any other.
    pub(crate) user: Option<String>,
}

/// So many executors must fit at once (`min_executors`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gate {
    /// At least 2: one by itself is no gate.
    pub(crate) executors: u64,
    /// On workers of their own, because each takes all the cores that it gets.
    pub(crate) one_a_worker: bool,
}

// === impl Place ===

impl Place {
    pub(crate) fn new(priority: i32, queue: QueuePosition, profile: ProfileId) -> Self {
        Self {
            priority: Reverse(priority),
            queue,
            profile,
        }
    }
}

// === impl Group ===

impl Group {
    /// Cores that it takes to start anything.
    pub(crate) fn cores(&self) -> u64 {
        let executors = self.gate.map_or(1, |gate| gate.executors);
        executors.saturating_mul(u64::from(self.demand.cores.0))
    }
}

// === impl Driver ===

impl Driver {
    /// Its place among the waiting.
    pub(crate) fn place(&self) -> Place {
        Place::new(self.spec.priority, self.queue, ProfileId::default())
    }
}

// === impl Application ===

impl Application {
    /// The place of one of its profiles among the starving.
    pub(crate) fn place(&self, profile: ProfileId) -> Place {
        Place::new(self.spec.priority, self.queue, profile)
    }
}
