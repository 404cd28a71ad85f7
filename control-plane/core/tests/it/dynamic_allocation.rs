//! Dynamic allocation, as Spark's own tests of it pin down: what a request adds, what a kill takes away, and that
//! nothing comes back that is not wanted.

use interrex_core::{
    command::{Command, ProcessChange},
    config::ClusterConfig,
    ids::{AppId, ExecutorId},
    spec::ApplicationSpec,
    state::executor::ExecutorState,
    transition::{Rejection, Reply},
};

use crate::{
    specs::{app, request, target, worker},
    support::{Cluster, killed, notices, orders},
};

/// Two workers of 20 cores, as in Spark's tests: an application without a limit gets one executor on each.
fn two_workers(spec: ApplicationSpec) -> (Cluster, AppId) {
    let mut cluster = Cluster::new(ClusterConfig::default());
    for id in ["w1", "w2"] {
        cluster.register(id, worker(20, 2048));
    }
    let id = cluster.register_app("a", spec);
    (cluster, id)
}

fn wants(cluster: &mut Cluster, app: &AppId, total: u32) -> usize {
    let reply = cluster.apply(request(app, &[target(0, None, total)])).reply;
    assert_eq!(reply, Reply::Done);
    cluster.placement(app).len()
}

fn kill(cluster: &mut Cluster, app: &AppId, executors: &[u32]) -> u32 {
    let command = Command::KillExecutors {
        app: app.clone(),
        executors: executors.iter().copied().map(ExecutorId).collect(),
    };
    let Reply::Count(count) = cluster.apply(command).reply else {
        panic!("{:?}", cluster.last)
    };
    count
}

/// Kills, and lets the agents do it.
fn kill_and_end(cluster: &mut Cluster, app: &AppId, executors: &[u32]) {
    kill(cluster, app, executors);
    for executor in executors {
        cluster.report_executor(app, *executor, killed());
    }
}

#[test]
fn a_default_application_gets_one_executor_a_worker_and_no_more_by_asking() {
    let (mut cluster, id) = two_workers(app(1024, None, None));
    assert_eq!(cluster.placement(&id), ["0@w2:20", "1@w1:20"]);
    for total in [3, 10, 1_000] {
        assert_eq!(wants(&mut cluster, &id, total), 2);
    }
}

#[test]
fn the_target_follows_requests_and_kills() {
    let (mut cluster, id) = two_workers(app(1024, None, None));
    // Down to none: kills take effect because the target was lowered before.
    assert_eq!(wants(&mut cluster, &id, 0), 2);
    kill_and_end(&mut cluster, &id, &[0, 1]);
    assert!(cluster.placement(&id).is_empty());
    // Up, one by one.
    assert_eq!(wants(&mut cluster, &id, 1), 1);
    assert_eq!(wants(&mut cluster, &id, 2), 2);
    assert_eq!(wants(&mut cluster, &id, 5), 2);
    // A target above what there is: the killed one comes back at once.
    kill_and_end(&mut cluster, &id, &[2]);
    assert_eq!(cluster.placement(&id), ["3@w1:20", "4@w2:20"]);
}

#[test]
fn a_kill_without_a_lower_target_is_a_replacement() {
    let (mut cluster, id) = two_workers(app(256, Some(4), Some(16)));
    assert_eq!(cluster.placement(&id).len(), 4);
    kill_and_end(&mut cluster, &id, &[0, 3]);
    let ids: Vec<_> = cluster
        .placement(&id)
        .iter()
        .filter_map(|placed| placed.split('@').next().map(str::to_owned))
        .collect();
    assert_eq!(ids, ["1", "2", "4", "5"]);
    // Lowered first, nothing comes back.
    assert_eq!(wants(&mut cluster, &id, 2), 4);
    kill_and_end(&mut cluster, &id, &[1, 2]);
    assert_eq!(cluster.placement(&id).len(), 2);
}

#[test]
fn cores_that_are_left_bound_what_a_request_adds() {
    let (mut cluster, id) = two_workers(ApplicationSpec {
        executor_limit: Some(0),
        ..app(64, Some(4), Some(16))
    });
    let counts = [1, 2, 3, 4, 5, 1_000].map(|total| wants(&mut cluster, &id, total));
    assert_eq!(counts, [1, 2, 3, 4, 4, 4]);
}

#[test]
fn an_initial_limit_of_none_starts_nothing_until_it_is_asked_for() {
    let (mut cluster, id) = two_workers(ApplicationSpec {
        executor_limit: Some(0),
        ..app(1024, None, None)
    });
    assert!(cluster.placement(&id).is_empty());
    // Not when workers come, nor when time passes.
    cluster.register("w3", worker(20, 2048));
    cluster.apply(Command::Tick);
    assert!(cluster.placement(&id).is_empty());
    assert_eq!(wants(&mut cluster, &id, 3), 3);
}

#[test]
fn an_executor_that_is_being_ended_is_ended_once() {
    let (mut cluster, id) = two_workers(app(1024, None, None));
    wants(&mut cluster, &id, 0);
    assert_eq!(kill(&mut cluster, &id, &[0]), 1);
    assert_eq!(orders(&cluster.last), ["w2: kill executor 0"]);
    assert_eq!(kill(&mut cluster, &id, &[0]), 0);
    assert_eq!(orders(&cluster.last), Vec::<String>::new());
    assert_eq!(cluster.executor(&id, 0).state, ExecutorState::Killing);
    assert_eq!(cluster.state.ignored().repeated, 1);
}

#[test]
fn executors_that_it_does_not_have_are_counted_and_change_nothing() {
    let (mut cluster, id) = two_workers(app(1024, None, None));
    let other = cluster.register_app("b", app(1024, None, None));
    assert_eq!(kill(&mut cluster, &id, &[7, u32::MAX]), 0);
    // Those of another application are not its own.
    assert_eq!(kill(&mut cluster, &other, &[0, 1]), 0);
    assert_eq!(cluster.state.ignored().unknown, 4);
    assert_eq!(cluster.placement(&id).len(), 2);
    assert!(cluster.last.mutations.is_empty());
    // Among others they hurt nobody.
    assert_eq!(kill(&mut cluster, &id, &[9, 0]), 1);
}

#[test]
fn requests_before_registration_and_after_the_end_are_refused() {
    let (mut cluster, id) = two_workers(app(1024, None, None));
    let nobody = AppId::from("app-20261129143200-0009");
    let unknown = cluster.apply(request(&nobody, &[target(0, None, 1)])).reply;
    let want = Rejection::NotFound {
        id: nobody.to_string(),
    };
    assert_eq!(unknown, Reply::Rejected(want));
    cluster.apply(Command::UnregisterApplication {
        app: id.clone(),
        failed: false,
        message: String::new(),
    });
    for command in [
        request(&id, &[target(0, None, 1)]),
        Command::KillExecutors {
            app: id.clone(),
            executors: vec![ExecutorId(0)],
        },
    ] {
        let over = cluster.apply(command).reply;
        assert!(
            matches!(over, Reply::Rejected(Rejection::AppOver { .. })),
            "{over:?}"
        );
    }
}

#[test]
fn the_target_outlives_the_master_and_an_absent_application() {
    let (mut cluster, id) = two_workers(app(1024, None, None));
    wants(&mut cluster, &id, 1);
    kill_and_end(&mut cluster, &id, &[1]);
    cluster.fail_over();
    // Its workers answer first; the application does not: nothing is added, nothing is lost.
    for worker_id in ["w1", "w2"] {
        let report = cluster.honest_report(worker_id);
        cluster.register_with(worker_id, worker(20, 2048), report);
    }
    assert_eq!(cluster.placement(&id), ["0@w2:20"]);
    assert_eq!(cluster.app(&id).executors_wanted, Some(1));
    assert_eq!(wants(&mut cluster, &id, 2), 2);
    // Number 1 was used before the failover.
    assert_eq!(cluster.placement(&id), ["0@w2:20", "2@w1:20"]);
}

#[test]
fn an_application_is_told_of_what_it_gets_and_of_what_becomes_of_it() {
    let (mut cluster, id) = two_workers(ApplicationSpec {
        executor_limit: Some(0),
        ..app(1024, None, None)
    });
    let added = cluster.apply(request(&id, &[target(0, None, 1)]));
    assert_eq!(notices(&added), ["added 0"]);
    let running = cluster.report_executor(&id, 0, ProcessChange::Running);
    assert_eq!(notices(&running), ["0 RUNNING"]);
    wants(&mut cluster, &id, 0);
    kill(&mut cluster, &id, &[0]);
    let gone = cluster.report_executor(&id, 0, killed());
    assert_eq!(notices(&gone), ["0 KILLED"]);
}
