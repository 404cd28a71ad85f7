//! Whatever happens in whatever order: nothing leaves before the commit that covers it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;

use crate::{
    command::{Command, FullReport, ProcessChange, Report, RunningDriver, Subject},
    config::ClusterConfig,
    effect::{Effect, WorkerOrder},
    event::{Event, EventKind, EventSequence},
    ids::{Attempt, DriverId, Epoch, Fingerprint, ReportSequence, RequestId, WorkerId},
    leader::{
        Answer, BatchId, BatchLimits, CommitFailure, LeaderConfig, LeaderMachine, Output, Ticket,
    },
    resources::{Amounts, Cores, MemoryMib},
    spec::{CommandLine, DriverPayload, DriverSpec, WorkerSpec},
    state::{
        cluster::RecoveredEntities,
        driver::{Driver, DriverState},
    },
    time::Timestamp,
    transition::Mutation,
};

#[derive(Debug, Clone)]
enum Step {
    Submit(u8),
    Register(u8),
    Running(u8),
    Kill(u8),
    KillAll,
    Heartbeat(u8),
    Tick(u16),
    Poll,
    Committed,
    Failed(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..12_u8).prop_map(Step::Submit),
        2 => (0..3_u8).prop_map(Step::Register),
        2 => (0..12_u8).prop_map(Step::Running),
        1 => (0..12_u8).prop_map(Step::Kill),
        1 => Just(Step::KillAll),
        1 => (0..3_u8).prop_map(Step::Heartbeat),
        3 => (1..3_000_u16).prop_map(Step::Tick),
        6 => Just(Step::Poll),
        4 => Just(Step::Committed),
        1 => prop_oneof![20 => Just(0_u8), 1 => 1..4_u8].prop_map(Step::Failed),
    ];
    prop::collection::vec(step, 1..120)
}

/// What the outside knows: which commits began and ended, and what they stored.
#[derive(Default)]
struct World {
    step: usize,
    submitted: BTreeMap<Ticket, usize>,
    answered: BTreeSet<Ticket>,
    in_flight: Option<(BatchId, Arc<[Mutation]>, usize)>,
    /// When the newest commit that has succeeded had begun.
    proven_since: Option<usize>,
    durable: BTreeMap<DriverId, Arc<Driver>>,
    /// Events that are durable.
    heard: u64,
    /// The last state of each driver that they tell of.
    told: BTreeMap<String, DriverState>,
    to_publish: Vec<Mutation>,
    over: bool,
}

// === impl World ===

impl World {
    fn commit(&mut self) -> Option<BatchId> {
        let (batch, mutations, began) = self.in_flight.take()?;
        self.proven_since = Some(began);
        for mutation in mutations.iter() {
            match mutation {
                Mutation::PutDriver(driver) => {
                    self.durable.insert(driver.id.clone(), Arc::clone(driver));
                }
                Mutation::DeleteDriver(id) => {
                    self.durable.remove(id);
                }
                Mutation::PutMeta(_)
                | Mutation::PutWorker(_)
                | Mutation::DeleteWorker(_)
                | Mutation::PutApp(_)
                | Mutation::DeleteApp(_)
                | Mutation::PutExecutor(_)
                | Mutation::DeleteExecutor(..)
                | Mutation::PutRequest(_)
                | Mutation::DeleteRequest(_)
                | Mutation::DeleteEvents { .. } => {}
                Mutation::PutEvents(events) => self.hear(events),
            }
        }
        self.to_publish = mutations.to_vec();
        Some(batch)
    }

    /// Numbers have no gap, and what is told of a driver is stored with it.
    fn hear(&mut self, events: &[Event]) {
        for event in events {
            self.heard += 1;
            assert_eq!(event.sequence, EventSequence(self.heard));
            if let EventKind::Driver(state) = event.fact.kind {
                self.told.insert(event.fact.subject.to_string(), state);
            }
        }
        for driver in self.durable.values() {
            assert_eq!(
                self.told.get(driver.id.as_str()),
                Some(&driver.state),
                "{driver:?}"
            );
        }
    }

    fn check(&mut self, output: Output) -> Result<(), TestCaseError> {
        prop_assert!(!self.over, "an output after the step-down: {output:?}");
        match output {
            Output::Commit { batch, mutations } => {
                prop_assert!(self.in_flight.is_none(), "two commits at once");
                prop_assert!(self.to_publish.is_empty(), "a commit was not published");
                self.in_flight = Some((batch, mutations, self.step));
            }
            Output::Publish(publication) => {
                let durable = std::mem::take(&mut self.to_publish);
                prop_assert_eq!(publication.mutations.to_vec(), durable);
            }
            Output::Reply { ticket, answer } => {
                prop_assert!(self.answered.insert(ticket), "answered twice");
                if let Answer::Reply(_) = answer {
                    prop_assert!(self.to_publish.is_empty(), "a reply before its publication");
                    let since = self.submitted[&ticket];
                    prop_assert!(
                        self.proven_since.is_some_and(|began| began >= since),
                        "a reply without a commit that began after the request"
                    );
                }
            }
            Output::Effect(effect) => {
                prop_assert!(
                    self.to_publish.is_empty(),
                    "an effect before its publication"
                );
                if let Effect::Worker {
                    worker,
                    order:
                        WorkerOrder::LaunchDriver {
                            driver, attempt, ..
                        },
                } = effect
                {
                    let stored = self.durable.get(&driver);
                    let placed = stored.is_some_and(|stored| {
                        stored.attempt > attempt
                            || stored.attempt == attempt && stored.worker == Some(worker)
                    });
                    prop_assert!(placed, "{driver} attempt {attempt} is not durable");
                }
            }
            Output::Reregister { .. } => {}
            Output::StepDown(_) => self.over = true,
        }
        Ok(())
    }
}

fn command(step: &Step, sequence: u64) -> Option<Command> {
    let driver_id = |n: u8| DriverId::new(format!("driver-{n}"));
    match *step {
        Step::Submit(n) => Some(Command::SubmitDriver {
            request: RequestId::new(format!("s{n}")),
            fingerprint: Fingerprint([n % 11; 32]),
            spec: Arc::new(DriverSpec {
                at_most_once: false,
                needs_executors: false,
                priority: 0,
                name: "n".into(),
                user: "u".into(),
                payload: DriverPayload::Command(CommandLine::default()),
                cores: Cores(1 + u32::from(n % 2)),
                memory: MemoryMib(64),
                resources: Amounts::new(),
                supervise: n % 3 == 0,
            }),
        }),
        Step::Register(n) => Some(Command::RegisterWorker {
            worker: WorkerId::new(format!("w{n}")),
            spec: Arc::new(WorkerSpec {
                cores: Cores(3),
                memory: MemoryMib(1024),
                incarnation: "i".into(),
                ..WorkerSpec::default()
            }),
            report: FullReport {
                drivers: vec![RunningDriver {
                    driver: driver_id(n),
                    attempt: Attempt(1),
                    started_at: Timestamp(1),
                }],
                ..FullReport::default()
            },
        }),
        Step::Running(n) => Some(Command::Report {
            worker: WorkerId::new(format!("w{}", n % 3)),
            report: Report {
                sequence: ReportSequence(sequence),
                at: Timestamp(1),
                subject: Subject::Driver {
                    driver: driver_id(n),
                    attempt: Attempt(1),
                },
                change: ProcessChange::Running,
            },
        }),
        Step::Kill(n) => Some(Command::Kill {
            request: None,
            id: format!("s{n}"),
        }),
        Step::KillAll => Some(Command::KillAllDrivers { request: None }),
        Step::Heartbeat(_) | Step::Tick(_) | Step::Poll | Step::Committed | Step::Failed(_) => None,
    }
}

fn limits() -> impl Strategy<Value = BatchLimits> {
    (1..5_usize, 1..6_usize, 300..3_000_usize).prop_map(|(commands, mutations, bytes)| {
        BatchLimits {
            commands,
            mutations,
            bytes,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn nothing_leaves_before_its_commit(steps in steps(), batch in limits(), queue_max in 0..6_usize) {
        let config = LeaderConfig { batch, queue_max, ..LeaderConfig::default() };
        let mut now = Timestamp(1_000_000);
        let mut machine = LeaderMachine::recover(
            Epoch(3),
            config,
            ClusterConfig::default(),
            RecoveredEntities::default(),
            now,
        );
        let mut world = World::default();
        for (index, step) in steps.iter().enumerate() {
            world.step = index;
            if let Some(command) = command(step, index as u64) {
                let ticket = Ticket(index as u64);
                world.submitted.insert(ticket, index);
                let deadline = Timestamp(now.0 + 500 + 100 * (index as u64 % 9));
                machine.submit(Some(ticket), command, deadline, now);
                continue;
            }
            match step {
                Step::Heartbeat(n) => machine.heartbeat(&WorkerId::new(format!("w{n}")), now),
                Step::Tick(ms) => {
                    now = Timestamp(now.0 + u64::from(*ms));
                    machine.tick(now);
                }
                Step::Committed => {
                    if let Some(batch) = world.commit() {
                        machine.committed(batch, now);
                    }
                }
                Step::Failed(kind @ 1..) => {
                    if let Some((batch, ..)) = world.in_flight.take() {
                        let failure = match kind {
                            1 => CommitFailure::Fenced,
                            2 => CommitFailure::Rejected,
                            _ => CommitFailure::Unknown,
                        };
                        machine.commit_failed(batch, failure);
                        drop(machine.poll(now));
                        prop_assert!(machine.is_idle(), "somebody still waits");
                        return Ok(());
                    }
                }
                Step::Submit(_)
                | Step::Register(_)
                | Step::Running(_)
                | Step::Kill(_)
                | Step::KillAll
                | Step::Poll
                | Step::Failed(_) => {}
            }
            for output in machine.poll(now) {
                world.check(output)?;
            }
        }
        // Everything that is left settles, and everybody has been answered once.
        while !machine.is_idle() {
            if let Some(batch) = world.commit() {
                machine.committed(batch, now);
            }
            world.step += 1;
            for output in machine.poll(now) {
                world.check(output)?;
            }
        }
        prop_assert_eq!(world.answered.len(), world.submitted.len());
        machine.state().validate().map_err(|e| TestCaseError::fail(format!("{e:?}")))?;
    }
}
