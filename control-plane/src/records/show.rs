//! Stored records as they are, without making a cluster of them.

use bytes::Bytes;
use interrex_persistence::{record::RecordKey, record_store::RecordStore};
use interrex_proto::v1;
use prost::Message;
use serde::Serialize;

use crate::records::{
    APPLICATION, DRIVER, EXECUTOR, META, META_COPY_ID, META_ID, REQUEST, WORKER, envelope::open,
    key,
};

/// The id of the cluster that the records of `store` are of; `None` where neither copy of the meta record can be read.
#[must_use]
pub fn cluster_id(store: &RecordStore) -> Option<String> {
    metas(store)
        .map(|meta| meta.cluster_id)
        .find(|id| !id.is_empty())
}

/// The same of the records as a new leader gets them.
#[must_use]
pub fn cluster_id_in(records: &[(RecordKey, Bytes)]) -> Option<String> {
    let metas = records.iter().filter(|(key, _)| key.kind == META);
    let mut ids = metas.filter_map(|(_, value)| open::<v1::MetaRecord>(value).ok());
    ids.find_map(|meta| Some(meta.cluster_id).filter(|id| !id.is_empty()))
}

/// How many copies of the meta record can be read.
#[must_use]
pub fn readable_metas(store: &RecordStore) -> usize {
    metas(store).count()
}

fn metas(store: &RecordStore) -> impl Iterator<Item = v1::MetaRecord> {
    [META_ID, META_COPY_ID]
        .into_iter()
        .filter_map(|id| open(store.get(&key(META, id))?).ok())
}

/// The message of a record, for people; `None` where it cannot be read.
#[must_use]
pub fn to_json(key: &RecordKey, value: &Bytes) -> Option<serde_json::Value> {
    match key.kind {
        META => message::<v1::MetaRecord>(value),
        WORKER => message::<v1::WorkerRecord>(value),
        APPLICATION => message::<v1::ApplicationRecord>(value),
        DRIVER => message::<v1::DriverRecord>(value),
        EXECUTOR => message::<v1::ExecutorRecord>(value),
        REQUEST => message::<v1::RequestRecord>(value),
        _unknown => None,
    }
}

fn message<M: Message + Default + Serialize>(value: &Bytes) -> Option<serde_json::Value> {
    serde_json::to_value(open::<M>(value).ok()?).ok()
}
