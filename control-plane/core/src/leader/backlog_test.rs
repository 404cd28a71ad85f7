//! A backlog becomes neither one large entry nor a silence: counted in commits, not in seconds.

use std::{collections::BTreeMap, time::Duration};

use super::fixtures::{driver_with, worker_with};
use crate::{
    command::Command,
    config::ClusterConfig,
    ids::{Epoch, WorkerId},
    leader::{Answer, BatchLimits, LeaderConfig, LeaderMachine, Output, Ticket, batch},
    resources::{Cores, MemoryMib},
    state::cluster::{ClusterState, RecoveredEntities},
    time::Timestamp,
    transition::Mutation,
};

const QUEUED: u64 = 20_000;
const FINISHED: u64 = 50_000;
/// What one commit takes here. Of no importance, but that time passes: workers expire after 20 s.
const COMMIT: Duration = Duration::from_millis(100);
/// A submission that comes while a batch is being committed is in the next one; a batch that is full already makes it wait
/// for one more.
const COMMITS_TO_AN_ANSWER_MAX: u64 = 3;
/// Records of forgotten events that one batch may carry besides its own mutations.
const EVENT_RECORDS_MAX: usize = 101;

/// A leader under load: with each commit a tick, a submission and a heartbeat of every worker.
struct Leader {
    machine: LeaderMachine,
    now: Timestamp,
    workers: Vec<WorkerId>,
    commits: u64,
    /// Submissions that wait, and the commit during which they came.
    asked: BTreeMap<Ticket, u64>,
    answered: u64,
    largest: (usize, usize),
}

fn submission(id: &str) -> Command {
    driver_with(id, vec!["x".repeat(100)])
}

fn worker(id: &str, cores: u32) -> Command {
    worker_with(id, Cores(cores), MemoryMib(1 << 40))
}

fn config() -> ClusterConfig {
    ClusterConfig {
        retained_drivers: u32::try_from(2 * FINISHED).expect("few"),
        ..ClusterConfig::default()
    }
}

/// What is stored when so many drivers wait.
fn waiting(drivers: u64) -> ClusterState {
    let mut state =
        ClusterState::recover(config(), RecoveredEntities::default(), Timestamp(1_000_000));
    for n in 0..drivers {
        state.apply(Timestamp(1_000_000), submission(&format!("q{n}")));
    }
    state
}

// === impl Leader ===

impl Leader {
    fn over(state: &ClusterState) -> Self {
        let entities = RecoveredEntities {
            meta: state.meta().clone(),
            drivers: state.drivers().map(|driver| (**driver).clone()).collect(),
            requests: state
                .requests()
                .map(|request| (**request).clone())
                .collect(),
            ..RecoveredEntities::default()
        };
        let now = Timestamp(2_000_000);
        let leader = LeaderConfig::default();
        Self {
            machine: LeaderMachine::recover(Epoch(7), leader, config(), entities, now),
            now,
            workers: Vec::new(),
            commits: 0,
            asked: BTreeMap::new(),
            answered: 0,
            largest: (0, 0),
        }
    }

    fn submit(&mut self, ticket: Option<Ticket>, command: Command) {
        let deadline = self.now.plus(Duration::from_secs(5));
        self.machine.submit(ticket, command, deadline, self.now);
    }

    /// Takes what is to be done; commits what is to be committed. False when there was nothing to commit.
    fn turn(&mut self) -> bool {
        let mut committing = None;
        for output in self.machine.poll(self.now) {
            match output {
                Output::Commit { batch, mutations } => {
                    assert_eq!(committing.replace(batch), None, "one at a time");
                    self.measure(&mutations);
                }
                Output::Reply { ticket, answer } => self.on_answer(ticket, &answer),
                Output::StepDown(reason) => panic!("the leadership has ended: {reason:?}"),
                Output::Effect(_) | Output::Publish(_) | Output::Reregister { .. } => {}
            }
        }
        let Some(batch) = committing else {
            return false;
        };
        // What comes while that is being stored.
        self.commits += 1;
        let ticket = Ticket(self.commits);
        self.asked.insert(ticket, self.commits);
        self.submit(Some(ticket), submission(&format!("late{}", self.commits)));
        self.now = self.now.plus(COMMIT);
        for worker in self.workers.clone() {
            self.machine.heartbeat(&worker, self.now);
        }
        self.machine.tick(self.now);
        self.machine.committed(batch, self.now);
        true
    }

    fn measure(&mut self, mutations: &[Mutation]) {
        let bytes = mutations.iter().map(batch::estimated_bytes).sum();
        let (most, heaviest) = self.largest;
        self.largest = (most.max(mutations.len()), heaviest.max(bytes));
        let limits = BatchLimits::default();
        assert!(mutations.len() <= limits.mutations + EVENT_RECORDS_MAX);
        let records = EVENT_RECORDS_MAX * batch::estimated_bytes(&Mutation::PutEvents([].into()));
        assert!(
            bytes <= limits.bytes + records,
            "{bytes} bytes in one entry"
        );
    }

    fn on_answer(&mut self, ticket: Ticket, answer: &Answer) {
        assert!(matches!(answer, Answer::Reply(_)), "{answer:?}");
        if let Some(asked) = self.asked.remove(&ticket) {
            let waited = self.commits - asked;
            assert!(
                waited <= COMMITS_TO_AN_ANSWER_MAX,
                "a submission has waited for {waited} commits"
            );
            self.answered += 1;
        }
    }
}

#[test]
fn cores_that_become_free_at_once_for_20_000_drivers_make_small_entries_and_no_silence() {
    let mut leader = Leader::over(&waiting(QUEUED));
    assert_eq!(leader.machine.state().waiting_drivers() as u64, QUEUED);
    for n in 0..20 {
        let id = format!("w{n}");
        leader.workers.push(WorkerId::new(id.as_str()));
        // A few cores more, for whoever is late.
        leader.submit(None, worker(&id, 1_100));
    }
    while leader.machine.state().waiting_drivers() > 0 {
        assert!(leader.turn(), "it has stopped");
        assert!(leader.commits < 200, "too many small entries");
    }
    // A thousand at a time, so that the first of them run long before the last is looked at.
    assert!(leader.commits >= 3, "{} commits", leader.commits);
    assert!(leader.answered + COMMITS_TO_AN_ANSWER_MAX >= leader.commits);
    let alive = leader.machine.state().workers();
    assert_eq!(
        alive
            .filter(|worker| worker.state.name() == "ALIVE")
            .count(),
        20
    );
    assert_eq!(leader.machine.state().validate(), Ok(()));
}

#[test]
fn clearing_50_000_finished_drivers_makes_small_entries_and_no_silence() {
    let mut state = waiting(FINISHED);
    state.apply(
        Timestamp(1_500_000),
        Command::KillAllDrivers { request: None },
    );
    let mut leader = Leader::over(&state);
    leader.workers.push(WorkerId::new("w1"));
    leader.submit(None, worker("w1", 1_000));
    assert!(leader.turn());
    let over = |leader: &Leader| {
        let drivers = leader.machine.state().drivers();
        drivers.filter(|driver| driver.state.is_final()).count() as u64
    };
    assert_eq!(over(&leader), FINISHED);
    let ticket = Ticket(u64::MAX);
    leader.submit(Some(ticket), Command::ClearCompleted { request: None });
    let before = leader.commits;
    while over(&leader) > 0 {
        assert!(leader.turn(), "it has stopped");
        assert!(leader.commits < 500, "too many small entries");
    }
    assert!(leader.commits - before >= 5, "{} commits", leader.commits);
    assert!(leader.answered + COMMITS_TO_AN_ANSWER_MAX >= leader.commits);
    assert_eq!(leader.machine.state().validate(), Ok(()));
}
