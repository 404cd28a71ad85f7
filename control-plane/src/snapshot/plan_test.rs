use interrex_core::{
    ids::{DriverId, Fingerprint, RequestId},
    state::meta::{Created, Request},
    time::Timestamp,
};
use interrex_persistence::{
    backend::StoreSnapshot, options::EngineKind, record::RecordKind, record_store::RecordStore,
};

use super::*;
use crate::{records::decode_all, snapshot::describe};

fn request(id: &str) -> transition::Mutation {
    transition::Mutation::PutRequest(Arc::new(Request {
        id: RequestId::new(id),
        fingerprint: Fingerprint([7; 32]),
        created: Created::Driver(DriverId::new("driver-1")),
        at: Timestamp(1),
    }))
}

fn meta(cluster_id: &str, formerly: &[&str]) -> Meta {
    Meta {
        cluster_id: cluster_id.to_owned(),
        next_driver: 9,
        formerly: formerly.iter().map(|id| (*id).to_owned()).collect(),
        ..Meta::default()
    }
}

fn store(mutations: &[transition::Mutation]) -> RecordStore {
    let mut store = RecordStore::new();
    store.open_epoch(Epoch(5)).unwrap();
    apply(&mut store, records::encode_batch(mutations));
    store
}

fn apply(store: &mut RecordStore, mutations: Vec<Mutation>) {
    let epoch = store.opened();
    let batch = interrex_persistence::record::CommitBatch { epoch, mutations };
    store.apply(batch).unwrap();
}

fn file(store: RecordStore) -> SnapshotFile {
    let cut = StoreSnapshot {
        engine: EngineKind::Memory,
        cluster_id: None,
        store,
    };
    let (header, store) = describe(cut, 1);
    let bytes: Vec<u8> = header.encode(&store).flatten().collect();
    SnapshotFile::read(bytes.as_slice()).unwrap()
}

fn source(mutations: &[transition::Mutation]) -> Source {
    Source::examine(file(store(mutations)), false).unwrap()
}

/// Everything that a plan stores.
fn carry_out(plan: &mut RestorePlan, into: &mut RecordStore) {
    apply(into, plan.begin());
    for batch in plan.batches() {
        apply(into, batch);
    }
    apply(into, plan.end());
}

#[test]
fn the_new_cluster_has_the_snapshots_records_and_its_own_id() {
    let source = source(&[
        transition::Mutation::PutMeta(meta("old", &["older"])),
        request("r1"),
    ]);
    let mut new = store(&[
        transition::Mutation::PutMeta(meta("new", &[])),
        request("stray"),
    ]);
    let mut plan = RestorePlan::new(&source, new.recovered(), "new");
    assert_eq!(plan.floor, Epoch(5 + EPOCH_MARGIN));
    carry_out(&mut plan, &mut new);
    let decoded = decode_all(new.recovered()).unwrap();
    assert_eq!(decoded.quarantined, vec![]);
    let ids: Vec<&str> = decoded
        .entities
        .requests
        .iter()
        .map(|r| r.id.as_str())
        .collect();
    assert_eq!(ids, ["r1"]);
    let Meta {
        cluster_id,
        next_driver,
        formerly,
        restoring,
        restored,
        ..
    } = decoded.entities.meta;
    assert_eq!((cluster_id.as_str(), next_driver), ("new", 9));
    assert_eq!(formerly, ["older", "old"]);
    assert_eq!((restoring, restored), (String::new(), source.name()));
}

#[test]
fn a_restore_that_was_cut_off_is_marked_and_ends_when_it_is_repeated() {
    let many: Vec<_> = (0..2500).map(|i| request(&format!("r{i}"))).collect();
    let mut all = vec![transition::Mutation::PutMeta(meta("old", &[]))];
    all.extend(many);
    let source = source(&all);
    let mut new = store(&[transition::Mutation::PutMeta(meta("new", &[]))]);
    let mut first = RestorePlan::new(&source, new.recovered(), "new");
    apply(&mut new, first.begin());
    let batches = first.batches();
    assert_eq!(batches.len(), 3, "bounded batches");
    apply(&mut new, batches.into_iter().next().unwrap());
    let decoded = decode_all(new.recovered()).unwrap();
    assert_eq!(decoded.entities.meta.restoring, source.name());

    let mut again = RestorePlan::new(&source, new.recovered(), "new");
    carry_out(&mut again, &mut new);
    let decoded = decode_all(new.recovered()).unwrap();
    assert_eq!(decoded.entities.requests.len(), 2500);
    assert_eq!(decoded.entities.meta.restoring, "");
    // Nothing is left to do.
    assert!(
        RestorePlan::new(&source, new.recovered(), "new")
            .batches()
            .is_empty()
    );
}

#[test]
fn records_that_cannot_be_read_are_taken_over_only_when_asked() {
    let mut with_damage = store(&[transition::Mutation::PutMeta(meta("old", &[]))]);
    let key = RecordKey {
        kind: RecordKind(4),
        id: "driver-1".into(),
    };
    let value = Bytes::from_static(b"\xff\xff\xff");
    apply(
        &mut with_damage,
        vec![Mutation::Put {
            key: key.clone(),
            value: value.clone(),
        }],
    );
    let refused = Source::examine(file(with_damage.clone()), false)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("driver `driver-1`") && refused.contains("--keep-quarantined"),
        "{refused}"
    );
    let source = Source::examine(file(with_damage), true).unwrap();
    let mut new = store(&[]);
    carry_out(
        &mut RestorePlan::new(&source, new.recovered(), "new"),
        &mut new,
    );
    assert_eq!(new.get(&key), Some(&value));
}

#[test]
fn the_snapshot_of_a_half_restored_cluster_is_refused() {
    let half = Meta {
        restoring: "abc".to_owned(),
        ..meta("old", &[])
    };
    let refused = Source::examine(file(store(&[transition::Mutation::PutMeta(half)])), false);
    assert_eq!(
        refused.unwrap_err(),
        Unfit::Incomplete {
            of: "abc".to_owned()
        }
    );
}

#[test]
fn former_ids_are_bounded_and_the_newest_stay() {
    let ids: Vec<String> = (0..FORMERLY_MAX + 3).map(|i| format!("c{i}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let list = formerly(&meta("last", &ids), "new");
    assert_eq!(list.len(), FORMERLY_MAX);
    assert_eq!(list.last().map(String::as_str), Some("last"));
    assert_eq!(formerly(&meta("new", &["a", "new", "a"]), "new"), ["a"]);
}
