use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use interrex_core::{
    ids::{
        AppId, Attempt, DriverId, ExecutorId, Fingerprint, ProfileId, QueuePosition, RequestId,
        WorkerId,
    },
    resources::{Cores, MemoryMib},
    spec::{
        ApplicationSpec, CommandLine, DriverPayload, DriverSpec, ResourceProfile, SparkDriver,
        SparkSubmission, SparkWorker, WorkerSpec,
    },
    state::{
        app::{Application, ApplicationState, Profile},
        cluster::RecoveredEntities,
        driver::{Driver, DriverState, Exit},
        executor::{Executor, ExecutorState},
        meta::{Created, Meta, Request},
        worker::{Drain, Worker, WorkerState},
    },
    time::Timestamp,
    transition::Mutation,
};
use interrex_persistence::record::{self, Recovered};
use proptest::{collection, option, prelude::*, sample::select};

use super::*;

type Text = String;

fn id() -> impl Strategy<Value = Text> {
    "[a-z][a-z0-9-]{0,20}"
}

fn text() -> impl Strategy<Value = Text> {
    any::<String>()
}

fn texts() -> impl Strategy<Value = BTreeMap<Text, Text>> {
    collection::btree_map(text(), text(), 0..4)
}

fn at() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

fn exit() -> impl Strategy<Value = Exit> {
    (option::of(any::<i32>()), option::of(any::<i32>()))
        .prop_map(|(code, signal)| Exit { code, signal })
}

fn addresses() -> impl Strategy<Value = BTreeMap<Text, Vec<Text>>> {
    // In string order, as the core keeps them.
    collection::btree_map(id(), collection::btree_set("[0-9]{1,2}", 0..3), 0..3).prop_map(|map| {
        map.into_iter()
            .map(|(k, v)| (k, v.into_iter().collect()))
            .collect()
    })
}

fn amounts() -> impl Strategy<Value = BTreeMap<Text, u32>> {
    collection::btree_map(id(), any::<u32>(), 0..3)
}

fn command() -> impl Strategy<Value = CommandLine> {
    (text(), collection::vec(text(), 0..4), texts()).prop_map(|(program, args, env)| CommandLine {
        program,
        args,
        env,
    })
}

fn payload() -> impl Strategy<Value = DriverPayload> {
    let spark = (
        text(),
        text(),
        collection::vec(text(), 0..3),
        texts(),
        texts(),
        text(),
    )
        .prop_map(
            |(app_resource, main_class, app_args, properties, environment, client_version)| {
                DriverPayload::Spark(SparkSubmission {
                    app_resource,
                    main_class,
                    app_args,
                    properties,
                    environment,
                    client_version,
                })
            },
        );
    prop_oneof![command().prop_map(DriverPayload::Command), spark]
}

fn driver_spec() -> impl Strategy<Value = DriverSpec> {
    (
        text(),
        text(),
        payload(),
        any::<u32>(),
        any::<u64>(),
        amounts(),
        any::<[bool; 3]>(),
        any::<i32>(),
    )
        .prop_map(
            |(name, user, payload, cores, memory, resources, flags, priority)| DriverSpec {
                name,
                user,
                payload,
                cores: Cores(cores),
                memory: MemoryMib(memory),
                resources,
                supervise: flags[0],
                priority,
                needs_executors: flags[1],
                at_most_once: flags[2],
            },
        )
}

fn driver() -> impl Strategy<Value = Driver> {
    let states = select(vec![
        DriverState::Submitted,
        DriverState::Launching,
        DriverState::Running,
        DriverState::Relaunching,
        DriverState::Finished,
        DriverState::Killed,
        DriverState::Failed,
        DriverState::Error,
    ]);
    let times = (at(), option::of(at()), option::of(at()), option::of(at()));
    let rest = (
        option::of(exit()),
        text(),
        any::<(bool, bool)>(),
        any::<u32>(),
        addresses(),
    );
    (
        (id(), id(), id()),
        driver_spec(),
        states,
        any::<u32>(),
        any::<u64>(),
        times,
        rest,
    )
        .prop_map(
            |((id, submission, worker), spec, state, attempt, queue, times, rest)| {
                let (submitted_at, started_at, finished_at, not_before) = times;
                let (exit, message, (kill_requested, evicted), failures, resources) = rest;
                Driver {
                    id: DriverId::from(id),
                    submission: RequestId::from(submission),
                    spec: Arc::new(spec),
                    state,
                    attempt: Attempt(attempt),
                    worker: (state != DriverState::Submitted).then(|| WorkerId::from(worker)),
                    resources,
                    queue: QueuePosition(queue),
                    submitted_at,
                    started_at,
                    finished_at,
                    exit,
                    message,
                    kill_requested,
                    evicted,
                    failures,
                    not_before,
                }
            },
        )
}

fn app_spec() -> impl Strategy<Value = ApplicationSpec> {
    let wants = (
        option::of(any::<u32>()),
        option::of(any::<u32>()),
        any::<u64>(),
        option::of(any::<u32>()),
        any::<bool>(),
    );
    let order = any::<(i32, u32)>();
    let spark = option::of((text(), text(), any::<u16>(), text(), text()));
    (
        text(),
        text(),
        command(),
        wants,
        amounts(),
        text(),
        order,
        spark,
    )
        .prop_map(
            |(name, user, command, wants, resources_per_executor, ui_url, order, spark)| {
                let (cores_max, cores_per_executor, memory, executor_limit, completes) = wants;
                ApplicationSpec {
                    name,
                    user,
                    command,
                    cores_max: cores_max.map(Cores),
                    cores_per_executor: cores_per_executor.map(Cores),
                    memory_per_executor: MemoryMib(memory),
                    resources_per_executor,
                    executor_limit,
                    completes,
                    ui_url,
                    priority: order.0,
                    min_executors: order.1,
                    spark: spark.map(|(line, host, port, endpoint, main_class)| SparkDriver {
                        main_class,
                        line,
                        host,
                        port,
                        endpoint,
                    }),
                }
            },
        )
}

fn app() -> impl Strategy<Value = Application> {
    let states = select(vec![
        ApplicationState::Waiting,
        ApplicationState::Running,
        ApplicationState::Finished,
        ApplicationState::Failed,
        ApplicationState::Killed,
    ]);
    let spec = app_spec();
    let counts = (any::<u64>(), option::of(any::<u32>()), any::<[u32; 3]>());
    let times = (at(), option::of(at()), option::of(at()));
    (id(), id(), spec, states, counts, times, text(), profiles()).prop_map(
        |(
            id,
            request,
            spec,
            state,
            (queue, executors_wanted, [next, done, failures]),
            times,
            message,
            profiles,
        )| {
            let (registered_at, finished_at, not_before) = times;
            Application {
                id: AppId::from(id),
                request: RequestId::from(request),
                spec: Arc::new(spec),
                state,
                queue: QueuePosition(queue),
                executors_wanted,
                profiles,
                next_executor: ExecutorId(next),
                executors_completed: done,
                executor_failures: failures,
                registered_at,
                finished_at,
                message,
                not_before,
            }
        },
    )
}

fn profiles() -> impl Strategy<Value = BTreeMap<ProfileId, Profile>> {
    let needs = (
        option::of(any::<u32>()),
        option::of(any::<u64>()),
        amounts(),
    );
    let profile = (needs, any::<u32>()).prop_map(|((cores, memory, resources), wanted)| Profile {
        needs: Arc::new(ResourceProfile {
            cores: cores.map(Cores),
            memory: memory.map(MemoryMib),
            resources,
        }),
        wanted,
    });
    collection::btree_map(any::<u32>().prop_map(ProfileId), profile, 0..3)
}

fn executor() -> impl Strategy<Value = Executor> {
    let states = select(vec![
        ExecutorState::Launching,
        ExecutorState::Running,
        ExecutorState::Killing,
        ExecutorState::Decommissioned,
        ExecutorState::Killed,
        ExecutorState::Failed,
        ExecutorState::Lost,
        ExecutorState::Exited,
    ]);
    let ids = (id(), any::<u32>(), id(), any::<(u32, bool)>());
    let held = (any::<u32>(), any::<u64>(), addresses());
    let times = (at(), option::of(at()), option::of(at()));
    (ids, held, states, option::of(exit()), text(), times).prop_map(
        |(
            (app, id, worker, (profile, drained)),
            (cores, memory, resources),
            state,
            exit,
            message,
            times,
        )| {
            Executor {
                app: AppId::from(app),
                id: ExecutorId(id),
                worker: WorkerId::from(worker),
                profile: ProfileId(profile),
                cores: Cores(cores),
                memory: MemoryMib(memory),
                resources,
                state,
                drained,
                exit,
                message,
                launched_at: times.0,
                started_at: times.1,
                finished_at: times.2,
            }
        },
    )
}

fn worker() -> impl Strategy<Value = Worker> {
    let states = select(vec![
        WorkerState::Alive,
        WorkerState::Unknown,
        WorkerState::Dead,
    ]);
    let spec = (
        text(),
        text(),
        any::<u32>(),
        any::<u64>(),
        addresses(),
        collection::vec(id(), 0..3),
    );
    let spark = option::of((text(), text(), any::<u16>(), text()));
    let marks = (text(), text(), spark);
    let drain = (at(), option::of(at()), text()).prop_map(|(since, deadline, reason)| Drain {
        since,
        deadline,
        reason,
    });
    let drain = option::of(drain);
    (id(), spec, marks, states, at(), drain).prop_map(
        |(id, spec, marks, state, registered_at, drain)| {
            let (incarnation, work_dir_id, spark) = marks;
            let (host, web, cores, memory, resources, capabilities) = spec;
            Worker {
                id: WorkerId::from(id),
                spec: Arc::new(WorkerSpec {
                    host,
                    web,
                    cores: Cores(cores),
                    memory: MemoryMib(memory),
                    resources,
                    capabilities,
                    incarnation,
                    work_dir_id,
                    spark: spark.map(|(line, host, port, endpoint)| SparkWorker {
                        line,
                        host,
                        port,
                        endpoint,
                    }),
                }),
                state,
                drain,
                not_accepting: String::new(),
                registered_at,
            }
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let created = prop_oneof![
        id().prop_map(|id| Created::Driver(DriverId::from(id))),
        id().prop_map(|id| Created::App(AppId::from(id))),
        id().prop_map(Created::Killed),
        any::<u32>().prop_map(Created::Count),
    ];
    (id(), any::<[u8; 32]>(), created, at()).prop_map(|(id, fingerprint, created, at)| Request {
        id: RequestId::from(id),
        fingerprint: Fingerprint(fingerprint),
        created,
        at,
    })
}

fn meta() -> impl Strategy<Value = Meta> {
    let former = (collection::vec(text(), 0..3), text(), text());
    (text(), any::<[u64; 3]>(), at(), former).prop_map(
        |(cluster_id, [drivers, apps, queue], created_at, former)| {
            let (formerly, restoring, restored) = former;
            Meta {
                cluster_id,
                next_driver: drivers,
                next_app: apps,
                next_queue: QueuePosition(queue),
                created_at,
                formerly,
                restoring,
                restored,
            }
        },
    )
}

fn stored(mutations: &[Mutation]) -> BTreeMap<RecordKey, Bytes> {
    let mut records = BTreeMap::new();
    for mutation in encode_batch(mutations) {
        match mutation {
            record::Mutation::Put { key, value } => drop(records.insert(key, value)),
            record::Mutation::Delete { key } => drop(records.remove(&key)),
        }
    }
    records
}

fn decode(records: BTreeMap<RecordKey, Bytes>) -> Result<Decoded, NewerFormat> {
    decode_all(Recovered {
        records: records.into_iter().collect(),
    })
}

fn some_driver(id: &str) -> Driver {
    let spec = Arc::new(DriverSpec {
        at_most_once: false,
        needs_executors: false,
        priority: 0,
        name: "n".into(),
        user: "u".into(),
        payload: DriverPayload::Command(CommandLine::default()),
        cores: Cores(1),
        memory: MemoryMib(1),
        resources: BTreeMap::new(),
        supervise: false,
    });
    Driver::accepted(
        DriverId::new(id),
        RequestId::new(format!("sub-{id}")),
        spec,
        QueuePosition(1),
        Timestamp(1),
    )
}

fn some_meta(next_driver: u64) -> Meta {
    Meta {
        cluster_id: "c1".into(),
        next_driver,
        ..Meta::default()
    }
}

proptest! {
    #[test]
    fn every_kind_survives_the_way_into_the_store_and_back(
        meta in meta(),
        worker in worker(),
        app in app(),
        driver in driver(),
        executor in executor(),
        request in request(),
    ) {
        let records = stored(&[
            Mutation::PutMeta(meta.clone()),
            Mutation::PutWorker(Arc::new(worker.clone())),
            Mutation::PutApp(Arc::new(app.clone())),
            Mutation::PutDriver(Arc::new(driver.clone())),
            Mutation::PutExecutor(Arc::new(executor.clone())),
            Mutation::PutRequest(Arc::new(request.clone())),
        ]);
        let decoded = decode(records).unwrap();
        prop_assert_eq!(decoded.quarantined, vec![]);
        prop_assert_eq!(decoded.entities, RecoveredEntities {
            meta,
            workers: vec![worker],
            apps: vec![app],
            drivers: vec![driver],
            executors: vec![executor],
            requests: vec![request],
            ..RecoveredEntities::default()
        });
    }

    /// A flipped bit or random bytes in one record: never a panic, never a wrong entity, never the others' end.
    #[test]
    fn damage_is_quarantined_and_harms_nothing_else(
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
        garbage in option::of(collection::vec(any::<u8>(), 0..40)),
    ) {
        let mut records = stored(&[
            Mutation::PutDriver(Arc::new(some_driver("d1"))),
            Mutation::PutDriver(Arc::new(some_driver("d2"))),
        ]);
        let damaged = records.get_mut(&key(DRIVER, "d1")).unwrap();
        match garbage {
            Some(bytes) => *damaged = bytes.into(),
            None => {
                let mut bytes = damaged.to_vec();
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
                *damaged = bytes.into();
            }
        }
        let decoded = decode(records).unwrap();
        let (first, second) = (some_driver("d1"), some_driver("d2"));
        // A bit that the encoding does not use may flip unseen; then nothing is lost.
        if decoded.quarantined.is_empty() {
            prop_assert_eq!(decoded.entities.drivers, vec![first, second]);
        } else {
            prop_assert_eq!(decoded.entities.drivers, vec![second]);
            prop_assert_eq!(decoded.quarantined.len(), 1);
            prop_assert_eq!(&decoded.quarantined[0].key, &key(DRIVER, "d1"));
        }
    }
}

#[test]
fn a_delete_removes_what_a_put_stored() {
    let put = Mutation::PutDriver(Arc::new(some_driver("d1")));
    let delete = Mutation::DeleteDriver(DriverId::new("d1"));
    assert_eq!(stored(&[put.clone(), delete.clone()]).len(), 0);
    assert_eq!(stored(&[delete, put]).len(), 1);
}

#[test]
fn of_several_changes_in_one_batch_the_last_is_stored_once() {
    let first = some_driver("d1");
    let last = Driver {
        state: DriverState::Killed,
        ..first.clone()
    };
    let encoded = encode_batch(&[
        Mutation::PutMeta(some_meta(1)),
        Mutation::PutDriver(Arc::new(first)),
        Mutation::PutMeta(some_meta(2)),
        Mutation::PutDriver(Arc::new(last.clone())),
    ]);
    assert_eq!(
        encoded.len(),
        3,
        "two copies of the meta record and one driver"
    );
    let records = Recovered {
        records: encoded
            .into_iter()
            .filter_map(|mutation| match mutation {
                record::Mutation::Put { key, value } => Some((key, value)),
                record::Mutation::Delete { .. } => None,
            })
            .collect(),
    };
    let entities = decode_all(records).unwrap().entities;
    assert_eq!(entities.meta, some_meta(2));
    assert_eq!(entities.drivers, vec![last]);
}

#[test]
fn one_damaged_copy_of_the_identity_costs_nothing() {
    for id in [META_ID, META_COPY_ID] {
        let mut records = stored(&[Mutation::PutMeta(some_meta(9))]);
        records.insert(key(META, id), Bytes::from_static(b"\xff\xff"));
        let decoded = decode(records).unwrap();
        assert_eq!(decoded.entities.meta, some_meta(9));
        assert_eq!(decoded.quarantined.len(), 1);
    }
}

#[test]
fn what_a_request_did_has_a_fixed_text() {
    let stored = |created| {
        let request = Request {
            id: "k1".into(),
            fingerprint: Fingerprint([7; 32]),
            created,
            at: Timestamp(1),
        };
        entities::request_message(&request)
    };
    let killed = stored(Created::Killed("driver-1".to_owned()));
    assert_eq!(killed.created, "killed:driver-1");
    let mut count = stored(Created::Count(3));
    assert_eq!(count.created, "count:3");
    for bad in ["count:", "count:-1", "count:4294967296", "cleared:1"] {
        count.created = bad.to_owned();
        let refused = entities::request(count.clone()).expect_err("no such thing");
        assert!(refused.to_string().contains(bad), "{refused}");
    }
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let mut records = stored(&[Mutation::PutDriver(Arc::new(some_driver("d1")))]);
    records.insert(
        key(WORKER, "w1"),
        envelope::seal_as(FORMAT_VERSION + 1, vec![1, 2, 3]),
    );
    let error = decode(records).unwrap_err();
    assert_eq!(
        error.to_string(),
        "worker `w1` was written in format version 2, but this build knows versions up to 1; \
         upgrade this master before it can lead"
    );
}

#[test]
fn an_unknown_state_or_kind_or_a_strange_key_is_quarantined() {
    let reason = |key: RecordKey, value: Bytes| {
        let decoded = decode(BTreeMap::from([(key, value)])).unwrap();
        assert_eq!(decoded.entities.drivers, vec![]);
        decoded.quarantined[0].reason.to_string()
    };
    let mut record = entities::driver_message(&some_driver("d1"));
    let good = envelope::seal(&record);
    assert_eq!(reason(key(DRIVER, "d2"), good.clone()), "names itself `d1`");
    assert_eq!(reason(key(RecordKind(9), "d1"), good), "kind 9 is unknown");
    record.state = "SLEEPING".into();
    assert_eq!(
        reason(key(DRIVER, "d1"), envelope::seal(&record)),
        "state: `SLEEPING` is no known value"
    );
    record.state = "RUNNING".into();
    assert_eq!(
        reason(key(DRIVER, "d1"), envelope::seal(&record)),
        "worker_id: `` is no known value"
    );
}
