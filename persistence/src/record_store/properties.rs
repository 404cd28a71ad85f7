//! What holds for any sequence of epochs and batches, and for any bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::{RecordStore, Refusal, SNAPSHOT_CHUNK_BYTES, SNAPSHOT_VERSION, SnapshotError};
use crate::{
    epoch::{CommitSeq, Epoch},
    record::{CommitBatch, Mutation, RecordKey, RecordKind},
};

#[derive(Debug, Clone)]
enum Step {
    Open(Epoch),
    Commit(CommitBatch),
}

fn key(kind: u8, id: &str) -> RecordKey {
    RecordKey {
        kind: RecordKind(kind),
        id: id.into(),
    }
}

fn keys() -> impl Strategy<Value = RecordKey> {
    (0u8..3, "[a-c]{0,2}").prop_map(|(kind, id)| key(kind, &id))
}

fn mutations() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        3 => (keys(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(key, value)| Mutation::Put { key, value: value.into() }),
        1 => keys().prop_map(|key| Mutation::Delete { key }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (0u64..6).prop_map(|epoch| Step::Open(Epoch(epoch))),
        4 => (0u64..6, prop::collection::vec(mutations(), 0..5)).prop_map(|(epoch, mutations)| {
            Step::Commit(CommitBatch { epoch: Epoch(epoch), mutations })
        }),
    ];
    prop::collection::vec(step, 0..40)
}

fn run(steps: Vec<Step>) -> RecordStore {
    let mut store = RecordStore::new();
    for step in steps {
        match step {
            Step::Open(epoch) => drop(store.open_epoch(epoch)),
            Step::Commit(batch) => drop(store.apply(batch)),
        }
    }
    store
}

fn encoded(store: &RecordStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = store.write_to(&mut bytes).unwrap();
    assert_eq!(written, bytes.len() as u64);
    bytes
}

proptest! {
    #[test]
    fn only_batches_of_the_open_epoch_are_stored_and_stored_whole(steps in steps()) {
        let mut store = RecordStore::new();
        let mut model: BTreeMap<RecordKey, Bytes> = BTreeMap::new();
        let (mut opened, mut seq) = (Epoch::ZERO, CommitSeq(0));
        for step in steps {
            match step {
                Step::Open(epoch) => {
                    let allowed = epoch >= opened && epoch != Epoch::ZERO;
                    prop_assert_eq!(store.open_epoch(epoch).is_ok(), allowed);
                    if allowed {
                        opened = epoch;
                    }
                }
                Step::Commit(batch) => {
                    let before = store.clone();
                    let result = store.apply(batch.clone());
                    if batch.epoch == opened && opened != Epoch::ZERO {
                        seq = CommitSeq(seq.0 + 1);
                        prop_assert_eq!(result, Ok(seq));
                        for mutation in batch.mutations {
                            match mutation {
                                Mutation::Put { key, value } => drop(model.insert(key, value)),
                                Mutation::Delete { key } => drop(model.remove(&key)),
                            }
                        }
                    } else {
                        let fenced = batch.epoch < opened;
                        prop_assert_eq!(matches!(result, Err(Refusal::Fenced { .. })), fenced);
                        prop_assert!(result.is_err());
                        prop_assert_eq!(&store, &before);
                    }
                }
            }
            prop_assert_eq!((store.opened(), store.seq()), (opened, seq));
        }
        let found: Vec<_> = store.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        let bytes: usize = model.iter().map(|(k, v)| 1 + k.id.len() + v.len()).sum();
        prop_assert_eq!(store.bytes(), bytes as u64);
        prop_assert_eq!(found, model.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_snapshot_reads_back_as_the_same_store(steps in steps()) {
        let store = run(steps);
        let back = RecordStore::decode(encoded(&store).as_slice()).unwrap();
        prop_assert_eq!(back.bytes(), store.bytes());
        prop_assert_eq!(back, store);
    }

    #[test]
    fn a_truncated_snapshot_is_refused(steps in steps(), cut in any::<prop::sample::Index>()) {
        let bytes = encoded(&run(steps));
        let kept = &bytes[..cut.index(bytes.len())];
        prop_assert!(RecordStore::decode(kept).is_err());
    }

    #[test]
    fn a_snapshot_with_a_flipped_byte_is_refused(
        steps in steps(), at in any::<prop::sample::Index>(), mask in 1u8..,
    ) {
        let mut bytes = encoded(&run(steps));
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        prop_assert!(RecordStore::decode(bytes.as_slice()).is_err(), "byte {} was flipped", at);
    }

    #[test]
    fn bytes_that_were_never_a_snapshot_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(RecordStore::decode(bytes.as_slice()).is_err());
        let begins_right = [b"IXRECORD\x01\0\0\0".as_slice(), &bytes].concat();
        prop_assert!(RecordStore::decode(begins_right.as_slice()).is_err());
    }
}

fn large_store() -> RecordStore {
    let records = (0..2_000).map(|i| (key(1, &format!("driver-{i:05}")), vec![7; 1024].into()));
    RecordStore::restore(Epoch(3), CommitSeq(9), records)
}

#[test]
fn a_large_store_is_encoded_in_chunks_of_bounded_size() {
    let store = large_store();
    let chunks: Vec<Bytes> = store.encode().collect();
    assert!(chunks.len() > 8, "{} chunks", chunks.len());
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk.len() < SNAPSHOT_CHUNK_BYTES + 2048)
    );
    assert_eq!(
        RecordStore::decode(chunks.concat().as_slice()).unwrap(),
        store
    );
}

#[test]
fn a_snapshot_shows_the_moment_it_was_taken() {
    let mut store = large_store();
    let before = store.clone();
    let mut chunks = store.encode();
    let mut bytes = chunks.next().unwrap().to_vec();
    let value = Bytes::from_static(b"later");
    let mutations = (0..2_000)
        .map(|i| Mutation::Put {
            key: key(1, &format!("driver-{i:05}")),
            value: value.clone(),
        })
        .collect();
    store
        .apply(CommitBatch {
            epoch: Epoch(3),
            mutations,
        })
        .unwrap();
    chunks.for_each(|chunk| bytes.extend_from_slice(&chunk));
    assert_eq!(RecordStore::decode(bytes.as_slice()).unwrap(), before);
}

#[test]
fn a_snapshot_of_a_newer_program_is_refused_by_name() {
    let mut bytes = encoded(&large_store());
    bytes[8..12].copy_from_slice(&(SNAPSHOT_VERSION + 1).to_le_bytes());
    let error = RecordStore::decode(bytes.as_slice()).unwrap_err();
    assert!(matches!(error, SnapshotError::Newer { found } if found == SNAPSHOT_VERSION + 1));
    assert!(error.to_string().contains("format version 2"), "{error}");
}

#[test]
fn bytes_after_the_end_of_a_snapshot_are_refused() {
    let mut bytes = encoded(&large_store());
    bytes.push(0);
    assert!(matches!(
        RecordStore::decode(bytes.as_slice()),
        Err(SnapshotError::Corrupt(_))
    ));
}

#[test]
fn a_chunk_length_from_a_broken_header_allocates_nothing() {
    let mut bytes = encoded(&RecordStore::new());
    let trailer = bytes.len() - 8;
    bytes[trailer..trailer + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = RecordStore::decode(bytes.as_slice()).unwrap_err();
    assert!(
        matches!(error, SnapshotError::Corrupt("a chunk is too long")),
        "{error}"
    );
}
