//! Whatever the masters order and whatever becomes of the processes: the machine's promises hold after each step.

use std::{collections::BTreeMap, time::Duration};

use interrex_proto::v1::{
    Exit, HeartbeatAck, KillDriver, ProcessState, ReportAck, master_frame::Body, work_report,
};
use proptest::prelude::*;

use super::{
    Action, Event, Now, WorkerMachine,
    machine_test::{attached_event, launch_driver, launch_executor, options, spec},
};
use crate::{
    outbox::is_result,
    process::{EndCause, Launch, ProcessEvent, WorkKey},
};

#[derive(Debug, Clone)]
enum Step {
    LaunchDriver { id: u8, attempt: u32, cores: u32 },
    LaunchExecutor { id: u32, cores: u32 },
    LaunchOnce { id: u8, attempt: u32 },
    Hear { pick: usize },
    KillDriver { id: u8, attempt: u32 },
    Started { pick: usize },
    Ended { pick: usize },
    Acknowledge { pick: usize },
    StoreFails,
    Detached,
    Attached,
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_u8, 1..4_u32, 1..4_u32)
            .prop_map(|(id, attempt, cores)| Step::LaunchDriver { id, attempt, cores }),
        2 => (1..5_u32, 1..4_u32).prop_map(|(id, cores)| Step::LaunchExecutor { id, cores }),
        3 => (3..5_u8, 1..3_u32).prop_map(|(id, attempt)| Step::LaunchOnce { id, attempt }),
        4 => any::<usize>().prop_map(|pick| Step::Hear { pick }),
        2 => (0..5_u8, 1..4_u32).prop_map(|(id, attempt)| Step::KillDriver { id, attempt }),
        3 => any::<usize>().prop_map(|pick| Step::Started { pick }),
        4 => any::<usize>().prop_map(|pick| Step::Ended { pick }),
        3 => any::<usize>().prop_map(|pick| Step::Acknowledge { pick }),
        1 => Just(Step::StoreFails),
        1 => Just(Step::Detached),
        1 => Just(Step::Attached),
        2 => (0..40_u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// The world around the machine: a runner, a disk, a master.
#[derive(Debug, Default)]
struct World {
    alive: BTreeMap<WorkKey, Launch>,
    running: BTreeMap<WorkKey, bool>,
    killed: BTreeMap<WorkKey, bool>,
    starts: BTreeMap<WorkKey, u32>,
    disk: BTreeMap<u64, WorkKey>,
    sent: BTreeMap<u64, work_report::Body>,
    results: BTreeMap<WorkKey, ProcessState>,
    store_fails: bool,
    /// Heartbeats on their way: when each left.
    beats: BTreeMap<u64, Duration>,
    lease_until: Duration,
    now: Duration,
}

/// What [`attached_event`] gives.
const LEASE: Duration = Duration::from_secs(10);

impl World {
    /// Carries an action out, checks what must never happen, and returns what comes back.
    fn carry_out(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Start(launch) => self.start(*launch),
            Action::Kill { key, .. } => {
                // A lease may be over when the news of an end comes in.
                let once = is_once(&key);
                assert!(
                    self.alive.contains_key(&key) || once,
                    "a kill of {key}, which is not there"
                );
                if self.alive.contains_key(&key) {
                    self.killed.insert(key, true);
                }
            }
            Action::Heartbeat(beat) => {
                self.beats.insert(beat.sequence, self.now);
            }
            Action::Renew(lease) => assert!(lease.until() <= self.lease_until, "given too long"),
            Action::Store(report) => {
                let sequence = report.sequence;
                let stored = !std::mem::take(&mut self.store_fails);
                let key = crate::outbox::key_of(report.body.as_ref().unwrap());
                if stored {
                    self.disk.insert(sequence, key);
                }
                return Some(Event::Stored { sequence, stored });
            }
            Action::Forget(sequence) => {
                self.disk.remove(&sequence);
            }
            Action::Report(report) => {
                let body = report.body.unwrap();
                if is_result(&body) {
                    let key = crate::outbox::key_of(&body);
                    assert!(
                        !self.alive.contains_key(&key),
                        "{key} was reported as over while alive"
                    );
                    let state = match &body {
                        work_report::Body::Driver(driver) => driver.state(),
                        work_report::Body::Executor(executor) => executor.state(),
                    };
                    let earlier = self.results.insert(key.clone(), state);
                    assert!(
                        earlier.is_none_or(|earlier| earlier == state),
                        "{key} ended twice"
                    );
                }
                self.sent.insert(report.sequence, body);
            }
            Action::PersistEpoch(_)
            | Action::PersistCluster(_)
            | Action::PersistMasters(_)
            | Action::Register { .. }
            | Action::Stale(_) => {}
        }
        None
    }

    fn start(&mut self, launch: Launch) {
        let key = launch.key.clone();
        if let WorkKey::Driver { driver_id, .. } = &key {
            let other = self.alive.keys().find(
                |alive| matches!(alive, WorkKey::Driver { driver_id: id, .. } if id == driver_id),
            );
            assert_eq!(other, None, "two attempts of one driver");
        }
        *self.starts.entry(key.clone()).or_default() += 1;
        assert_eq!(self.starts[&key], 1, "{key} was started twice");
        self.alive.insert(key.clone(), launch);
        if let Some(lease) = self.alive[&key].lease {
            assert!(
                lease.until() <= self.lease_until,
                "{key} was given too long"
            );
            assert!(self.now < self.lease_until, "{key} began without a lease");
        }
        let used: u32 = self.alive.values().map(|launch| launch.cores).sum();
        assert!(used <= spec().cores, "{used} cores in use");
    }

    fn event(&mut self, step: &Step) -> Option<Event> {
        let frame = |body| {
            Some(Event::Frame {
                epoch: 5,
                body: Box::new(body),
            })
        };
        match step {
            Step::LaunchDriver { id, attempt, cores } => {
                frame(launch_driver(&format!("d{id}"), *attempt, *cores))
            }
            Step::LaunchExecutor { id, cores } => frame(launch_executor("a1", *id, *cores)),
            Step::LaunchOnce { id, attempt } => {
                let Body::LaunchDriver(mut order) = launch_driver(&format!("d{id}"), *attempt, 1)
                else {
                    return None;
                };
                order.spec.as_mut().unwrap().at_most_once = true;
                frame(Body::LaunchDriver(order))
            }
            Step::Hear { pick } => {
                let sequence = pick_of(self.beats.keys(), *pick)?;
                let sent = self.beats.remove(&sequence)?;
                // At best; the machine may give less.
                self.lease_until = self.lease_until.max(sent + LEASE);
                frame(Body::HeartbeatAck(HeartbeatAck { sequence }))
            }
            Step::KillDriver { id, attempt } => frame(Body::KillDriver(KillDriver {
                driver_id: format!("d{id}"),
                attempt: *attempt,
            })),
            Step::Started { pick } => {
                let key = pick_of(self.alive.keys(), *pick)?;
                if self.running.insert(key.clone(), true).is_some() {
                    return None;
                }
                Some(Event::Process(ProcessEvent::Started { key, pid: 1 }))
            }
            Step::Ended { pick } => {
                let key = pick_of(self.alive.keys(), *pick)?;
                Some(self.end(key))
            }
            Step::Acknowledge { pick } => {
                let sequence = pick_of(self.sent.keys(), *pick)?;
                self.sent.remove(&sequence);
                frame(Body::ReportAck(ReportAck {
                    sequences: vec![sequence],
                }))
            }
            Step::StoreFails => {
                self.store_fails = true;
                None
            }
            Step::Detached => Some(Event::Detached {
                reason: String::new(),
            }),
            Step::Attached => Some(attached_event(5)),
            Step::Wait { .. } => Some(Event::Tick),
        }
    }

    fn end(&mut self, key: WorkKey) -> Event {
        self.alive.remove(&key);
        let ordered = self.killed.remove(&key).is_some();
        let cause = if ordered {
            EndCause::Order
        } else {
            EndCause::Itself
        };
        let exit = Some(Exit {
            code: Some(0),
            signal: None,
        });
        Event::Process(ProcessEvent::Ended { key, exit, cause })
    }
}

/// Drivers `d3` and `d4` are only ever launched to run at most once.
fn is_once(key: &WorkKey) -> bool {
    matches!(key, WorkKey::Driver { driver_id, .. } if driver_id == "d3" || driver_id == "d4")
}

fn pick_of<'all, T: Clone + 'all>(
    all: impl ExactSizeIterator<Item = &'all T>,
    pick: usize,
) -> Option<T> {
    let length = all.len();
    let mut all = all;
    all.nth(pick.checked_rem(length)?).cloned()
}

fn drive(machine: &mut WorkerMachine, world: &mut World, event: Event, now: Now) {
    world.now = now.boot;
    let mut events = vec![event];
    while let Some(event) = events.pop() {
        for action in machine.handle(event, now) {
            events.extend(world.carry_out(action));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_attempt_runs_twice_or_beside_another_and_every_result_is_told(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut machine = WorkerMachine::new(options(), 1, Vec::new(), Vec::new());
        let mut world = World::default();
        let mut elapsed = Duration::ZERO;
        let now = |elapsed| Now { elapsed, boot: elapsed, wall_ms: 0 };
        drive(&mut machine, &mut world, attached_event(5), now(elapsed));
        for step in &steps {
            if let Step::Wait { seconds } = step {
                elapsed += Duration::from_secs(*seconds);
            }
            if let Some(event) = world.event(step) {
                drive(&mut machine, &mut world, event, now(elapsed));
            }
            // The pump would wake it by now.
            if machine.next_deadline().is_some_and(|at| at <= elapsed) {
                drive(&mut machine, &mut world, Event::Tick, now(elapsed));
            }
            for key in world.alive.keys().filter(|key| is_once(key)) {
                prop_assert!(
                    elapsed < world.lease_until || world.killed.contains_key(key),
                    "{} lives on without a lease", key
                );
            }
            prop_assert_eq!(
                machine.usage().cores_used,
                world.alive.values().map(|launch| launch.cores).sum::<u32>()
            );
        }
        // Peace: everything ends, a master is there and acknowledges. Nothing may be left.
        drive(&mut machine, &mut world, attached_event(5), now(elapsed));
        for _ in 0..200 {
            while let Some(key) = world.alive.keys().next().cloned() {
                let event = world.end(key);
                drive(&mut machine, &mut world, event, now(elapsed));
            }
            let sequences: Vec<u64> = std::mem::take(&mut world.sent).into_keys().collect();
            let ack = Body::ReportAck(ReportAck { sequences });
            drive(&mut machine, &mut world, Event::Frame { epoch: 5, body: Box::new(ack) }, now(elapsed));
            if machine.is_idle() && machine.has_reported_all() {
                break;
            }
            elapsed += Duration::from_secs(6);
            drive(&mut machine, &mut world, Event::Tick, now(elapsed));
        }
        prop_assert!(machine.is_idle());
        prop_assert!(machine.has_reported_all());
        prop_assert!(world.disk.is_empty(), "left on disk: {:?}", world.disk);
    }
}
