//! Fault injection for Interrex: what must stay true while things break.
//!
//! * [`history`]: what happened, as JSON lines.
//! * [`checks`]: the oracle that judges a history, whoever wrote it.
//! * [`sim`]: a seeded world of the production machines, bit for bit repeatable.
//! * [`live`]: real processes, every link through a proxy of ours.
//! * [`report`]: what a history and its verdict look like to people and to CI.
//!
//! Two phases always: safety while faults are injected, convergence after they have stopped. Nothing imports this
//! crate; it may import everything.

mod calls;
pub mod checks;
pub mod history;
pub mod live;
pub mod metrics;
pub mod report;
pub mod sim;
