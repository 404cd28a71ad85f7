//! Any sequence of commands, hostile ones too: the invariants hold, the store holds what the state holds, what is
//! accepted is not lost, what is over stays as it was; and when faults stop, everything comes to an end.

use std::collections::{BTreeMap, BTreeSet};

use interrex_core::{
    command::{Command, WorkersNamed},
    config::ClusterConfig,
    explain::{Topic, explain},
    ids::{Attempt, DriverId},
    resources::Cores,
    state::{
        driver::{Driver, DriverState},
        worker::WorkerState,
    },
    time::Timestamp,
    transition::Reply,
};
use proptest::prelude::*;

use crate::{
    agents::Agents,
    specs::{driver, gpu_worker, submit, worker_spec},
    steps::{Step, WORKERS, config, run, step},
    support::Cluster,
};

/// The store holds exactly what the state holds. UNKNOWN of a worker is not stored.
fn assert_stored(cluster: &Cluster) {
    let known = |mut worker: interrex_core::state::worker::Worker| {
        if worker.state == WorkerState::Unknown {
            worker.state = WorkerState::Alive;
        }
        worker
    };
    let (state, store) = (&cluster.state, &cluster.store);
    let workers: Vec<_> = state.workers().map(|x| known((**x).clone())).collect();
    let stored: Vec<_> = store.workers.values().cloned().map(known).collect();
    assert_eq!(workers, stored);
    assert!(state.apps().map(|x| &**x).eq(store.apps.values()));
    assert!(state.drivers().map(|x| &**x).eq(store.drivers.values()));
    assert!(state.executors().map(|x| &**x).eq(store.executors.values()));
    assert!(state.requests().map(|x| &**x).eq(store.requests.values()));
    assert_eq!(*state.meta(), store.meta);
}

/// What was accepted, as last seen.
#[derive(Default)]
struct Promises(BTreeMap<DriverId, Driver>);

impl Promises {
    fn check(&mut self, cluster: &Cluster, killed: bool) {
        for (id, before) in &self.0 {
            match cluster.state.driver(id) {
                None => assert!(before.state.is_final(), "{id} was lost: {before:?}"),
                Some(now) if before.state.is_final() => assert_eq!(**now, *before),
                Some(now) => {
                    assert!(now.attempt >= before.attempt, "{before:?} became {now:?}");
                    let never_placed = now.attempt == Attempt(0);
                    let over = now.state.is_final() && !killed;
                    assert!(!(never_placed && over), "{before:?} became {now:?}");
                }
            }
        }
        self.0 = cluster
            .state
            .drivers()
            .map(|x| (x.id.clone(), (**x).clone()))
            .collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_commands_keeps_every_promise(
        config in config(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut cluster = Cluster::new(config);
        let mut promises = Promises::default();
        for step in &steps {
            run(&mut cluster, step);
            assert_stored(&cluster);
            cluster.assert_told();
            let kill = matches!(step, Step::Kill(..) | Step::KillText(_) | Step::KillAll(_));
            promises.check(&cluster, kill);
        }
    }

    #[test]
    fn the_same_commands_give_the_same_transitions(
        config in config(),
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let (mut one, mut two) = (Cluster::new(config.clone()), Cluster::new(config));
        for step in &steps {
            run(&mut one, step);
            run(&mut two, step);
            prop_assert_eq!(&one.last, &two.last);
        }
    }

    #[test]
    fn a_second_registration_changes_nothing(
        config in config(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut cluster = Cluster::new(config);
        for step in &steps {
            run(&mut cluster, step);
        }
        for worker in WORKERS {
            cluster.register(worker, worker_spec(0));
            let report = cluster.honest_report(worker);
            cluster.register_with(worker, worker_spec(0), report);
            let report = cluster.honest_report(worker);
            let again = cluster.register_with(worker, worker_spec(0), report);
            prop_assert_eq!(again.mutations, vec![]);
            prop_assert_eq!(again.reply, Reply::WorkerRegistered);
        }
    }
}

proptest! {
    // Each case plays more than 400 rounds.
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_waits_fits_nowhere_or_is_said_to_be_held(
        config in config(),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut cluster = Cluster::new(config);
        for step in &steps {
            run(&mut cluster, step);
        }
        let now = Timestamp(cluster.now);
        let drivers = cluster.state.drivers();
        let waiting = drivers.filter(|x| !x.state.is_final() && x.not_before.is_none());
        let drivers = waiting.map(|x| Topic::Driver(x.id.clone()));
        let apps = cluster.state.apps().filter(|x| x.not_before.is_none());
        for topic in drivers.chain(apps.map(|x| Topic::App(x.id.clone()))) {
            let explained = explain(&cluster.state, &topic, now).expect("it is there");
            prop_assert!(!explained.summary.is_empty());
            for wait in &explained.waits {
                let fits = wait.workers.iter().any(|verdict| verdict.fits);
                prop_assert!(!fits || wait.hopeless || !wait.held.is_empty(), "{:?}", explained);
            }
        }
    }

    #[test]
    fn when_faults_stop_everything_comes_to_an_end(
        config in config(),
        steps in proptest::collection::vec(step(), 1..80),
        lossy in proptest::collection::vec(any::<bool>(), 0..60),
    ) {
        let mut cluster = Cluster::new(config);
        for step in &steps {
            run(&mut cluster, step);
        }
        let host = WorkersNamed::Host("host".to_owned());
        cluster.apply(Command::UndrainWorkers { request: None, workers: host });
        let mut agents = Agents::default();
        for worker in WORKERS {
            agents.join(&mut cluster, worker, gpu_worker(16, 65_536, &["0", "1", "2", "3"]));
        }
        for worker in WORKERS.map(Into::into) {
            cluster.apply(Command::AcceptingChanged { worker, not_accepting: String::new() });
            agents.obey(&cluster.last.effects.clone());
        }
        // Losses first: orders and reports vanish, and are sent again.
        for lost in &lossy {
            agents.round(&mut cluster, *lost);
        }
        let apps: Vec<_> = cluster.state.apps().map(|app| app.id.clone()).collect();
        for app in apps {
            cluster.apply(Command::UnregisterApplication { app, failed: false, message: String::new() });
            agents.obey(&cluster.last.effects.clone());
        }
        for _ in 0..400 {
            agents.round(&mut cluster, false);
        }
        let unfit = |driver: &Driver| driver.spec.cores == Cores(u32::MAX);
        let left: Vec<_> = cluster
            .state
            .drivers()
            .filter(|x| !x.state.is_final() && !unfit(x))
            .collect();
        prop_assert!(left.is_empty(), "{:?}", left);
        for driver in cluster.state.drivers().filter(|x| unfit(x) && !x.state.is_final()) {
            prop_assert_eq!(driver.state, DriverState::Submitted);
        }
        prop_assert!(cluster.state.executors().all(|x| x.state.is_final()));
        prop_assert_eq!(agents.running(), 0);
        let starts: BTreeSet<_> = agents.starts.iter().collect();
        prop_assert_eq!(starts.len(), agents.starts.len(), "an attempt was started twice");
        assert_stored(&cluster);
    }
}

#[test]
fn a_submission_after_a_refused_one_is_accepted() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let refused = cluster.apply(submit("r1", driver(0, 1)));
    assert!(matches!(refused.reply, Reply::Rejected(_)));
    cluster.submit("r1", driver(1, 1));
}
