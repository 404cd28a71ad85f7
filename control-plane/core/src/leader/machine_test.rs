use std::{sync::Arc, time::Duration};

use super::fixtures::{driver_with, worker_with};
use crate::{
    command::{Command, FullReport},
    config::ClusterConfig,
    effect::{Effect, WorkerOrder},
    event::Event,
    ids::{Epoch, Fingerprint, RequestId, WorkerId},
    leader::{
        Answer, BatchId, BatchLimits, CommitFailure, LeaderConfig, LeaderMachine, Output,
        Publication, Reregister, StepDown, Ticket,
    },
    resources::{Cores, MemoryMib},
    spec::{ApplicationSpec, WorkerSpec},
    state::{
        cluster::{ClusterState, RecoveredEntities},
        worker::WorkerState,
    },
    time::Timestamp,
    transition::{Mutation, Reply, Transition},
};

const NOW: Timestamp = Timestamp(1_000_000);
const LATER: Timestamp = Timestamp(1_060_000);

fn later(ms: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(ms))
}

fn machine_with(config: LeaderConfig) -> (LeaderMachine, ClusterState) {
    let cluster = ClusterConfig::default();
    let entities = RecoveredEntities::default();
    let machine = LeaderMachine::recover(Epoch(7), config, cluster.clone(), entities.clone(), NOW);
    (machine, ClusterState::recover(cluster, entities, NOW))
}

/// A machine, and a bare state that shows what each command decides.
fn machine() -> (LeaderMachine, ClusterState) {
    machine_with(LeaderConfig::default())
}

fn driver(id: &str) -> Command {
    driver_with(id, vec![])
}

fn worker(id: &str) -> Command {
    worker_with(id, Cores(8), MemoryMib(8192))
}

/// What is to be done, without the records of the event log: what is in them is tested by itself.
fn poll(machine: &mut LeaderMachine, now: Timestamp) -> Vec<Output> {
    let without_events = |mutations: Arc<[Mutation]>| -> Arc<[Mutation]> {
        let others = mutations
            .iter()
            .filter(|mutation| !matches!(mutation, Mutation::PutEvents(_)));
        others.cloned().collect()
    };
    let mut outputs = machine.poll(now);
    for output in &mut outputs {
        if let Output::Commit { mutations, .. } = output {
            *mutations = without_events(mutations.clone());
        }
        if let Output::Publish(publication) = output {
            publication.mutations = without_events(publication.mutations.clone());
        }
    }
    let nothing = Publication {
        mutations: Arc::new([]),
        workers: vec![],
        recovery: None,
    };
    outputs.retain(|output| *output != Output::Publish(nothing.clone()));
    outputs
}

fn commit(batch: u64, transitions: &[&Transition]) -> Output {
    let mutations: Vec<_> = transitions
        .iter()
        .flat_map(|t| t.mutations.clone())
        .collect();
    Output::Commit {
        batch: BatchId(batch),
        mutations: mutations.into(),
    }
}

fn publish(transitions: &[&Transition]) -> Output {
    let mutations: Vec<_> = transitions
        .iter()
        .flat_map(|t| t.mutations.clone())
        .collect();
    Output::Publish(Publication {
        mutations: mutations.into(),
        workers: vec![],
        recovery: None,
    })
}

fn reply(ticket: u64, transition: &Transition) -> Output {
    answer(ticket, Answer::Reply(transition.reply.clone()))
}

fn answer(ticket: u64, answer: Answer) -> Output {
    Output::Reply {
        ticket: Ticket(ticket),
        answer,
    }
}

fn effects(transition: &Transition) -> Vec<Output> {
    transition
        .effects
        .iter()
        .cloned()
        .map(Output::Effect)
        .collect()
}

#[test]
fn reply_and_effects_wait_for_the_commit_and_leave_in_order() {
    let (mut machine, mut state) = machine();
    let registered = state.apply(NOW, worker("w1"));
    let submitted = state.apply(NOW, driver("s1"));
    assert!(matches!(
        submitted.effects.as_slice(),
        [Effect::Worker {
            order: WorkerOrder::LaunchDriver { .. },
            ..
        }]
    ));

    machine.submit(Some(Ticket(1)), worker("w1"), LATER, NOW);
    machine.submit(Some(Ticket(2)), driver("s1"), LATER, NOW);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![commit(0, &[&registered, &submitted])]
    );
    assert_eq!(
        poll(&mut machine, NOW),
        vec![],
        "one commit, asked for once"
    );

    machine.committed(BatchId(0), NOW);
    let mut expected = vec![
        publish(&[&registered, &submitted]),
        reply(1, &registered),
        reply(2, &submitted),
    ];
    expected.extend(effects(&registered));
    expected.extend(effects(&submitted));
    assert_eq!(poll(&mut machine, NOW), expected);
    assert!(machine.is_idle());
}

#[test]
fn what_arrives_during_a_commit_forms_the_next_batch() {
    let (mut machine, mut state) = machine();
    let first = state.apply(NOW, driver("s1"));
    let second = state.apply(NOW, driver("s2"));
    let third = state.apply(NOW, driver("s3"));

    machine.submit(Some(Ticket(1)), driver("s1"), LATER, NOW);
    assert_eq!(poll(&mut machine, NOW), vec![commit(0, &[&first])]);
    machine.submit(Some(Ticket(2)), driver("s2"), LATER, NOW);
    machine.submit(Some(Ticket(3)), driver("s3"), LATER, NOW);
    assert_eq!(poll(&mut machine, NOW), vec![], "one batch in flight");

    machine.committed(BatchId(0), NOW);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![
            publish(&[&first]),
            reply(1, &first),
            commit(1, &[&second, &third])
        ]
    );
    machine.committed(BatchId(1), NOW);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![
            publish(&[&second, &third]),
            reply(2, &second),
            reply(3, &third)
        ]
    );
}

#[test]
fn an_answer_that_changes_nothing_still_proves_leadership() {
    let (mut machine, mut state) = machine();
    let refused = state.apply(
        NOW,
        Command::Kill {
            request: None,
            id: "nothing".into(),
        },
    );
    machine.submit(
        Some(Ticket(1)),
        Command::Kill {
            request: None,
            id: "nothing".into(),
        },
        LATER,
        NOW,
    );
    assert_eq!(poll(&mut machine, NOW), vec![commit(0, &[])]);
    machine.committed(BatchId(0), NOW);
    assert_eq!(poll(&mut machine, NOW), vec![reply(1, &refused)]);
}

#[test]
fn an_answer_is_not_covered_by_a_commit_that_began_before_it() {
    let (mut machine, mut state) = machine();
    let first = state.apply(NOW, driver("s1"));
    let replayed = state.apply(NOW, driver("s1"));
    machine.submit(Some(Ticket(1)), driver("s1"), LATER, NOW);
    assert_eq!(poll(&mut machine, NOW), vec![commit(0, &[&first])]);
    machine.submit(Some(Ticket(2)), driver("s1"), LATER, NOW);
    machine.committed(BatchId(0), NOW);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![publish(&[&first]), reply(1, &first), commit(1, &[])]
    );
    machine.committed(BatchId(1), NOW);
    assert_eq!(poll(&mut machine, NOW), vec![reply(2, &replayed)]);
}

#[test]
fn an_unknown_commit_ends_the_leadership_and_only_its_batch_is_in_doubt() {
    let config = LeaderConfig {
        batch: BatchLimits {
            commands: 1,
            ..BatchLimits::default()
        },
        ..LeaderConfig::default()
    };
    let (mut machine, mut state) = machine_with(config);
    let first = state.apply(NOW, driver("s1"));
    for id in 1..=3 {
        machine.submit(Some(Ticket(id)), driver(&format!("s{id}")), LATER, NOW);
    }
    assert_eq!(poll(&mut machine, NOW), vec![commit(0, &[&first])]);
    machine.commit_failed(BatchId(0), CommitFailure::Unknown);
    machine.submit(Some(Ticket(4)), driver("s4"), LATER, NOW);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![
            answer(1, Answer::OutcomeUnknown),
            answer(2, Answer::NotLeader),
            answer(3, Answer::NotLeader),
            Output::StepDown(StepDown::CommitFailed(CommitFailure::Unknown)),
            answer(4, Answer::NotLeader),
        ]
    );
}

#[test]
fn a_fenced_batch_was_surely_not_stored() {
    for failure in [CommitFailure::Fenced, CommitFailure::Rejected] {
        let (mut machine, _) = machine();
        machine.submit(Some(Ticket(1)), driver("s1"), LATER, NOW);
        drop(poll(&mut machine, NOW));
        machine.commit_failed(BatchId(0), failure);
        assert_eq!(
            poll(&mut machine, NOW),
            vec![
                answer(1, Answer::NotLeader),
                Output::StepDown(StepDown::CommitFailed(failure)),
            ]
        );
        machine.committed(BatchId(0), NOW);
        machine.tick(later(60_000));
        assert_eq!(
            poll(&mut machine, NOW),
            vec![],
            "nothing leaves after the step-down"
        );
    }
}

#[test]
fn a_lost_leadership_leaves_the_batch_under_way_in_doubt() {
    let (mut machine, _) = machine();
    machine.submit(Some(Ticket(1)), driver("s1"), LATER, NOW);
    drop(poll(&mut machine, NOW));
    machine.submit(Some(Ticket(2)), driver("s2"), LATER, NOW);
    machine.step_down(StepDown::Lost);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![
            answer(1, Answer::OutcomeUnknown),
            answer(2, Answer::NotLeader),
            Output::StepDown(StepDown::Lost),
        ]
    );
}

#[test]
fn a_full_batch_makes_commands_wait_and_a_full_queue_refuses() {
    let config = LeaderConfig {
        batch: BatchLimits {
            commands: 2,
            ..BatchLimits::default()
        },
        queue_max: 1,
        ..LeaderConfig::default()
    };
    let (mut machine, mut state) = machine_with(config);
    let decided: Vec<_> = (1..=3)
        .map(|id| state.apply(NOW, driver(&format!("s{id}"))))
        .collect();
    for id in 1..=4 {
        machine.submit(Some(Ticket(id)), driver(&format!("s{id}")), LATER, NOW);
    }
    assert_eq!(machine.queue_len(), 1);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![
            answer(4, Answer::Busy),
            commit(0, &[&decided[0], &decided[1]])
        ]
    );
    assert_eq!(
        machine.queue_len(),
        0,
        "room again: the next batch is being filled"
    );
    machine.committed(BatchId(0), NOW);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![
            publish(&[&decided[0], &decided[1]]),
            reply(1, &decided[0]),
            reply(2, &decided[1]),
            commit(1, &[&decided[2]]),
        ]
    );
}

#[test]
fn a_command_whose_deadline_passed_in_the_queue_is_not_applied() {
    let config = LeaderConfig {
        batch: BatchLimits {
            commands: 1,
            ..BatchLimits::default()
        },
        ..LeaderConfig::default()
    };
    let (mut machine, mut state) = machine_with(config);
    let first = state.apply(NOW, driver("s1"));
    let second = state.apply(NOW, driver("s2"));
    machine.submit(Some(Ticket(1)), driver("s1"), LATER, NOW);
    assert_eq!(poll(&mut machine, NOW), vec![commit(0, &[&first])]);
    machine.submit(Some(Ticket(2)), driver("s2"), LATER, NOW);
    machine.submit(Some(Ticket(3)), driver("s3"), later(50), NOW);
    machine.committed(BatchId(0), later(100));
    assert_eq!(
        poll(&mut machine, later(100)),
        vec![
            publish(&[&first]),
            reply(1, &first),
            commit(1, &[&second]),
            answer(3, Answer::DeadlineExceeded),
        ]
    );
    assert!(machine.state().request(&RequestId::new("s3")).is_none());
}

#[test]
fn a_command_that_is_larger_than_a_batch_is_spread_and_answered_by_the_last() {
    let config = LeaderConfig {
        batch: BatchLimits {
            bytes: 2_000,
            ..BatchLimits::default()
        },
        ..LeaderConfig::default()
    };
    let (mut machine, mut state) = machine_with(config);
    let large = driver_with("s1", vec!["x".repeat(3_000)]);
    let decided = state.apply(NOW, large.clone());
    machine.submit(Some(Ticket(1)), large, LATER, NOW);
    let mut stored = vec![];
    let mut batch = 0;
    let reply = loop {
        let outputs = poll(&mut machine, NOW);
        for output in &outputs {
            if let Output::Commit { mutations, .. } = output {
                stored.extend(mutations.to_vec());
            }
        }
        if let Some(Output::Reply { answer, .. }) =
            outputs.iter().find(|o| matches!(o, Output::Reply { .. }))
        {
            break answer.clone();
        }
        machine.committed(BatchId(batch), NOW);
        batch += 1;
        assert!(batch < 10);
    };
    assert!(batch > 1, "it took several batches");
    assert_eq!(stored, decided.mutations);
    assert_eq!(reply, Answer::Reply(decided.reply));
}

#[test]
fn a_command_that_fits_into_a_batch_is_never_split() {
    let small = driver_with("s1", vec!["x".repeat(500)]);
    let (_, mut state) = machine();
    let first = state.apply(NOW, small.clone());
    let second = state.apply(NOW, driver_with("s2", vec!["y".repeat(500)]));
    let bytes: usize = first
        .mutations
        .iter()
        .map(super::batch::estimated_bytes)
        .sum();
    // Room for the first command and a part of the second.
    let batch = BatchLimits {
        bytes: bytes + bytes / 2,
        ..BatchLimits::default()
    };
    let (mut machine, _) = machine_with(LeaderConfig {
        batch,
        ..LeaderConfig::default()
    });
    machine.submit(Some(Ticket(1)), small, LATER, NOW);
    machine.submit(
        Some(Ticket(2)),
        driver_with("s2", vec!["y".repeat(500)]),
        LATER,
        NOW,
    );
    assert_eq!(poll(&mut machine, NOW), vec![commit(0, &[&first])]);
    machine.committed(BatchId(0), NOW);
    assert!(poll(&mut machine, NOW).contains(&commit(1, &[&second])));
}

#[test]
fn a_part_that_was_stored_leaves_the_rest_in_doubt_even_when_fenced() {
    let config = LeaderConfig {
        batch: BatchLimits {
            bytes: 2_000,
            ..BatchLimits::default()
        },
        ..LeaderConfig::default()
    };
    let (mut machine, _) = machine_with(config);
    machine.submit(
        Some(Ticket(1)),
        driver_with("s1", vec!["x".repeat(3_000)]),
        LATER,
        NOW,
    );
    drop(poll(&mut machine, NOW));
    machine.committed(BatchId(0), NOW);
    drop(poll(&mut machine, NOW));
    machine.commit_failed(BatchId(1), CommitFailure::Fenced);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![
            answer(1, Answer::OutcomeUnknown),
            Output::StepDown(StepDown::CommitFailed(CommitFailure::Fenced)),
        ]
    );
}

#[test]
fn an_idle_leader_proves_itself_now_and_then() {
    let (mut machine, _) = machine();
    for ms in (0..5_000).step_by(100) {
        machine.tick(later(ms));
        assert_eq!(poll(&mut machine, later(ms)), vec![]);
    }
    machine.tick(later(5_000));
    assert_eq!(poll(&mut machine, later(5_000)), vec![commit(0, &[])]);
    machine.committed(BatchId(0), later(5_010));
    machine.tick(later(5_100));
    assert_eq!(poll(&mut machine, later(5_100)), vec![]);
}

#[test]
fn a_worker_that_did_not_register_in_this_epoch_is_asked_to() {
    let (mut machine, _) = machine();
    machine.heartbeat(&WorkerId::new("w1"), NOW);
    assert_eq!(
        poll(&mut machine, NOW),
        vec![Output::Reregister {
            worker: WorkerId::new("w1"),
            reason: Reregister::NotRegistered,
        }]
    );
    machine.submit(None, worker("w1"), LATER, NOW);
    machine.heartbeat(&WorkerId::new("w1"), NOW);
    let outputs = poll(&mut machine, NOW);
    assert!(
        matches!(outputs.as_slice(), [Output::Commit { .. }]),
        "{outputs:?}"
    );
}

#[test]
fn a_beating_worker_lives_and_a_silent_one_expires() {
    let (mut machine, _) = machine();
    machine.submit(None, worker("w1"), LATER, NOW);
    machine.submit(None, worker("w2"), LATER, NOW);
    let mut batch = 0;
    let mut run = |machine: &mut LeaderMachine, until: u64, from: u64| {
        for ms in (from..until).step_by(100) {
            machine.heartbeat(&WorkerId::new("w1"), later(ms));
            machine.tick(later(ms));
            for output in poll(machine, later(ms)) {
                if matches!(output, Output::Commit { .. }) {
                    machine.committed(BatchId(batch), later(ms));
                    batch += 1;
                }
            }
        }
    };
    run(&mut machine, 25_000, 0);
    let state = |id: &str| {
        machine
            .state()
            .worker(&WorkerId::new(id))
            .unwrap()
            .state
            .name()
    };
    assert_eq!((state("w1"), state("w2")), ("ALIVE", "DEAD"));
}

#[test]
fn who_is_refused_as_a_worker_does_not_keep_the_dead_one_alive() {
    let (mut machine, _) = machine();
    let agent_of = |work_dir: &str| {
        let spec = WorkerSpec {
            host: "h".into(),
            cores: Cores(8),
            memory: MemoryMib(8192),
            incarnation: work_dir.into(),
            work_dir_id: work_dir.into(),
            ..WorkerSpec::default()
        };
        Command::RegisterWorker {
            worker: WorkerId::new("w1"),
            spec: Arc::new(spec),
            report: FullReport::default(),
        }
    };
    machine.submit(None, agent_of("lost"), LATER, NOW);
    let (mut batch, mut taken_at) = (0, None);
    for ms in (0..40_000).step_by(100) {
        // The disk is gone with the first agent; the next one tries as often as agents do.
        if ms % 5_000 == 4_000 {
            machine.submit(None, agent_of("new"), LATER, later(ms));
        }
        machine.tick(later(ms));
        for output in poll(&mut machine, later(ms)) {
            if matches!(output, Output::Commit { .. }) {
                machine.committed(BatchId(batch), later(ms));
                batch += 1;
            }
        }
        let known = machine.state().worker(&WorkerId::new("w1")).unwrap();
        if known.spec.work_dir_id == "new" {
            taken_at = taken_at.or(Some(ms));
        }
    }
    assert_eq!(taken_at, Some(24_000), "the first try after the timeout");
}

#[test]
fn an_unknown_batch_is_ignored() {
    let (mut machine, _) = machine();
    machine.submit(Some(Ticket(1)), driver("s1"), LATER, NOW);
    drop(poll(&mut machine, NOW));
    machine.committed(BatchId(9), NOW);
    machine.commit_failed(BatchId(9), CommitFailure::Unknown);
    assert_eq!(poll(&mut machine, NOW), vec![]);
    machine.committed(BatchId(0), NOW);
    assert!(matches!(
        poll(&mut machine, NOW).as_slice(),
        [
            Output::Publish(_),
            Output::Reply {
                answer: Answer::Reply(Reply::DriverSubmitted { .. }),
                ..
            }
        ]
    ));
}

fn application(id: &str) -> Command {
    Command::RegisterApplication {
        request: RequestId::new(id),
        fingerprint: Fingerprint([1; 32]),
        app: None,
        spec: Arc::new(ApplicationSpec {
            name: id.into(),
            cores_per_executor: Some(Cores(1)),
            memory_per_executor: MemoryMib(64),
            ..ApplicationSpec::default()
        }),
    }
}

#[test]
fn what_a_request_created_is_never_stored_without_the_request() {
    let config = LeaderConfig {
        batch: BatchLimits {
            mutations: 3,
            ..BatchLimits::default()
        },
        ..LeaderConfig::default()
    };
    let (mut machine, _) = machine_with(config);
    let mut next = 0;
    // The executors of the application make its registration larger than one batch.
    for command in [worker("w1"), application("s1")] {
        machine.submit(Some(Ticket(1)), command, LATER, NOW);
        let mut stored = vec![];
        loop {
            let outputs = poll(&mut machine, NOW);
            if outputs.iter().any(|o| matches!(o, Output::Reply { .. })) {
                break;
            }
            let before = stored.len();
            for output in outputs {
                if let Output::Commit { mutations, .. } = output {
                    stored.extend(mutations.to_vec());
                }
            }
            assert!(stored.len() > before, "nothing more is stored");
            // A crash now leaves what has been stored so far.
            let has = |wanted: fn(&Mutation) -> bool| stored.iter().any(wanted);
            let created = has(|m| matches!(m, Mutation::PutApp(_)));
            let requested = has(|m| matches!(m, Mutation::PutRequest(_)));
            assert_eq!(created, requested, "{stored:?}");
            machine.committed(BatchId(next), NOW);
            next += 1;
        }
    }
    assert!(next > 3, "it took several batches");
}

#[test]
fn a_flood_of_commands_does_not_keep_the_clock_from_ticking() {
    let config = LeaderConfig {
        batch: BatchLimits {
            commands: 2,
            ..BatchLimits::default()
        },
        ..LeaderConfig::default()
    };
    let (mut machine, _) = machine_with(config);
    machine.submit(None, worker("w1"), LATER, NOW);
    drop(poll(&mut machine, NOW));
    machine.committed(BatchId(0), NOW);
    let (mut batch, mut request) = (1, 0);
    for ms in (0..25_000).step_by(100) {
        // Always more than a batch takes.
        while machine.queue_len() < 8 {
            request += 1;
            let command = driver(&format!("s{request}"));
            machine.submit(Some(Ticket(request)), command, LATER, later(ms));
        }
        machine.tick(later(ms));
        for output in poll(&mut machine, later(ms)) {
            if let Output::Commit { batch: sealed, .. } = output {
                batch = sealed.0;
            }
        }
        machine.committed(BatchId(batch), later(ms));
    }
    let worker = machine.state().worker(&WorkerId::new("w1")).unwrap();
    assert_eq!(worker.state, WorkerState::Dead, "it was silent for 25 s");
}

#[test]
fn a_worker_is_shown_as_the_batch_leaves_it() {
    let (mut machine, _) = machine();
    machine.submit(None, worker("w1"), LATER, NOW);
    drop(poll(&mut machine, NOW));
    machine.committed(BatchId(0), NOW);
    drop(poll(&mut machine, NOW));
    // The same again changes nothing; what follows in the same batch does.
    machine.submit(Some(Ticket(1)), worker("w1"), LATER, NOW);
    let worker = WorkerId::new("w1");
    machine.submit(None, Command::WorkerDisconnected { worker }, LATER, NOW);
    drop(poll(&mut machine, NOW));
    machine.committed(BatchId(1), NOW);
    // In the order in which readers apply them: what is stored, then what is shown besides.
    let mut shown = None;
    for output in poll(&mut machine, NOW) {
        if let Output::Publish(publication) = output {
            for mutation in publication.mutations.iter() {
                if let Mutation::PutWorker(worker) = mutation {
                    shown = Some(worker.state);
                }
            }
            let besides = publication.workers.last().map(|worker| worker.state);
            shown = besides.or(shown);
        }
    }
    assert_eq!(shown, Some(WorkerState::Unknown));
}

#[test]
fn the_events_of_a_batch_are_one_record_in_it() {
    let (mut machine, _) = machine();
    machine.submit(None, worker("w1"), LATER, NOW);
    machine.submit(Some(Ticket(1)), driver("s1"), LATER, NOW);
    let kinds = |outputs: &[Output]| -> Vec<String> {
        let Some(Output::Commit { mutations, .. }) = outputs.last() else {
            panic!("{outputs:?}")
        };
        let mut records = Vec::new();
        for mutation in mutations.iter() {
            if let Mutation::PutEvents(events) = mutation {
                records.push(events);
            }
        }
        assert_eq!(records.len(), 1, "{records:?}");
        let told = |event: &Event| format!("{} {}", event.sequence.0, event.fact.kind);
        records[0].iter().map(told).collect()
    };
    let first = machine.poll(NOW);
    let alive = ["1 WORKER_ALIVE", "2 DRIVER_SUBMITTED", "3 DRIVER_LAUNCHING"];
    assert_eq!(kinds(&first), alive);
    machine.submit(Some(Ticket(2)), driver("s2"), LATER, NOW);
    machine.committed(BatchId(0), NOW);
    let second = machine.poll(NOW);
    assert_eq!(kinds(&second), ["4 DRIVER_SUBMITTED", "5 DRIVER_LAUNCHING"]);
}
