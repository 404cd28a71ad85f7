//! Heartbeats that say what a worker runs: a difference that stays is settled by a full report, both ways.

use std::time::Duration;

use interrex_core::{
    command::{Command, FullReport, ProcessChange, Report, Subject},
    config::ClusterConfig,
    ids::{AppId, Attempt, DriverId, Epoch, ExecutorId, ReportSequence, WorkerId},
    leader::{Heartbeat, LeaderConfig, LeaderMachine, Output, Reregister},
    state::cluster::RecoveredEntities,
    time::Timestamp,
};

use crate::{
    specs::{app, driver, register_app, submit, supervised, worker},
    support::{Cluster, START, exited},
};

/// A leader with one worker, w1, and its store: every commit succeeds.
struct Leader {
    machine: LeaderMachine,
    now: u64,
}

impl Leader {
    fn new() -> Self {
        let machine = LeaderMachine::recover(
            Epoch(1),
            LeaderConfig::default(),
            ClusterConfig::default(),
            RecoveredEntities::default(),
            Timestamp(START),
        );
        let mut leader = Self {
            machine,
            now: START,
        };
        leader.register(FullReport::default());
        leader
    }

    fn register(&mut self, report: FullReport) {
        self.apply(Command::RegisterWorker {
            worker: "w1".into(),
            spec: worker(8, 8192).into(),
            report,
        });
    }

    /// What comes out, with everything committed.
    fn settle(&mut self) -> Vec<Output> {
        let now = Timestamp(self.now);
        let mut all = Vec::new();
        loop {
            let outputs = self.machine.poll(now);
            if outputs.is_empty() {
                return all;
            }
            for output in outputs {
                if let Output::Commit { batch, .. } = &output {
                    self.machine.committed(*batch, now);
                }
                all.push(output);
            }
        }
    }

    fn apply(&mut self, command: Command) -> Vec<Output> {
        let now = Timestamp(self.now);
        let deadline = Timestamp(self.now + 60_000);
        self.machine.submit(None, command, deadline, now);
        self.settle()
    }

    fn report(&mut self, subject: Subject, change: ProcessChange) {
        let report = Report {
            sequence: ReportSequence(1),
            at: Timestamp(self.now),
            subject,
            change,
        };
        let worker = WorkerId::from("w1");
        self.apply(Command::Report { worker, report });
    }

    /// A driver and an executor that run on w1.
    fn with_work(&mut self) -> (Subject, Subject) {
        self.apply(submit("s1", driver(1, 1)));
        self.apply(register_app("a1", app(1, Some(1), Some(1))));
        let state = self.machine.state();
        let driver: DriverId = state.drivers().next().expect("one").id.clone();
        let app: AppId = state.apps().next().expect("one").id.clone();
        let driver = Subject::Driver {
            driver,
            attempt: Attempt(1),
        };
        let executor = Subject::Executor {
            app,
            executor: ExecutorId(0),
        };
        for subject in [&driver, &executor] {
            self.report(subject.clone(), ProcessChange::Running);
        }
        (driver, executor)
    }

    fn recorded(&self) -> u64 {
        self.machine.state().digest(&"w1".into())
    }

    /// A heartbeat five seconds later; true if the worker is asked for its full report.
    fn beat(&mut self, digest: u64) -> bool {
        self.now += 5_000;
        let heartbeat = Heartbeat {
            digest,
            ..Heartbeat::default()
        };
        let worker = WorkerId::from("w1");
        self.machine.heartbeat(&worker, Timestamp(self.now));
        self.machine.heard(&worker, heartbeat, Timestamp(self.now));
        let reason = Reregister::Differs;
        self.settle()
            .contains(&Output::Reregister { worker, reason })
    }
}

#[test]
fn a_worker_that_runs_what_is_recorded_is_left_alone() {
    let mut leader = Leader::new();
    assert_eq!(leader.recorded(), 0);
    leader.with_work();
    let digest = leader.recorded();
    assert_ne!(digest, 0);
    for _ in 0..5 {
        assert!(!leader.beat(digest));
    }
}

#[test]
fn a_difference_that_stays_asks_for_a_full_report() {
    // W28: Spark's heartbeats carry no state, so a lost message is never repaired.
    let mut leader = Leader::new();
    leader.with_work();
    let recorded = leader.recorded();
    // It runs something that is not recorded; then, nothing of what is.
    assert!(!leader.beat(recorded ^ 1));
    assert!(leader.beat(recorded ^ 1));
    assert!(!leader.beat(0));
    assert!(leader.beat(0));
}

#[test]
fn an_end_that_is_not_acknowledged_yet_is_no_difference() {
    let mut leader = Leader::new();
    let (driver, _) = leader.with_work();
    let before = leader.recorded();
    leader.report(driver, exited(0));
    assert_ne!(leader.recorded(), before);
    // The acknowledgement was on its way when this heartbeat left.
    assert!(!leader.beat(before));
    assert!(!leader.beat(leader.recorded()));
    assert!(!leader.beat(before), "once more is not twice in a row");
}

#[test]
fn nothing_is_asked_while_an_order_waits_for_its_answer() {
    let mut leader = Leader::new();
    leader.apply(submit("s1", driver(1, 1)));
    // The launch is on its way, or lost: it is sent again anyway.
    for _ in 0..4 {
        assert!(!leader.beat(0));
    }
    let (driver, _) = leader.with_work();
    let Subject::Driver { driver, .. } = driver else {
        panic!("a driver")
    };
    let id = driver.to_string();
    leader.apply(Command::Kill { request: None, id });
    for _ in 0..4 {
        assert!(!leader.beat(1));
    }
}

#[test]
fn a_full_report_settles_the_difference() {
    let mut leader = Leader::new();
    leader.with_work();
    assert!(!leader.beat(0) && leader.beat(0));
    leader.register(FullReport::default());
    // What ran is lost, and its replacement is on its way.
    let state = leader.machine.state();
    assert!(state.drivers().all(|driver| driver.state.is_final()));
    assert!(state.awaits_answer(&"w1".into()));
    assert!(!leader.beat(0) && !leader.beat(0));
}

#[test]
fn a_registration_forgets_what_was_seen_before_it() {
    let mut leader = Leader::new();
    assert!(!leader.beat(5));
    leader.register(FullReport::default());
    assert!(!leader.beat(5));
    assert!(leader.beat(5));
}

#[test]
fn news_about_wanting_work_enters_once_and_counts_at_once() {
    let mut leader = Leader::new();
    let say = |leader: &mut Leader, why: &str| {
        let heartbeat = Heartbeat {
            digest: leader.recorded(),
            not_accepting: why.to_owned(),
        };
        let now = Timestamp(leader.now);
        leader.machine.heard(&"w1".into(), heartbeat, now);
        leader.settle().len()
    };
    assert_eq!(say(&mut leader, ""), 0, "nothing new");
    assert!(say(&mut leader, "disk full") > 0);
    assert_eq!(say(&mut leader, "disk full"), 0, "only a change enters");
    leader.apply(submit("s1", driver(1, 1)));
    assert_eq!(leader.recorded(), 0);
    assert!(say(&mut leader, "") > 0);
    assert_ne!(leader.recorded(), 0);
}

#[test]
fn a_silent_worker_is_dead_within_its_timeout_and_a_second() {
    // W42: Spark looks once a timeout, and needs up to two of them.
    let mut leader = Leader::new();
    let alive = |leader: &Leader| {
        let w1 = leader.machine.state().worker(&"w1".into());
        w1.expect("known").state_name() == "ALIVE"
    };
    leader.beat(0);
    let last = leader.now;
    while alive(&leader) {
        leader.now += 100;
        leader.machine.tick(Timestamp(leader.now));
        leader.settle();
        assert!(leader.now <= last + 21_000, "still alive");
    }
    assert!(
        leader.now >= last + 20_000,
        "given up after {}",
        leader.now - last
    );
}

#[test]
fn a_worker_that_beats_is_not_given_up_though_its_report_is_missing() {
    // Its heartbeats are acknowledged, so what may run at most once lives on there.
    let mut leader = Leader::new();
    let worker = WorkerId::from("w1");
    leader.apply(Command::WorkerDisconnected {
        worker: worker.clone(),
    });
    let asked = Output::Reregister {
        worker: worker.clone(),
        reason: Reregister::NoReport,
    };
    for _ in 0..600 {
        leader.now += 100;
        leader.machine.heartbeat(&worker, Timestamp(leader.now));
        leader.machine.tick(Timestamp(leader.now));
        assert!(leader.settle().contains(&asked));
    }
    let w1 = leader.machine.state().worker(&worker);
    assert_eq!(w1.expect("known").state_name(), "UNKNOWN");
}

#[test]
fn another_executor_or_attempt_in_place_of_one_is_a_difference() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(8, 8192));
    let driver = cluster.submit("s1", supervised(1, 1));
    let app = cluster.register_app("a1", app(1, Some(1), Some(1)));
    let first = cluster.state.digest(&"w1".into());
    cluster.report_executor(&app, 0, exited(1));
    assert_eq!(cluster.placement(&app), ["1@w1:1"]);
    let second = cluster.state.digest(&"w1".into());
    assert_ne!(first, second);
    cluster.report_driver("w1", &driver, 1, exited(1));
    cluster.tick_after(Duration::from_secs(1));
    assert_eq!(cluster.driver(&driver).attempt, Attempt(2));
    assert_ne!(cluster.state.digest(&"w1".into()), second);
}
