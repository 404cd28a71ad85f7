//! What is in a snapshot, for people and scripts.

use std::collections::BTreeMap;

use interrex_persistence::{
    backend::StoreSnapshot,
    record_store::RecordStore,
    snapshot_file::{SnapshotFile, SnapshotHeader},
};
use serde::Serialize;

use crate::records::{self, NewerFormat};

/// Everything that `interrex snapshot inspect` shows.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The SHA-256 of the file, which was checked; none where there is no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Its length, or that of the records.
    pub bytes: u64,
    /// What it is of.
    pub header: SnapshotHeader,
    /// Records by kind.
    pub kinds: BTreeMap<&'static str, KindReport>,
    /// Records that cannot be read, in the order of their keys.
    pub quarantined: Vec<QuarantinedRecord>,
    /// A restore of this snapshot's cluster had begun and not ended when it was taken; empty: none.
    pub restoring: String,
    /// Clusters whose records had been restored into this snapshot's.
    pub formerly: Vec<String>,
    /// Some records of each kind, in full.
    pub sample: Vec<Sampled>,
}

/// The readable records of one kind.
#[derive(Debug, Clone, Default, Serialize)]
pub struct KindReport {
    /// How many there are.
    pub records: u64,
    /// The same by state, for kinds that have states.
    pub states: BTreeMap<String, u64>,
}

/// A record that cannot be read.
#[derive(Debug, Clone, Serialize)]
pub struct QuarantinedRecord {
    /// Its kind.
    pub kind: &'static str,
    /// Its id.
    pub id: String,
    /// Why it cannot be read.
    pub reason: String,
}

/// One record in full.
#[derive(Debug, Clone, Serialize)]
pub struct Sampled {
    /// Its kind.
    pub kind: &'static str,
    /// Its id.
    pub id: String,
    /// The message that is stored.
    pub record: serde_json::Value,
}

/// Looks into a snapshot: every record is decoded, the first `sample` of each kind are shown.
///
/// # Errors
/// [`NewerFormat`] when a newer version has written a record.
pub fn examine(file: &SnapshotFile, sample: usize) -> Result<Report, NewerFormat> {
    Ok(Report {
        sha256: Some(file.digest.to_string()),
        bytes: file.bytes,
        ..report(file.header.clone(), &file.store, sample)?
    })
}

/// Looks into records that are in no snapshot in the same way; the header says when `now_ms` is and who looked.
///
/// # Errors
/// [`NewerFormat`] when a newer version has written a record.
pub fn examine_store(
    cut: StoreSnapshot,
    now_ms: u64,
    sample: usize,
) -> Result<Report, NewerFormat> {
    let (header, store) = super::describe(cut, now_ms);
    report(header, &store, sample)
}

fn report(
    header: SnapshotHeader,
    store: &RecordStore,
    sample: usize,
) -> Result<Report, NewerFormat> {
    let decoded = records::decode_all(store.recovered())?;
    let entities = &decoded.entities;
    let mut kinds: BTreeMap<&'static str, KindReport> = BTreeMap::new();
    let mut count = |kind: &'static str, state: Option<&str>| {
        let report = kinds.entry(kind).or_default();
        report.records += 1;
        if let Some(state) = state {
            *report.states.entry(state.to_owned()).or_default() += 1;
        }
    };
    let workers = entities.workers.iter();
    workers.for_each(|worker| count("worker", Some(worker.state.name())));
    let apps = entities.apps.iter();
    apps.for_each(|app| count("application", Some(app.state.name())));
    let drivers = entities.drivers.iter();
    drivers.for_each(|driver| count("driver", Some(driver.state.name())));
    let executors = entities.executors.iter();
    executors.for_each(|executor| count("executor", Some(executor.state.name())));
    entities
        .requests
        .iter()
        .for_each(|_| count("request", None));
    let metas = records::readable_metas(store);
    (0..metas).for_each(|_| count("meta", None));
    let quarantined = decoded.quarantined.iter().map(|record| QuarantinedRecord {
        kind: records::kind_name(record.key.kind),
        id: record.key.id.to_string(),
        reason: record.reason.to_string(),
    });
    Ok(Report {
        sha256: None,
        bytes: store.bytes(),
        header,
        quarantined: quarantined.collect(),
        restoring: entities.meta.restoring.clone(),
        formerly: entities.meta.formerly.clone(),
        sample: samples(store, sample),
        kinds,
    })
}

fn samples(store: &RecordStore, of_each: usize) -> Vec<Sampled> {
    let mut taken = Vec::new();
    let mut of_kind = (None, 0);
    for (key, value) in store.iter() {
        if of_kind.0 != Some(key.kind) {
            of_kind = (Some(key.kind), 0);
        }
        if of_kind.1 < of_each
            && let Some(record) = records::to_json(key, value)
        {
            of_kind.1 += 1;
            taken.push(Sampled {
                kind: records::kind_name(key.kind),
                id: key.id.to_string(),
                record,
            });
        }
    }
    taken
}
