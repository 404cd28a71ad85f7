//! What the event log adds to what is stored for one submission.

use std::sync::Arc;

use interrex_core::{
    command::{Command, FullReport},
    config::ClusterConfig,
    event::{Event, EventSequence},
    ids::{Epoch, Fingerprint},
    resources::{Amounts, Cores, MemoryMib},
    spec::{CommandLine, DriverPayload, DriverSpec, WorkerSpec},
    state::cluster::{ClusterState, RecoveredEntities},
    time::Timestamp,
    transition::{Mutation, Transition},
};
use interrex_persistence::record;

use super::{DRIVER, EVENTS, encode_batch};

const NOW: Timestamp = Timestamp(1_767_225_600_000);

/// Keys and values of all records of one kind.
fn bytes(kind: super::RecordKind, mutations: &[record::Mutation]) -> usize {
    let put = |mutation: &record::Mutation| match mutation {
        record::Mutation::Put { key, value } if key.kind == kind => key.id.len() + value.len(),
        record::Mutation::Put { .. } | record::Mutation::Delete { .. } => 0,
    };
    mutations.iter().map(put).sum()
}

/// One submission, in a batch of its own.
fn submitted(state: &mut ClusterState) -> Vec<record::Mutation> {
    let spec = DriverSpec {
        name: "nightly-report".to_owned(),
        user: "analytics".to_owned(),
        payload: DriverPayload::Command(CommandLine {
            program: "/opt/reports/bin/nightly".to_owned(),
            args: ["--date", "2026-01-01", "--input", "s3://warehouse/events"]
                .map(str::to_owned)
                .to_vec(),
            env: [("TZ".to_owned(), "UTC".to_owned())].into(),
        }),
        cores: Cores(1),
        memory: MemoryMib(512),
        resources: Amounts::new(),
        supervise: false,
        priority: 0,
        needs_executors: false,
        at_most_once: false,
    };
    let submit = Command::SubmitDriver {
        request: "019b76da-a800-7000-8000-000000000001".into(),
        fingerprint: Fingerprint([7; 32]),
        spec: Arc::new(spec),
    };
    let Transition {
        mut mutations,
        events,
        ..
    } = state.apply(NOW, submit);
    let event = |(sequence, fact)| Event {
        sequence: EventSequence(sequence),
        epoch: Epoch(7),
        fact,
    };
    mutations.push(Mutation::PutEvents(
        (1_000..).zip(events).map(event).collect(),
    ));
    encode_batch(&mutations)
}

#[test]
fn the_events_of_a_submission_take_less_than_its_driver() {
    let config = ClusterConfig::default();
    let mut state = ClusterState::recover(config, RecoveredEntities::default(), NOW);
    let queued = submitted(&mut state);
    let (events, driver) = (bytes(EVENTS, &queued), bytes(DRIVER, &queued));
    assert!(events < driver, "queued: {events}, {driver}");

    let mut state =
        ClusterState::recover(ClusterConfig::default(), RecoveredEntities::default(), NOW);
    let register = Command::RegisterWorker {
        worker: "worker-20260101000000-10.0.0.17".into(),
        spec: Arc::new(WorkerSpec {
            host: "10.0.0.17".to_owned(),
            cores: Cores(8),
            memory: MemoryMib(32_768),
            ..WorkerSpec::default()
        }),
        report: FullReport::default(),
    };
    state.apply(NOW, register);
    let placed = submitted(&mut state);
    let (events, driver) = (bytes(EVENTS, &placed), bytes(DRIVER, &placed));
    assert!(events < driver, "placed: {events}, {driver}");
}
