//! Resource profiles: what an application may ask for, what it gets, and what survives a failover.

use std::sync::Arc;

use interrex_core::{
    command::{Command, ExecutorTarget, ProcessChange},
    config::{ClusterConfig, EXECUTORS_WANTED_MAX, PROFILES_PER_APP_MAX},
    effect::{Effect, WorkerOrder},
    ids::{AppId, ExecutorId, ProfileId},
    resources::{Amounts, Cores, MemoryMib},
    spec::{ApplicationSpec, ResourceProfile},
    transition::{Rejection, Reply},
};

use crate::{
    specs::{app, gpu_worker, request, target, worker},
    support::{Cluster, exited, killed},
};

/// An application of executors with one core and 128 MiB that wants none at first, on a worker of 16 cores.
fn quiet(spec: ApplicationSpec) -> (Cluster, AppId) {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", worker(16, 16_384));
    let spec = ApplicationSpec {
        executor_limit: Some(0),
        ..spec
    };
    let id = cluster.register_app("a", spec);
    (cluster, id)
}

/// `id:profile:cores:memory` of the executors that are not over.
fn shapes(cluster: &Cluster, app: &AppId) -> Vec<String> {
    cluster
        .state
        .executors_of(app)
        .filter(|executor| !executor.state.is_final())
        .map(|e| format!("{}:{}:{}:{}", e.id, e.profile, e.cores.0, e.memory.0))
        .collect()
}

fn reason(cluster: &mut Cluster, command: Command) -> String {
    let Reply::Rejected(Rejection::Invalid { field, reason }) = cluster.apply(command).reply else {
        panic!("{:?}", cluster.last)
    };
    assert_eq!(field, "targets");
    reason
}

#[test]
fn what_a_profile_does_not_say_is_the_applications_except_custom_resources() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    cluster.register("w1", gpu_worker(16, 16_384, &["0", "1", "2"]));
    let gpu = Amounts::from([("gpu".to_owned(), 1)]);
    let spec = ApplicationSpec {
        resources_per_executor: gpu.clone(),
        executor_limit: Some(1),
        ..app(512, Some(2), None)
    };
    let id = cluster.register_app("a", spec);
    let profile = |profile, needs: ResourceProfile| ExecutorTarget {
        profile: ProfileId(profile),
        needs: Some(Arc::new(needs)),
        total: 1,
    };
    let bare = profile(1, ResourceProfile::default());
    let own = ResourceProfile {
        cores: Some(Cores(4)),
        memory: Some(MemoryMib(1024)),
        resources: gpu,
    };
    cluster.apply(request(&id, &[bare, profile(2, own)]));
    assert_eq!(
        shapes(&cluster, &id),
        ["0:0:2:512", "1:1:2:512", "2:2:4:1024"]
    );
    assert_eq!(
        cluster.placement(&id),
        ["0@w1:2 gpu0", "1@w1:2", "2@w1:4 gpu1"]
    );
}

#[test]
fn the_order_to_an_agent_names_the_profile() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    let placed = cluster.apply(request(&id, &[target(7, Some((3, 256)), 1)]));
    let profiles: Vec<_> = placed
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Worker {
                order:
                    WorkerOrder::LaunchExecutor {
                        profile,
                        cores,
                        memory,
                        ..
                    },
                ..
            } => Some((profile.0, cores.0, memory.0)),
            Effect::Worker { .. } | Effect::App { .. } => None,
        })
        .collect();
    assert_eq!(profiles, [(7, 3, 256)]);
}

#[test]
fn a_profile_that_is_not_named_keeps_its_total() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    cluster.apply(request(&id, &[target(1, Some((1, 1)), 2)]));
    cluster.apply(request(&id, &[target(2, Some((2, 2)), 1)]));
    cluster.apply(request(&id, &[target(0, None, 1)]));
    let wanted: Vec<_> = cluster
        .app(&id)
        .profiles
        .values()
        .map(|profile| profile.wanted)
        .collect();
    assert_eq!(wanted, [2, 1]);
    assert_eq!(cluster.app(&id).executors_wanted, Some(1));
    assert_eq!(
        shapes(&cluster, &id),
        ["0:1:1:1", "1:1:1:1", "2:2:2:2", "3:0:1:128"]
    );
}

#[test]
fn each_profile_replaces_its_own_executors() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    cluster.apply(request(
        &id,
        &[target(0, None, 1), target(1, Some((2, 64)), 1)],
    ));
    cluster.report_executor(&id, 1, exited(1));
    assert_eq!(shapes(&cluster, &id), ["0:0:1:128", "2:1:2:64"]);
    cluster.apply(request(&id, &[target(1, None, 0)]));
    cluster.report_executor(&id, 2, killed());
    assert_eq!(shapes(&cluster, &id), ["0:0:1:128"]);
}

#[test]
fn completed_executors_count_for_the_applications_own_description_only() {
    let (mut cluster, id) = quiet(ApplicationSpec {
        completes: true,
        ..app(128, Some(1), None)
    });
    cluster.apply(request(
        &id,
        &[target(0, None, 1), target(1, Some((1, 64)), 1)],
    ));
    cluster.report_executor(&id, 0, exited(0));
    assert_eq!(cluster.app(&id).executors_completed, 1);
    assert_eq!(shapes(&cluster, &id), ["1:1:1:64"]);
}

#[test]
fn what_an_application_got_for_one_profile_it_cannot_get_for_another() {
    let (mut cluster, id) = quiet(app(128, Some(1), Some(3)));
    cluster.apply(request(
        &id,
        &[target(0, None, 2), target(1, Some((1, 1)), 2)],
    ));
    assert_eq!(shapes(&cluster, &id), ["0:0:1:128", "1:0:1:128", "2:1:1:1"]);
    // The next application is served nevertheless, although it asks for the same as the one that has no cores left.
    let other = cluster.register_app("b", app(1, Some(1), Some(1)));
    assert_eq!(cluster.placement(&other), ["0@w1:1"]);
}

#[test]
fn an_application_behind_one_that_ran_out_of_cores_gets_its_turn_in_the_same_pass() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let none = |max| ApplicationSpec {
        executor_limit: Some(0),
        ..app(64, Some(1), Some(max))
    };
    let a = cluster.register_app("a", none(1));
    let b = cluster.register_app("b", none(1));
    let c = cluster.register_app("c", app(32, Some(1), Some(1)));
    // `a` heads the queue of profile 1's shape, and loses its place there by what it gets for profile 0.
    cluster.apply(request(
        &a,
        &[target(0, None, 1), target(1, Some((1, 256)), 1)],
    ));
    cluster.apply(request(&b, &[target(1, Some((1, 256)), 1)]));
    cluster.register("w1", worker(2, 4096));
    assert_eq!(shapes(&cluster, &a), ["0:0:1:64"]);
    assert_eq!(shapes(&cluster, &b), ["0:1:1:256"]);
    assert!(cluster.placement(&c).is_empty(), "it came after b");
}

#[test]
fn an_unknown_profile_is_refused_by_name() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    let refused = reason(&mut cluster, request(&id, &[target(3, None, 1)]));
    assert!(refused.starts_with("profile 3 is not known"), "{refused}");
}

#[test]
fn a_refused_target_takes_the_whole_request_along() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    let targets = [target(0, None, 5), target(3, None, 1)];
    reason(&mut cluster, request(&id, &targets));
    assert_eq!(cluster.app(&id).executors_wanted, Some(0));
    assert!(shapes(&cluster, &id).is_empty());
}

#[test]
fn another_description_under_a_known_id_is_a_conflict() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    cluster.apply(request(&id, &[target(1, Some((1, 64)), 1)]));
    let conflict = cluster.apply(request(&id, &[target(1, Some((2, 64)), 1)]));
    let want = Rejection::ProfileConflict {
        app: id.clone(),
        profile: ProfileId(1),
    };
    assert_eq!(conflict.reply, Reply::Rejected(want));
    // The same one again is none.
    let again = cluster.apply(request(&id, &[target(1, Some((1, 64)), 2)]));
    assert_eq!(again.reply, Reply::Done);
    assert_eq!(shapes(&cluster, &id), ["0:1:1:64", "1:1:1:64"]);
}

#[test]
fn the_applications_own_description_cannot_be_replaced() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    let refused = reason(&mut cluster, request(&id, &[target(0, Some((1, 1)), 1)]));
    assert!(
        refused.starts_with("profile 0 is the application's own"),
        "{refused}"
    );
}

#[test]
fn absurd_targets_are_refused() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    for total in [EXECUTORS_WANTED_MAX + 1, u32::MAX] {
        let refused = reason(&mut cluster, request(&id, &[target(0, None, total)]));
        assert!(refused.contains("at most 1000000"), "{refused}");
    }
    let refused = reason(&mut cluster, request(&id, &[target(1, Some((0, 1)), 1)]));
    assert!(refused.contains("0 cores"), "{refused}");
}

#[test]
fn the_profiles_of_one_application_are_bounded() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    let most = u32::try_from(PROFILES_PER_APP_MAX).expect("few");
    let all: Vec<_> = (1..=most).map(|n| target(n, Some((1, 1)), 0)).collect();
    assert_eq!(cluster.apply(request(&id, &all)).reply, Reply::Done);
    let more = cluster.apply(request(&id, &[target(most + 1, Some((1, 1)), 0)]));
    assert!(
        matches!(
            more.reply,
            Reply::Rejected(Rejection::LimitReached { max: 100, .. })
        ),
        "{more:?}"
    );
}

#[test]
fn targets_profiles_and_executor_numbers_survive_a_failover() {
    let (mut cluster, id) = quiet(app(128, Some(1), None));
    cluster.apply(request(
        &id,
        &[target(0, None, 1), target(5, Some((2, 64)), 2)],
    ));
    for executor in 0..3 {
        cluster.report_executor(&id, executor, ProcessChange::Running);
    }
    // The last number is used up by an executor of which nothing is left.
    cluster.apply(request(&id, &[target(5, None, 1)]));
    cluster.apply(Command::KillExecutors {
        app: id.clone(),
        executors: vec![ExecutorId(2)],
    });
    cluster.report_executor(&id, 2, killed());
    let before = cluster.app(&id);
    let report = cluster.honest_report("w1");
    cluster.fail_over();
    assert_eq!(cluster.app(&id), before);
    cluster.register_with("w1", worker(16, 16_384), report);
    assert_eq!(shapes(&cluster, &id), ["0:0:1:128", "1:5:2:64"]);
    // The new leader knows the profile without being told again, and uses no number twice.
    cluster.apply(request(&id, &[target(5, None, 2)]));
    assert_eq!(shapes(&cluster, &id), ["0:0:1:128", "1:5:2:64", "3:5:2:64"]);
}
