//! An application and its states (Spark: `ApplicationInfo`, `ApplicationState`).

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    ids::{AppId, ExecutorId, ProfileId, QueuePosition, RequestId},
    spec::{ApplicationSpec, ResourceProfile},
    time::Timestamp,
};

/// Where an application stands. UNKNOWN of Spark ("not heard of since the failover") is not a state here: it is
/// a matter of the session, kept outside the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApplicationState {
    /// Registered, nothing runs yet.
    Waiting,
    /// It has had an executor.
    Running,
    /// It said that it is done.
    Finished,
    /// It failed: too many executors failed, it said so, or it was not heard of any more.
    Failed,
    /// Ended by request.
    Killed,
}

/// An application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Its id.
    pub id: AppId,
    /// The request that created it.
    pub request: RequestId,
    /// What it asks for.
    pub spec: Arc<ApplicationSpec>,
    /// Where it stands.
    pub state: ApplicationState,
    /// Its place in the queue.
    pub queue: QueuePosition,
    /// Executors wanted in total; `None`: no limit (Spark: `getTargetExecutorNumForRPId`).
    pub executors_wanted: Option<u32>,
    /// Further resource profiles, as the application asked for them; never the default one, which is [`Self::spec`].
    pub profiles: BTreeMap<ProfileId, Profile>,
    /// The next executor's number (survives failovers: numbers are never used twice).
    pub next_executor: ExecutorId,
    /// Executors that exited with 0 in an application that `completes`.
    pub executors_completed: u32,
    /// Executors that failed in a row (Spark: `retryCount`).
    pub executor_failures: u32,
    /// When it was accepted.
    pub registered_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it is where it is, for people.
    pub message: String,
    /// No new executor before this time (crash-loop back-off).
    pub not_before: Option<Timestamp>,
}

/// A resource profile of an application and how many executors of it are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// What one executor needs.
    pub needs: Arc<ResourceProfile>,
    /// Executors wanted in all; the default profile's number is [`Application::executors_wanted`].
    pub wanted: u32,
}

// === impl ApplicationState ===

impl ApplicationState {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 5] = [
        Self::Waiting,
        Self::Running,
        Self::Finished,
        Self::Failed,
        Self::Killed,
    ];

    /// Whether this state is final.
    #[must_use]
    pub fn is_final(self) -> bool {
        match self {
            Self::Waiting | Self::Running => false,
            Self::Finished | Self::Failed | Self::Killed => true,
        }
    }

    /// Spark's name, in capitals.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Running => "RUNNING",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Killed => "KILLED",
        }
    }
}
