//! Why something waits, where it runs, how it ended: in words, for people.
//!
//! Pure, and made from [`Facts`]: a leader's state, or the view that it published, so that a question never costs the
//! leader's loop anything. Explains with the scheduler's own rules ([`Share`](crate::caps::Share), an application's
//! wants) and decides nothing. One explanation may look at every worker and every driver: ask off the loop.

mod app;
mod driver;
mod facts;
mod fleet;
mod verdict;
mod waits;
mod words;
mod worker;

pub use self::{app::NO_PROGRESS, facts::Facts, waits::Waits};
use crate::{
    ids::{AppId, DriverId, ProfileId, WorkerId},
    time::Timestamp,
};

/// Workers that one explanation lists; the others are only counted.
pub const WORKERS_LISTED_MAX: usize = 1_000;
/// Processes of a worker that its explanation lists; the others are only counted.
pub const PROCESSES_LISTED_MAX: usize = 1_000;

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topic {
    /// A driver.
    Driver(DriverId),
    /// An application.
    App(AppId),
    /// A worker.
    Worker(WorkerId),
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// What it is about.
    pub id: String,
    /// `driver`, `application` or `worker`.
    pub kind: &'static str,
    /// Its state, in Spark's words.
    pub state: String,
    /// One sentence that says it all.
    pub summary: String,
    /// What else there is to say: one sentence each.
    pub details: Vec<String>,
    /// What it waits for: one entry for a driver, one for each resource profile of an application.
    pub waits: Vec<Wait>,
}

/// Something that waits for room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wait {
    /// Of an application: for which of its profiles.
    pub profile: ProfileId,
    /// What it needs, in words.
    pub needs: String,
    /// Why it waits, in one sentence.
    pub reason: String,
    /// It cannot start until somebody changes something: no worker is large enough, or a limit is below what it needs.
    pub hopeless: bool,
    /// Its place in the queue.
    pub queue: Queue,
    /// Limits that hold it back now, one sentence each, whatever room there is.
    pub held: Vec<String>,
    /// Each worker, by id, and whether it could take it; at most [`WORKERS_LISTED_MAX`].
    pub workers: Vec<Verdict>,
    /// How many more workers there are, by what is to be said about them.
    pub more_workers: Vec<(&'static str, u64)>,
}

/// A place in a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// How many are tried before it.
    pub before: u64,
    /// How many there are, itself included.
    pub length: u64,
    /// By what order, in words.
    pub order: &'static str,
}

/// Whether one worker could take something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which.
    pub worker: WorkerId,
    /// It could, now.
    pub fits: bool,
    /// Why, or why not.
    pub words: String,
}

/// Explains what `topic` names; `None`: there is no such thing.
pub fn explain(facts: &impl Facts, topic: &Topic, now: Timestamp) -> Option<Explanation> {
    match topic {
        Topic::Driver(id) => Some(driver::explain(facts, facts.driver(id)?, now)),
        Topic::App(id) => Some(app::explain(facts, facts.app(id)?, now)),
        Topic::Worker(id) => Some(worker::explain(facts, facts.worker(id)?, now)),
    }
}
