//! Names of frames, the same at both ends of a session.

use crate::v1::master_frame::Body;

impl Body {
    /// Every name that [`kind`](Self::kind) gives.
    pub const KINDS: [&'static str; 16] = [
        "standby",
        "registered",
        "master_changed",
        "refused",
        "launch_driver",
        "kill_driver",
        "launch_executor",
        "kill_executor",
        "report_ack",
        "executor_added",
        "executor_updated",
        "worker_removed",
        "application_removed",
        "reregister",
        "heartbeat_ack",
        "masters",
    ];

    /// The frame's name for logs, metrics and `StaleEpoch`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Standby(_) => "standby",
            Self::Registered(_) => "registered",
            Self::MasterChanged(_) => "master_changed",
            Self::Refused(_) => "refused",
            Self::LaunchDriver(_) => "launch_driver",
            Self::KillDriver(_) => "kill_driver",
            Self::LaunchExecutor(_) => "launch_executor",
            Self::KillExecutor(_) => "kill_executor",
            Self::ReportAck(_) => "report_ack",
            Self::ExecutorAdded(_) => "executor_added",
            Self::ExecutorUpdated(_) => "executor_updated",
            Self::WorkerRemoved(_) => "worker_removed",
            Self::ApplicationRemoved(_) => "application_removed",
            Self::Reregister(_) => "reregister",
            Self::HeartbeatAck(_) => "heartbeat_ack",
            Self::Masters(_) => "masters",
        }
    }
}
