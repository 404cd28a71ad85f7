//! Who was heard of when. Owned by the leader's runtime, thrown away with the leadership, never stored: heartbeats do
//! not enter the log, only an expiry does.
//!
//! What must never happen: that a leader which was itself away (paused, starved, its clock set forward) takes its own
//! absence for everybody's silence. [`Liveness::expired`] measures the gap between its own calls, and after a long
//! one everybody gets one more period.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    command::Command,
    config::ClusterConfig,
    ids::{AppId, WorkerId},
    state::{cluster::ClusterState, worker::WorkerState},
    time::Timestamp,
};

/// Calls of [`Liveness::expired`] that are further apart than this show that the leader itself was away.
pub const STALL_MAX: Duration = Duration::from_secs(2);

/// An expiry is said again, one period later, this often at most, in case that a command was refused.
pub const EXPIRY_REPEATS_MAX: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    Worker(WorkerId),
    App(AppId),
}

#[derive(Debug, Clone, Copy)]
struct Deadline {
    at: Timestamp,
    said: u32,
}

/// Deadlines of workers, and of applications whose session is away.
#[derive(Debug, Clone)]
pub struct Liveness {
    worker_timeout: Duration,
    app_timeout: Duration,
    deadlines: BTreeMap<Peer, Deadline>,
    due: BTreeSet<(Timestamp, Peer)>,
    last_call: Timestamp,
}

// === impl Liveness ===

impl Liveness {
    /// The table of a new leader: every worker that is not dead gets the worker timeout, every application that is
    /// not over gets the recovery timeout to come back, whatever the old leader knew.
    #[must_use]
    pub fn renewed(state: &ClusterState, config: &ClusterConfig, now: Timestamp) -> Self {
        let mut table = Self {
            worker_timeout: config.worker_timeout,
            app_timeout: config.app_timeout,
            deadlines: BTreeMap::new(),
            due: BTreeSet::new(),
            last_call: now,
        };
        for worker in state.workers().filter(|w| w.state != WorkerState::Dead) {
            table.arm(
                Peer::Worker(worker.id.clone()),
                now.plus(config.worker_timeout),
                0,
            );
        }
        for app in state.apps().filter(|a| !a.state.is_final()) {
            table.arm(
                Peer::App(app.id.clone()),
                now.plus(config.recovery_timeout),
                0,
            );
        }
        table
    }

    /// A sign of life from a worker: a heartbeat, a report, a registration.
    pub fn touch_worker(&mut self, worker: &WorkerId, now: Timestamp) {
        self.arm(
            Peer::Worker(worker.clone()),
            now.plus(self.worker_timeout),
            0,
        );
    }

    /// An application's session is here.
    pub fn attach_app(&mut self, app: &AppId) {
        self.disarm(&Peer::App(app.clone()));
    }

    /// An application's session has ended; it has the application timeout to come back.
    pub fn detach_app(&mut self, app: &AppId, now: Timestamp) {
        self.arm(Peer::App(app.clone()), now.plus(self.app_timeout), 0);
    }

    /// Expiries to apply. To be called about every 100 ms; costs what is due. Each is said at most
    /// [`EXPIRY_REPEATS_MAX`] times, then the peer is forgotten here.
    #[must_use]
    pub fn expired(&mut self, now: Timestamp) -> Vec<Command> {
        let stalled = now.since(self.last_call) > STALL_MAX;
        self.last_call = now;
        if stalled {
            self.renew_all(now);
            return Vec::new();
        }
        let mut commands = Vec::new();
        while let Some((at, peer)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            let said = self
                .deadlines
                .get(&peer)
                .map_or(0, |deadline| deadline.said)
                + 1;
            let period = self.period(&peer);
            commands.push(match &peer {
                Peer::Worker(worker) => Command::ExpireWorker {
                    worker: worker.clone(),
                },
                Peer::App(app) => Command::ExpireApplication { app: app.clone() },
            });
            if said >= EXPIRY_REPEATS_MAX {
                self.disarm(&peer);
            } else {
                self.arm(peer, now.plus(period), said);
            }
        }
        commands
    }

    fn renew_all(&mut self, now: Timestamp) {
        let peers: Vec<_> = self
            .deadlines
            .iter()
            .map(|(peer, d)| (peer.clone(), *d))
            .collect();
        for (peer, deadline) in peers {
            let at = deadline.at.max(now.plus(self.period(&peer)));
            self.arm(peer, at, deadline.said);
        }
    }

    fn period(&self, peer: &Peer) -> Duration {
        match peer {
            Peer::Worker(_) => self.worker_timeout,
            Peer::App(_) => self.app_timeout,
        }
    }

    fn arm(&mut self, peer: Peer, at: Timestamp, said: u32) {
        self.disarm(&peer);
        self.due.insert((at, peer.clone()));
        self.deadlines.insert(peer, Deadline { at, said });
    }

    fn disarm(&mut self, peer: &Peer) {
        if let Some(deadline) = self.deadlines.remove(peer) {
            self.due.remove(&(deadline.at, peer.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{cluster::RecoveredEntities, worker::Worker};

    fn table() -> Liveness {
        let config = ClusterConfig::default();
        let state =
            ClusterState::recover(config.clone(), RecoveredEntities::default(), Timestamp(0));
        Liveness::renewed(&state, &config, Timestamp(0))
    }

    fn run(table: &mut Liveness, from: u64, to: u64) -> Vec<(u64, Command)> {
        (from..=to)
            .step_by(100)
            .flat_map(|at| {
                table
                    .expired(Timestamp(at))
                    .into_iter()
                    .map(move |c| (at, c))
            })
            .collect()
    }

    #[test]
    fn a_silent_worker_expires_a_beating_one_does_not() {
        let (w1, w2) = (WorkerId::from("w1"), WorkerId::from("w2"));
        let mut table = table();
        table.touch_worker(&w1, Timestamp(0));
        table.touch_worker(&w2, Timestamp(0));
        assert_eq!(run(&mut table, 0, 15_000), []);
        table.touch_worker(&w2, Timestamp(15_000));
        let expire = Command::ExpireWorker { worker: w1.clone() };
        assert_eq!(run(&mut table, 15_100, 20_000), [(20_000, expire)]);
        // Heard of again, it is not given up a second time before it has been silent as long again.
        table.touch_worker(&w1, Timestamp(20_050));
        table.touch_worker(&w2, Timestamp(20_050));
        assert_eq!(run(&mut table, 20_100, 40_000), []);
    }

    #[test]
    fn a_leader_that_was_away_gives_everybody_one_more_period() {
        let w1 = WorkerId::from("w1");
        let mut table = table();
        table.touch_worker(&w1, Timestamp(0));
        assert_eq!(run(&mut table, 0, 1_000), []);
        assert_eq!(table.expired(Timestamp(3_600_000)), []);
        assert_eq!(run(&mut table, 3_600_100, 3_619_900), []);
        assert_eq!(run(&mut table, 3_620_000, 3_620_000).len(), 1);
    }

    #[test]
    fn a_leader_that_was_stopped_for_half_a_minute_expires_only_who_stays_silent() {
        let workers: Vec<_> = (0..1_000)
            .map(|n| WorkerId::from(format!("w{n}")))
            .collect();
        let mut table = table();
        let beat = |table: &mut Liveness, of: &[WorkerId], at: u64| {
            of.iter().for_each(|w| table.touch_worker(w, Timestamp(at)));
        };
        beat(&mut table, &workers, 0);
        assert_eq!(run(&mut table, 0, 5_000), []);
        beat(&mut table, &workers, 5_000);
        assert_eq!(run(&mut table, 5_100, 10_000), []);
        // SIGSTOP at 10 s, SIGCONT at 40 s: every deadline has passed, and no heartbeat was read meanwhile.
        assert_eq!(table.expired(Timestamp(40_000)), []);
        assert_eq!(run(&mut table, 40_100, 45_000), []);
        beat(&mut table, &workers[1..], 45_000);
        let silent = workers[0].clone();
        let expire = Command::ExpireWorker { worker: silent };
        assert_eq!(run(&mut table, 45_100, 64_900), [(60_000, expire)]);
    }

    #[test]
    fn a_leader_whose_wall_clock_is_an_hour_off_expires_nobody_for_that() {
        const HOUR: u64 = 3_600_000;
        let config = ClusterConfig::default();
        let worker = Worker {
            drain: None,
            not_accepting: String::new(),
            id: WorkerId::from("w1"),
            spec: Default::default(),
            state: WorkerState::Alive,
            registered_at: Timestamp(HOUR),
        };
        let entities = RecoveredEntities {
            workers: vec![worker],
            ..RecoveredEntities::default()
        };
        for now in [0, 2 * HOUR] {
            let state = ClusterState::recover(config.clone(), entities.clone(), Timestamp(now));
            let mut table = Liveness::renewed(&state, &config, Timestamp(now));
            assert_eq!(run(&mut table, now, now + 19_900), []);
            assert_eq!(run(&mut table, now + 20_000, now + 20_000).len(), 1);
        }
    }

    #[test]
    fn an_application_expires_only_while_its_session_is_away() {
        let app = AppId::from("app-1");
        let mut table = table();
        table.attach_app(&app);
        assert_eq!(run(&mut table, 0, 60_000), []);
        table.detach_app(&app, Timestamp(60_000));
        let expire = Command::ExpireApplication { app: app.clone() };
        assert_eq!(run(&mut table, 60_100, 70_000), [(70_000, expire)]);
    }

    #[test]
    fn an_expiry_is_said_a_few_times_and_then_forgotten() {
        let mut table = table();
        table.touch_worker(&WorkerId::from("w1"), Timestamp(0));
        let times: Vec<_> = run(&mut table, 0, 200_000)
            .into_iter()
            .map(|(at, _)| at)
            .collect();
        assert_eq!(times, [20_000, 40_000, 60_000]);
        assert!(table.deadlines.is_empty() && table.due.is_empty());
    }
}
