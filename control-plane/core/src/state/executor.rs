//! An executor and its states (Spark: `ExecutorDesc`, `ExecutorState`).

use crate::{
    ids::{AppId, ExecutorId, ProfileId, WorkerId},
    resources::{Addresses, Cores, MemoryMib},
    state::driver::Exit,
    time::Timestamp,
};

/// Where an executor stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExecutorState {
    /// Assigned; the order is re-sent until the worker answers.
    Launching,
    /// Its process exists.
    Running,
    /// It is to end; its resources stay booked until the worker says that it is gone (Spark frees them at once).
    Killing,
    /// Its worker is being drained: it runs on, and the application gets another one in its place (Spark's word).
    Decommissioned,
    /// Ended by request.
    Killed,
    /// Could not be started.
    Failed,
    /// Lost with its worker.
    Lost,
    /// Ended by itself, whatever the exit code.
    Exited,
}

/// An executor. Stored as a record of its own; forgotten some time after it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executor {
    /// Its application.
    pub app: AppId,
    /// Its number in the application.
    pub id: ExecutorId,
    /// Where it is.
    pub worker: WorkerId,
    /// The resource profile that it was made for.
    pub profile: ProfileId,
    /// Cores that it holds.
    pub cores: Cores,
    /// Memory that it holds.
    pub memory: MemoryMib,
    /// Addresses of custom resources that it holds.
    pub resources: Addresses,
    /// Where it stands.
    pub state: ExecutorState,
    /// Its worker was drained under it: it does not count towards what its application wants or may have, and however
    /// it ends, that is not the application's failure. Stays so when the drain is taken back.
    pub drained: bool,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Why it is where it is, for people.
    pub message: String,
    /// When it was placed.
    pub launched_at: Timestamp,
    /// When its process started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

// === impl Executor ===

impl Executor {
    /// Whether an order about it waits for its worker's answer. One that was drained before it was seen to run is not
    /// wanted: it has been told to end.
    pub(crate) fn is_unanswered(&self) -> bool {
        match self.state {
            ExecutorState::Launching | ExecutorState::Killing => true,
            ExecutorState::Decommissioned => self.started_at.is_none(),
            ExecutorState::Running
            | ExecutorState::Killed
            | ExecutorState::Failed
            | ExecutorState::Lost
            | ExecutorState::Exited => false,
        }
    }
}

// === impl ExecutorState ===

impl ExecutorState {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 8] = [
        Self::Launching,
        Self::Running,
        Self::Killing,
        Self::Decommissioned,
        Self::Killed,
        Self::Failed,
        Self::Lost,
        Self::Exited,
    ];

    /// Whether this state is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Launching | Self::Running | Self::Killing | Self::Decommissioned => false,
            Self::Killed | Self::Failed | Self::Lost | Self::Exited => true,
        }
    }

    /// Whether it is to run: placed, and not told to end.
    #[must_use]
    pub fn is_wanted(self) -> bool {
        match self {
            Self::Launching | Self::Running => true,
            Self::Killing
            | Self::Decommissioned
            | Self::Killed
            | Self::Failed
            | Self::Lost
            | Self::Exited => false,
        }
    }

    /// Whether it has not been told to end.
    #[must_use]
    pub fn may_run(self) -> bool {
        self == Self::Decommissioned || self.is_wanted()
    }

    /// Spark's name, in capitals; `KILLING` is ours.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Launching => "LAUNCHING",
            Self::Running => "RUNNING",
            Self::Killing => "KILLING",
            Self::Decommissioned => "DECOMMISSIONED",
            Self::Killed => "KILLED",
            Self::Failed => "FAILED",
            Self::Lost => "LOST",
            Self::Exited => "EXITED",
        }
    }
}
