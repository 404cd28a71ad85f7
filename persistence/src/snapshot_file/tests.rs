//! Every flipped byte and every truncation of a snapshot file is detected.

use proptest::prelude::*;

use super::*;
use crate::{
    epoch::{CommitSeq, Epoch},
    options::EngineKind,
    record::{RecordKey, RecordKind},
};

fn snapshot(values: Vec<(u8, String, Vec<u8>)>) -> StoreSnapshot {
    let records = values.into_iter().map(|(kind, id, value)| {
        let key = RecordKey {
            kind: RecordKind(kind),
            id: id.into(),
        };
        (key, Bytes::from(value))
    });
    StoreSnapshot {
        engine: EngineKind::Raft,
        cluster_id: Some("c1".to_owned()),
        store: RecordStore::restore(Epoch(7), CommitSeq(42), records),
    }
}

fn small() -> StoreSnapshot {
    let record = |kind, id: &str, byte| (kind, id.to_owned(), vec![byte; 40]);
    snapshot(vec![
        record(1, "meta", 1),
        record(4, "d1", 2),
        record(4, "d2", 3),
    ])
}

fn bytes(snapshot: &StoreSnapshot) -> Vec<u8> {
    let header = SnapshotHeader::new(snapshot, 1_700_000_000_000);
    header.encode(&snapshot.store).flatten().collect()
}

#[test]
fn a_snapshot_reads_back_with_its_header() {
    let file = SnapshotFile::read(bytes(&small()).as_slice()).unwrap();
    assert_eq!(file.store, small().store);
    let SnapshotHeader {
        cluster_id,
        epoch,
        seq,
        engine,
        records,
        records_by_kind,
        ..
    } = file.header;
    assert_eq!(
        (cluster_id.as_str(), epoch, seq, engine.as_str(), records),
        ("c1", 7, 42, "raft", 3)
    );
    assert_eq!(records_by_kind, BTreeMap::from([(1, 1), (4, 2)]));
    assert_eq!(file.bytes, bytes(&small()).len() as u64);
    assert_eq!(file.digest.to_string().len(), 64);
}

#[test]
fn every_flipped_byte_is_detected() {
    let whole = bytes(&small());
    for at in 0..whole.len() {
        for bit in [0x01, 0x80] {
            let mut bad = whole.clone();
            bad[at] ^= bit;
            let error = SnapshotFile::read(bad.as_slice()).unwrap_err();
            // Never taken for a newer format: that would blame the program.
            assert!(
                !matches!(error, SnapshotFileError::Newer { .. }),
                "byte {at}: {error}"
            );
        }
    }
}

#[test]
fn every_truncation_is_detected_and_says_how_long_the_file_is() {
    let whole = bytes(&small());
    for len in 0..whole.len() {
        let error = SnapshotFile::read(&whole[..len]).unwrap_err();
        assert!(
            matches!(error, SnapshotFileError::Truncated { at, .. } if at == len as u64),
            "{len} bytes: {error}"
        );
    }
}

#[test]
fn bytes_behind_the_end_and_other_files_are_refused() {
    let mut longer = bytes(&small());
    longer.push(0);
    let error = SnapshotFile::read(longer.as_slice())
        .unwrap_err()
        .to_string();
    assert!(error.contains("bytes follow its end"), "{error}");
    let error = SnapshotFile::read(&b"PK\x03\x04 something else"[..]).unwrap_err();
    assert!(matches!(error, SnapshotFileError::Foreign), "{error}");
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let mut newer = bytes(&small());
    let len = u32::from_le_bytes(newer[12..16].try_into().unwrap()) as usize;
    let crc = checksum(9, &newer[20..20 + len]);
    newer[8..12].copy_from_slice(&9_u32.to_le_bytes());
    newer[16..20].copy_from_slice(&crc.to_le_bytes());
    let error = SnapshotFile::read(newer.as_slice()).unwrap_err();
    assert!(
        matches!(error, SnapshotFileError::Newer { found: 9 }),
        "{error}"
    );
    assert!(error.to_string().contains("use the newer program"));
}

#[test]
fn pieces_are_small_enough_for_one_message() {
    let values = (0..3).map(|i| (4, format!("d{i}"), vec![7; 2 << 20]));
    let large = snapshot(values.collect());
    let header = SnapshotHeader::new(&large, 0);
    let longest = header.encode(&large.store).map(|piece| piece.len()).max();
    assert!(longest.unwrap() < 3 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_stored_reads_back(
        values in prop::collection::vec((any::<u8>(), "[a-z]{1,8}", prop::collection::vec(any::<u8>(), 0..300)), 0..40),
    ) {
        let snapshot = snapshot(values);
        let file = SnapshotFile::read(bytes(&snapshot).as_slice()).unwrap();
        prop_assert_eq!(file.store, snapshot.store);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut begun = MAGIC.to_vec();
        begun.extend(bytes);
        prop_assert!(SnapshotFile::read(begun.as_slice()).is_err());
    }
}
