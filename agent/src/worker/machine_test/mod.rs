//! One behaviour of the worker machine at a time: the whole list of actions is compared.

mod launches;
mod leases;
mod results;
mod session;

use std::{collections::BTreeMap, time::Duration};

use interrex_client::session::StreamId;
use interrex_proto::v1::{
    CommandLine, DriverSpec, Exit, Heartbeat, HeartbeatAck, KillDriver, KillExecutor, LaunchDriver,
    LaunchExecutor, ProcessState, RegisterWorker, Registered, ReportAck, ResourceAddresses,
    RunningDriver, RunningExecutor, StaleEpoch, WorkReport, WorkerSpec, master_frame::Body,
};

use super::{
    Action, Event, MachineOptions, Now, WorkerMachine,
    report::{self, Outcome},
};
use crate::process::{EndCause, Launch, ProcessEvent, WorkKey, record::AttemptRecord};

pub(super) const GRACE: Duration = Duration::from_secs(10);
pub(super) const FIRST: u64 = 100;

pub(super) fn spec() -> WorkerSpec {
    WorkerSpec {
        id: "w1".to_owned(),
        cores: 4,
        memory_mib: 4096,
        resources: vec![ResourceAddresses {
            name: "gpu".to_owned(),
            addresses: vec!["0".to_owned(), "1".to_owned()],
        }],
        ..WorkerSpec::default()
    }
}

pub(super) fn options() -> MachineOptions {
    MachineOptions {
        dictionaries: Vec::new(),
        spec: spec(),
        masters: vec!["m:1".to_owned()],
        cluster_id: "c1".to_owned(),
        epoch: 5,
        kill_grace: GRACE,
        launch_wait: Duration::from_secs(30),
    }
}

/// How long the machine had been up when the agent was started.
pub(super) const UP: Duration = Duration::from_secs(500);

pub(super) fn at(seconds: u64) -> Now {
    Now {
        elapsed: Duration::from_secs(seconds),
        boot: UP + Duration::from_secs(seconds),
        wall_ms: 1_000 * seconds,
    }
}

pub(super) fn attached_event(epoch: u64) -> Event {
    let registered = Registered {
        cluster_id: "c1".to_owned(),
        heartbeat_interval_ms: 5_000,
        at_most_once_lease_ms: 10_000,
        ..Registered::default()
    };
    Event::Attached {
        epoch,
        master: "m:1".to_owned(),
        registered: Box::new(registered),
    }
}

/// A machine that a leader of epoch 5 has taken.
pub(super) fn attached() -> WorkerMachine {
    let mut machine = WorkerMachine::new(options(), FIRST, Vec::new(), Vec::new());
    assert_eq!(machine.handle(attached_event(5), at(0)), []);
    machine
}

pub(super) fn command() -> CommandLine {
    CommandLine {
        program: "run".to_owned(),
        ..CommandLine::default()
    }
}

pub(super) fn launch_driver(id: &str, attempt: u32, cores: u32) -> Body {
    let spec = DriverSpec {
        command: Some(command()),
        cores,
        memory_mib: 512,
        ..DriverSpec::default()
    };
    Body::LaunchDriver(LaunchDriver {
        driver_id: id.to_owned(),
        attempt,
        spec: Some(spec),
        ..LaunchDriver::default()
    })
}

pub(super) fn launch_executor(app: &str, id: u32, cores: u32) -> Body {
    Body::LaunchExecutor(LaunchExecutor {
        app_id: app.to_owned(),
        executor_id: id,
        command: Some(command()),
        cores,
        memory_mib: 512,
        ..LaunchExecutor::default()
    })
}

pub(super) fn kill(id: &str, attempt: u32) -> Body {
    Body::KillDriver(KillDriver {
        driver_id: id.to_owned(),
        attempt,
    })
}

pub(super) fn frame(body: Body) -> Event {
    Event::Frame {
        epoch: 5,
        body: Box::new(body),
    }
}

pub(super) fn ack(sequence: u64) -> Event {
    frame(Body::ReportAck(ReportAck {
        sequences: vec![sequence],
    }))
}

pub(super) fn start(key: WorkKey, cores: u32) -> Action {
    Action::Start(Box::new(Launch {
        key,
        name: String::new(),
        command: command(),
        epoch: 5,
        cores,
        memory_mib: 512,
        resources: BTreeMap::new(),
        masters: vec!["m:1".to_owned()],
        resource_profile: 0,
        lease: None,
        trace: None,
    }))
}

/// The heartbeat with this number, of a worker that runs or has not got acknowledged just these.
pub(super) fn heartbeat(sequence: u64, holds: &[WorkKey]) -> Action {
    Action::Heartbeat(Heartbeat {
        digest: holds.iter().fold(0, |digest, key| digest ^ key.digest()),
        sequence,
        not_accepting: String::new(),
    })
}

pub(super) fn report(sequence: u64, key: &WorkKey, outcome: Outcome, seconds: u64) -> WorkReport {
    WorkReport {
        sequence,
        body: Some(report::body(key, outcome, 1_000 * seconds)),
    }
}

pub(super) fn started(key: &WorkKey) -> Event {
    Event::Process(ProcessEvent::Started {
        key: key.clone(),
        pid: 42,
    })
}

pub(super) fn ended(key: &WorkKey, cause: EndCause, code: i32) -> Event {
    let exit = Some(Exit {
        code: Some(code),
        signal: None,
    });
    Event::Process(ProcessEvent::Ended {
        key: key.clone(),
        exit,
        cause,
    })
}

pub(super) fn exited(code: i32) -> Outcome {
    let exit = Some(Exit {
        code: Some(code),
        signal: None,
    });
    Outcome {
        state: ProcessState::Exited,
        exit,
        message: String::new(),
    }
}

pub(super) fn stored(sequence: u64) -> Event {
    Event::Stored {
        sequence,
        stored: true,
    }
}

pub(super) fn d(attempt: u32) -> WorkKey {
    WorkKey::driver("d1", attempt)
}

/// Driver `d1`, attempt 1, of one core, running and acknowledged as such.
pub(super) fn running() -> WorkerMachine {
    let mut machine = attached();
    assert_eq!(
        machine.handle(frame(launch_driver("d1", 1, 1)), at(1)),
        [start(d(1), 1)]
    );
    let told = report(FIRST, &d(1), Outcome::running(), 1);
    assert_eq!(
        machine.handle(started(&d(1)), at(1)),
        [Action::Report(told)]
    );
    assert_eq!(machine.handle(ack(FIRST), at(1)), []);
    machine
}
