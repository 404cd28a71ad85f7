//! Why drivers and applications wait, as far as no single worker is concerned. Shared by explanations, status and lists,
//! so that all say the same.

use super::{Facts, fleet::Fleet, words};
use crate::{resources::Demand, state::driver::Driver};

/// What explains waiting. Made by one pass over the workers, so once a request and not once an entity.
#[derive(Debug)]
pub struct Waits<'a, F> {
    pub(super) facts: &'a F,
    fleet: Fleet,
}

/// Why something waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reason {
    /// In one sentence.
    pub(super) words: String,
    /// Nothing that happens by itself will help.
    pub(super) hopeless: bool,
    /// Limits that hold it, one sentence each.
    pub(super) held: Vec<String>,
}

// === impl Waits ===

impl<'a, F: Facts> Waits<'a, F> {
    /// One pass over the workers.
    #[must_use]
    pub fn of(facts: &'a F) -> Self {
        let fleet = Fleet::of(facts.workers().map(AsRef::as_ref));
        Self { facts, fleet }
    }

    /// Why a driver that could be placed now is not: one sentence.
    #[must_use]
    pub fn driver(&self, driver: &Driver) -> String {
        self.driver_reason(driver).words
    }

    pub(super) fn driver_reason(&self, driver: &Driver) -> Reason {
        let spec = &driver.spec;
        let (demand, cores) = (spec.demand(), u64::from(spec.cores.0));
        let mut held = self.max_drivers().into_iter().collect::<Vec<_>>();
        if spec.needs_executors {
            held.extend(self.driver_share(cores));
        }
        held.extend(self.user(&spec.user, cores));
        let never = self
            .never(&demand)
            .or_else(|| self.beyond_user(&spec.user, cores));
        Reason::of(&demand, never, held)
    }

    /// Why no worker could hold this, not even an empty one.
    pub(super) fn never(&self, demand: &Demand) -> Option<String> {
        self.fleet.never(demand)
    }

    fn max_drivers(&self) -> Option<String> {
        let max = self.facts.config().max_drivers?;
        let reached = self.facts.drivers_placed() >= u64::from(max);
        reached.then(|| format!("held: maxDrivers {max} reached"))
    }

    fn driver_share(&self, cores: u64) -> Option<String> {
        let (config, share) = (self.facts.config(), self.facts.share());
        let max = share.max(config)?;
        (!share.allows(cores, config)).then(|| {
            format!(
                "held: driver share (drivers that need executors hold {} of at most {})",
                share.cores,
                words::count(max, "core")
            )
        })
    }

    /// The limit of its user, if that holds something that starts with so many cores.
    pub(super) fn user(&self, user: &str, cores: u64) -> Option<String> {
        let config = self.facts.config();
        let max = config.user_cores_max?;
        let has = self.facts.user_cores(user);
        (!config.user_may_have(has, cores)).then(|| {
            format!(
                "held: {} has {has} of at most {}",
                words::user(user),
                words::count(u64::from(max.0), "core")
            )
        })
    }

    /// The same, if that would hold it though its user had nothing else.
    pub(super) fn beyond_user(&self, user: &str, cores: u64) -> Option<String> {
        let config = self.facts.config();
        let max = config.user_cores_max?;
        (!config.user_may_have(0, cores)).then(|| {
            format!(
                "{} may have at most {}, this alone needs {cores}",
                words::user(user),
                words::count(u64::from(max.0), "core"),
            )
        })
    }
}

// === impl Reason ===

impl Reason {
    /// What is hopeless is said first, then what holds it; where there is neither, it is a matter of room.
    pub(super) fn of(demand: &Demand, never: Option<String>, held: Vec<String>) -> Self {
        let hopeless = never.is_some();
        let words = never.unwrap_or_else(|| {
            if held.is_empty() {
                format!("waiting for a worker with {} free", words::amounts(demand))
            } else {
                held.join("; ")
            }
        });
        Self {
            words,
            hopeless,
            held,
        }
    }
}
