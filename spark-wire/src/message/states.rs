//! Spark's two enumerations of states, by their numbers on the wire.

/// `ExecutorState`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutorState {
    /// Ordered.
    Launching = 0,
    /// Its process runs.
    Running = 1,
    /// Ended by an order.
    Killed = 2,
    /// Could not be started.
    Failed = 3,
    /// Its worker is gone.
    Lost = 4,
    /// Ended by itself.
    Exited = 5,
    /// Its worker is about to leave: no new tasks, please.
    Decommissioned = 6,
}

/// `DriverState`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverState {
    /// Waits for a worker.
    Submitted = 0,
    /// Runs.
    Running = 1,
    /// Ended well.
    Finished = 2,
    /// Ended, and starts again.
    Relaunching = 3,
    /// Nobody knows.
    Unknown = 4,
    /// Ended by an order.
    Killed = 5,
    /// Ended badly.
    Failed = 6,
    /// Could not be started.
    Error = 7,
}

// === impl ExecutorState ===

impl ExecutorState {
    /// The `object` that holds its values.
    pub const OBJECT: &str = "org.apache.spark.deploy.ExecutorState$";

    /// By its number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::Launching,
            1 => Self::Running,
            2 => Self::Killed,
            3 => Self::Failed,
            4 => Self::Lost,
            5 => Self::Exited,
            6 => Self::Decommissioned,
            _ => return None,
        })
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self as i32
    }
}

// === impl DriverState ===

impl DriverState {
    /// The `object` that holds its values.
    pub const OBJECT: &str = "org.apache.spark.deploy.master.DriverState$";

    /// By its number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::Submitted,
            1 => Self::Running,
            2 => Self::Finished,
            3 => Self::Relaunching,
            4 => Self::Unknown,
            5 => Self::Killed,
            6 => Self::Failed,
            7 => Self::Error,
            _ => return None,
        })
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self as i32
    }
}
