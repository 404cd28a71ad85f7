//! Commands that the tests of the leader's machine begin with.

use std::sync::Arc;

use crate::{
    command::{Command, FullReport},
    ids::{Fingerprint, RequestId, WorkerId},
    resources::{Amounts, Cores, MemoryMib},
    spec::{CommandLine, DriverPayload, DriverSpec, WorkerSpec},
};

/// A submission of a small driver.
pub(super) fn driver_with(id: &str, args: Vec<String>) -> Command {
    Command::SubmitDriver {
        request: RequestId::new(id),
        fingerprint: Fingerprint([1; 32]),
        spec: Arc::new(DriverSpec {
            at_most_once: false,
            needs_executors: false,
            priority: 0,
            name: id.into(),
            user: "u".into(),
            payload: DriverPayload::Command(CommandLine {
                program: "true".into(),
                args,
                ..CommandLine::default()
            }),
            cores: Cores(1),
            memory: MemoryMib(64),
            resources: Amounts::new(),
            supervise: false,
        }),
    }
}

/// The first registration of a worker.
pub(super) fn worker_with(id: &str, cores: Cores, memory: MemoryMib) -> Command {
    Command::RegisterWorker {
        worker: WorkerId::new(id),
        spec: Arc::new(WorkerSpec {
            host: "h".into(),
            cores,
            memory,
            incarnation: "i".into(),
            ..WorkerSpec::default()
        }),
        report: FullReport::default(),
    }
}
