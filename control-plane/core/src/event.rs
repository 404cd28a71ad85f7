//! What was decided, told once: the entries of the durable event log.
//!
//! A [`Fact`] is made where something is written (`state/facts.rs`), or where a command changed nothing and that is
//! worth telling (`apply/notes.rs`). The leader numbers facts and stores them with the change that they tell of
//! (`leader/event_log.rs`): what must never happen is an event without its change, or a change without its event.

use std::{fmt, sync::Arc};

use crate::{
    command::Command,
    ids::{AppId, Attempt, Epoch, RequestId, WorkerId},
    state::{
        app::ApplicationState, driver::DriverState, executor::ExecutorState, worker::WorkerState,
    },
    time::Timestamp,
};

/// Longest [`Fact::why`], in bytes; a longer one is cut.
pub const WHY_BYTES_MAX: usize = 1 << 10;

/// Place of an event in the log: 1 for the first one, then one more each, over all epochs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventSequence(pub u64);

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place.
    pub sequence: EventSequence,
    /// The leadership that decided it.
    pub epoch: Epoch,
    /// What happened.
    pub fact: Fact,
}

/// Something that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// When, by the leader's clock.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
    /// About whom: a driver, an application, `app/executor`, a worker, a request or a master.
    pub subject: Arc<str>,
    /// The worker that has to do with it, if it is not the subject.
    pub worker: Option<WorkerId>,
    /// Which attempt of a driver.
    pub attempt: Option<Attempt>,
    /// Who made it happen.
    pub who: Who,
    /// Why, in words; at most [`WHY_BYTES_MAX`] bytes.
    pub why: String,
}

/// What an event tells.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// A driver is in this state now.
    Driver(DriverState),
    /// A driver that is placed is to be ended.
    DriverKillRequested,
    /// An application is in this state now.
    App(ApplicationState),
    /// An application wants another number of executors.
    AppTarget,
    /// An executor is in this state now.
    Executor(ExecutorState),
    /// A worker is in this state now.
    Worker(WorkerState),
    /// A worker is to be emptied.
    WorkerDrain,
    /// A worker that was being emptied gets work again.
    WorkerUndrain,
    /// A worker says that it wants no work.
    WorkerNotAccepting,
    /// A worker that wanted no work takes it again.
    WorkerAccepting,
    /// Somebody else has tried to register as this worker, or with what cannot be used.
    WorkerRefused,
    /// A master leads.
    LeaderElected,
    /// Nothing is left to wait for after an election.
    RecoveryEnded,
    /// A stored record cannot be used.
    RecordQuarantined,
    /// A client had everything forgotten that is over.
    HistoryCleared,
    /// A request has come again and got the answer of the first time.
    RequestReplayed,
    /// A request id was used for something else before.
    RequestConflict,
    /// A request was refused.
    RequestRefused,
    /// A worker's report about an attempt that is over or superseded changed nothing.
    ReportStale,
    /// A worker's report about what is not recorded changed nothing.
    ReportUnknown,
    /// A kind of another version, as it was stored.
    Other(Arc<str>),
}

/// Who made something happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// A client, by the id of its request if that has one.
    Client(Option<RequestId>),
    /// A worker's agent.
    Agent(WorkerId),
    /// An application, about itself.
    Application(AppId),
    /// The leader: its scheduler, a deadline, a recovery.
    Leader,
    /// Somebody whom only another version knows, as it was stored.
    Other(Arc<str>),
}

/// An entity's group in the names of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// `DRIVER_...`
    Driver,
    /// `APP_...`
    App,
    /// `EXECUTOR_...`
    Executor,
    /// `WORKER_...`
    Worker,
}

// === impl Fact ===

impl Fact {
    /// The same with a `why` that fits.
    #[must_use]
    pub fn cut(mut self) -> Self {
        if self.why.len() > WHY_BYTES_MAX {
            let end = self.why.floor_char_boundary(WHY_BYTES_MAX);
            self.why.truncate(end);
        }
        self
    }
}

// === impl EventKind ===

impl EventKind {
    /// Every kind that is no state of an entity.
    pub const PLAIN: [Self; 16] = [
        Self::DriverKillRequested,
        Self::AppTarget,
        Self::WorkerDrain,
        Self::WorkerUndrain,
        Self::WorkerNotAccepting,
        Self::WorkerAccepting,
        Self::WorkerRefused,
        Self::LeaderElected,
        Self::RecoveryEnded,
        Self::RecordQuarantined,
        Self::HistoryCleared,
        Self::RequestReplayed,
        Self::RequestConflict,
        Self::RequestRefused,
        Self::ReportStale,
        Self::ReportUnknown,
    ];

    /// The two parts of its name: in front of the first `_` is what a prefix can ask for.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        match self {
            Self::Driver(state) => (Group::Driver.name(), state.name()),
            Self::DriverKillRequested => (Group::Driver.name(), "KILL_REQUESTED"),
            Self::App(state) => (Group::App.name(), state.name()),
            Self::AppTarget => (Group::App.name(), "TARGET"),
            Self::Executor(state) => (Group::Executor.name(), state.name()),
            Self::Worker(state) => (Group::Worker.name(), state.name()),
            Self::WorkerDrain => (Group::Worker.name(), "DRAIN"),
            Self::WorkerUndrain => (Group::Worker.name(), "UNDRAIN"),
            Self::WorkerNotAccepting => (Group::Worker.name(), "NOT_ACCEPTING"),
            Self::WorkerAccepting => (Group::Worker.name(), "ACCEPTING"),
            Self::WorkerRefused => (Group::Worker.name(), "REFUSED"),
            Self::LeaderElected => ("LEADER", "ELECTED"),
            Self::RecoveryEnded => ("RECOVERY", "ENDED"),
            Self::RecordQuarantined => ("RECORD", "QUARANTINED"),
            Self::HistoryCleared => ("HISTORY", "CLEARED"),
            Self::RequestReplayed => ("REQUEST", "REPLAYED"),
            Self::RequestConflict => ("REQUEST", "CONFLICT"),
            Self::RequestRefused => ("REQUEST", "REFUSED"),
            Self::ReportStale => ("REPORT", "STALE"),
            Self::ReportUnknown => ("REPORT", "UNKNOWN"),
            Self::Other(name) => name.split_once('_').unwrap_or((name, "")),
        }
    }

    /// What it means, for logs and documentation.
    #[must_use]
    pub fn meaning(&self) -> &'static str {
        match self {
            Self::Driver(state) => driver_meaning(*state),
            Self::DriverKillRequested => "a driver is to be ended",
            Self::App(state) => app_meaning(*state),
            Self::AppTarget => "an application wants another number of executors",
            Self::Executor(state) => executor_meaning(*state),
            Self::Worker(WorkerState::Alive) => "a worker is here",
            Self::Worker(WorkerState::Unknown) => "a worker is being waited for",
            Self::Worker(WorkerState::Dead) => "a worker is dead",
            Self::WorkerDrain => "a worker is to be emptied",
            Self::WorkerUndrain => "a worker gets work again",
            Self::WorkerNotAccepting => "a worker wants no work",
            Self::WorkerAccepting => "a worker wants work again",
            Self::WorkerRefused => "a worker's registration was refused",
            Self::LeaderElected => "a master leads",
            Self::RecoveryEnded => "recovery after an election is over",
            Self::RecordQuarantined => "a stored record cannot be used and is left alone",
            Self::HistoryCleared => "what is over was forgotten by request",
            Self::RequestReplayed => "a repeated request got its first answer",
            Self::RequestConflict => "a request id was used for something else",
            Self::RequestRefused => "a request was refused",
            Self::ReportStale => "a report about an old attempt was ignored",
            Self::ReportUnknown => "a report about something unknown was ignored",
            Self::Other(_) => "an event of another version",
        }
    }

    /// Whether it is a decision without a change: such events are limited, so that a flood of bad input does not
    /// push everything else out of the log.
    #[must_use]
    pub fn is_note(&self) -> bool {
        match self {
            Self::WorkerRefused
            | Self::RequestReplayed
            | Self::RequestConflict
            | Self::RequestRefused
            | Self::ReportStale
            | Self::ReportUnknown => true,
            Self::Driver(_)
            | Self::DriverKillRequested
            | Self::App(_)
            | Self::AppTarget
            | Self::Executor(_)
            | Self::Worker(_)
            | Self::WorkerDrain
            | Self::WorkerUndrain
            | Self::WorkerNotAccepting
            | Self::WorkerAccepting
            | Self::LeaderElected
            | Self::RecoveryEnded
            | Self::RecordQuarantined
            | Self::HistoryCleared
            | Self::Other(_) => false,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(name) => f.write_str(name),
            known @ (Self::Driver(_)
            | Self::DriverKillRequested
            | Self::App(_)
            | Self::AppTarget
            | Self::Executor(_)
            | Self::Worker(_)
            | Self::WorkerDrain
            | Self::WorkerUndrain
            | Self::WorkerNotAccepting
            | Self::WorkerAccepting
            | Self::WorkerRefused
            | Self::LeaderElected
            | Self::RecoveryEnded
            | Self::RecordQuarantined
            | Self::HistoryCleared
            | Self::RequestReplayed
            | Self::RequestConflict
            | Self::RequestRefused
            | Self::ReportStale
            | Self::ReportUnknown) => {
                let (group, rest) = known.parts();
                write!(f, "{group}_{rest}")
            }
        }
    }
}

fn driver_meaning(state: DriverState) -> &'static str {
    match state {
        DriverState::Submitted => "a driver is accepted",
        DriverState::Launching => "a driver is placed",
        DriverState::Running => "a driver runs",
        DriverState::Relaunching => "a driver is to be started again",
        DriverState::Finished => "a driver is over: it has done its work",
        DriverState::Killed => "a driver is over: ended by request",
        DriverState::Failed => "a driver is over: it failed",
        DriverState::Error => "a driver is over: it could not be started, or was lost",
    }
}

fn app_meaning(state: ApplicationState) -> &'static str {
    match state {
        ApplicationState::Waiting => "an application has registered",
        ApplicationState::Running => "an application has got an executor",
        ApplicationState::Finished => "an application is over: it is done",
        ApplicationState::Failed => "an application is over: it failed",
        ApplicationState::Killed => "an application is over: ended by request",
    }
}

fn executor_meaning(state: ExecutorState) -> &'static str {
    match state {
        ExecutorState::Launching => "an executor is placed",
        ExecutorState::Running => "an executor runs",
        ExecutorState::Killing => "an executor is to end",
        ExecutorState::Decommissioned => "an executor's worker is being drained",
        ExecutorState::Killed => "an executor is over: ended by request",
        ExecutorState::Failed => "an executor is over: it could not be started",
        ExecutorState::Lost => "an executor is over: lost with its worker",
        ExecutorState::Exited => "an executor is over: it ended by itself",
    }
}

// === impl Group ===

impl Group {
    /// As it stands in front of a state's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "DRIVER",
            Self::App => "APP",
            Self::Executor => "EXECUTOR",
            Self::Worker => "WORKER",
        }
    }
}

// === impl Who ===

impl Who {
    /// From whom a command is.
    #[must_use]
    pub fn of(command: &Command) -> Self {
        match command {
            Command::RegisterWorker { worker, .. }
            | Command::Report { worker, .. }
            | Command::AcceptingChanged { worker, .. } => Self::Agent(worker.clone()),
            Command::RegisterApplication { request, .. }
            | Command::SubmitDriver { request, .. } => Self::Client(Some(request.clone())),
            Command::UnregisterApplication { app, .. }
            | Command::RequestExecutors { app, .. }
            | Command::KillExecutors { app, .. } => Self::Application(app.clone()),
            Command::Kill { request, .. }
            | Command::KillAllDrivers { request }
            | Command::DrainWorkers { request, .. }
            | Command::UndrainWorkers { request, .. }
            | Command::ClearCompleted { request } => {
                Self::Client(request.as_ref().map(|request| request.id.clone()))
            }
            Command::WorkerDisconnected { .. }
            | Command::ExpireWorker { .. }
            | Command::ExpireApplication { .. }
            | Command::Tick
            | Command::Initialize { .. }
            | Command::TakeOver { .. } => Self::Leader,
        }
    }

    /// What [`Display`](fmt::Display) wrote.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        match text.split_once(' ') {
            Some(("client", id)) => Self::Client(Some(RequestId::from(id))),
            Some(("agent", id)) => Self::Agent(WorkerId::from(id)),
            Some(("application", id)) => Self::Application(AppId::from(id)),
            None if text == "client" => Self::Client(None),
            None if text == "leader" => Self::Leader,
            Some(_) | None => Self::Other(Arc::from(text)),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(Some(id)) => write!(f, "client {id}"),
            Self::Client(None) => f.write_str("client"),
            Self::Agent(id) => write!(f, "agent {id}"),
            Self::Application(id) => write!(f, "application {id}"),
            Self::Leader => f.write_str("leader"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_back_as_it_was_written() {
        for who in [
            Who::Client(Some("nightly run".into())),
            Who::Client(None),
            Who::Agent("w1".into()),
            Who::Application("app-1".into()),
            Who::Leader,
            Who::Other("oracle at noon".into()),
        ] {
            assert_eq!(Who::from_text(&who.to_string()), who);
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_two_characters() {
        let fact = Fact {
            at: Timestamp(1),
            kind: EventKind::LeaderElected,
            subject: "m1".into(),
            worker: None,
            attempt: None,
            who: Who::Leader,
            why: "é".repeat(WHY_BYTES_MAX),
        };
        let why = fact.cut().why;
        assert_eq!((why.len(), why.chars().last()), (WHY_BYTES_MAX, Some('é')));
    }
}
