//! A driver and its states (Spark: `DriverInfo`, `DriverState`).

use std::sync::Arc;

use crate::{
    ids::{Attempt, DriverId, QueuePosition, RequestId, WorkerId},
    resources::Addresses,
    spec::DriverSpec,
    time::Timestamp,
};

/// Where a driver stands. Spark's words, and `Launching` for "ordered, not confirmed yet", which Spark calls
/// RUNNING (the REST edge shows it as SUBMITTED).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DriverState {
    /// Accepted, waiting for a worker.
    Submitted,
    /// Assigned to a worker; the order is re-sent until the worker answers.
    Launching,
    /// Its process exists.
    Running,
    /// Failed or lost, waiting for its next attempt.
    Relaunching,
    /// Ended with exit code 0.
    Finished,
    /// Ended by request.
    Killed,
    /// Ended with another exit code or by a signal.
    Failed,
    /// Could not be started, or was lost with its worker.
    Error,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

/// A driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// Its id, the same over all attempts.
    pub id: DriverId,
    /// The request that created it.
    pub submission: RequestId,
    /// What it is and needs.
    pub spec: Arc<DriverSpec>,
    /// Where it stands.
    pub state: DriverState,
    /// The newest attempt; 0 before the first placement.
    pub attempt: Attempt,
    /// Where that attempt is or was.
    pub worker: Option<WorkerId>,
    /// Addresses of custom resources that it holds; empty unless placed.
    pub resources: Addresses,
    /// Its place in the queue.
    pub queue: QueuePosition,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// When the newest attempt's process started.
    pub started_at: Option<Timestamp>,
    /// When it ended for good.
    pub finished_at: Option<Timestamp>,
    /// How the newest attempt ended.
    pub exit: Option<Exit>,
    /// Why it is where it is, for people.
    pub message: String,
    /// A kill has been accepted; it ends the driver whatever happens next.
    pub kill_requested: bool,
    /// The drain of its worker is over: the newest attempt has been told to end, and that is not the driver's doing.
    pub evicted: bool,
    /// Attempts that failed in a row, for the back-off.
    pub failures: u32,
    /// Not to be placed before this time.
    pub not_before: Option<Timestamp>,
}

// === impl Driver ===

impl Driver {
    /// A driver as it is accepted at `now`, to wait at the place `queue`.
    #[must_use]
    pub fn accepted(
        id: DriverId,
        submission: RequestId,
        spec: Arc<DriverSpec>,
        queue: QueuePosition,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            submission,
            spec,
            state: DriverState::Submitted,
            attempt: Attempt(0),
            worker: None,
            resources: Addresses::new(),
            queue,
            submitted_at: now,
            started_at: None,
            finished_at: None,
            exit: None,
            message: String::new(),
            kill_requested: false,
            evicted: false,
            failures: 0,
            not_before: None,
        }
    }

    /// Whether its newest attempt has been told to end; the order is repeated until its worker answers.
    #[must_use]
    pub fn is_to_end(&self) -> bool {
        self.kill_requested || self.evicted
    }
}

// === impl DriverState ===

impl DriverState {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 8] = [
        Self::Submitted,
        Self::Launching,
        Self::Running,
        Self::Relaunching,
        Self::Finished,
        Self::Killed,
        Self::Failed,
        Self::Error,
    ];

    /// Whether this state is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Submitted | Self::Launching | Self::Running | Self::Relaunching => false,
            Self::Finished | Self::Killed | Self::Failed | Self::Error => true,
        }
    }

    /// Whether the driver holds resources of a worker.
    #[must_use]
    pub fn is_placed(self) -> bool {
        match self {
            Self::Launching | Self::Running => true,
            Self::Submitted
            | Self::Relaunching
            | Self::Finished
            | Self::Killed
            | Self::Failed
            | Self::Error => false,
        }
    }

    /// Whether the driver waits for a worker: for its first attempt, or for another one.
    #[must_use]
    pub fn waits(self) -> bool {
        !self.is_final() && !self.is_placed()
    }

    /// Spark's name, in capitals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Submitted => "SUBMITTED",
            Self::Launching => "LAUNCHING",
            Self::Running => "RUNNING",
            Self::Relaunching => "RELAUNCHING",
            Self::Finished => "FINISHED",
            Self::Killed => "KILLED",
            Self::Failed => "FAILED",
            Self::Error => "ERROR",
        }
    }
}
