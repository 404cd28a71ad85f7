//! Entities as stored records, and back.
//!
//! Owned by the leader's loop: it encodes the mutations of each commit, and decodes everything once when an
//! epoch is opened. What must never happen: that one bad record keeps a leader from recovering. A record that
//! cannot be trusted is *quarantined*: left in the store untouched, reported, and not used. Only a record of a
//! newer format stops a leader, since going on would lose what the newer version knows.

mod decode;
mod encode;
mod entities;
mod envelope;
pub(crate) mod events;
mod show;
mod states;

use interrex_persistence::record::{RecordKey, RecordKind};

pub use self::{
    decode::{Decoded, Quarantined, decode_all},
    encode::encode_batch,
    envelope::FORMAT_VERSION,
    show::{cluster_id, cluster_id_in, readable_metas, to_json},
};

/// The cluster's identity and counters; two copies under [`META_ID`] and [`META_COPY_ID`].
pub const META: RecordKind = RecordKind(1);
/// Workers, by id.
pub const WORKER: RecordKind = RecordKind(2);
/// Applications, by id.
pub const APPLICATION: RecordKind = RecordKind(3);
/// Drivers, by id.
pub const DRIVER: RecordKind = RecordKind(4);
/// Executors, by `application/number`.
pub const EXECUTOR: RecordKind = RecordKind(5);
/// Accepted requests, by request id.
pub const REQUEST: RecordKind = RecordKind(6);

/// Records of the event log, by their first and last number.
pub const EVENTS: RecordKind = RecordKind(7);

/// Bytes that could not be read and whose place was needed by something new; by `kind/id#checksum`.
pub const SET_ASIDE: RecordKind = RecordKind(255);
/// The id of the first copy of the meta record.
pub const META_ID: &str = "meta";
/// The id of the second copy: with the first one damaged, the cluster keeps its identity.
pub const META_COPY_ID: &str = "meta-copy";

/// Why one record cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes are no envelope, or the body is no message of its kind.
    #[error("not a record: {0}")]
    Garbage(String),
    /// The checksum differs.
    #[error("checksum {found:#010x} where {stored:#010x} was stored")]
    Checksum {
        /// Of the bytes as they are.
        found: u32,
        /// Of the bytes as they were written.
        stored: u32,
    },
    /// A field has a value that no version of this format writes.
    #[error("{field}: `{value}` is no known value")]
    Field {
        /// Which.
        field: &'static str,
        /// What it holds.
        value: String,
    },
    /// It lies under another key than it names itself.
    #[error("names itself `{found}`")]
    WrongKey {
        /// What it says.
        found: String,
    },
    /// No kind that this version knows.
    #[error("kind {0} is unknown")]
    Kind(u8),
    /// The bytes of a damaged record, moved here before its place was taken by a new one.
    #[error("bytes of a damaged record, set aside")]
    SetAside,
    /// Written by a newer version: not quarantined, the whole store is refused.
    #[error("format version {found}, but this build knows versions up to {FORMAT_VERSION}")]
    Newer {
        /// Its version.
        found: u32,
    },
}

/// The store holds what a newer version wrote: this master must not lead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} was written in format version {found}, but this build knows versions up to {FORMAT_VERSION}; \
     upgrade this master before it can lead",
    shown_key(key)
)]
pub struct NewerFormat {
    /// The first such record.
    pub key: RecordKey,
    /// Its version.
    pub found: u32,
}

/// The name of a kind, for logs and metrics.
#[must_use]
pub fn kind_name(kind: RecordKind) -> &'static str {
    match kind {
        META => "meta",
        WORKER => "worker",
        APPLICATION => "application",
        DRIVER => "driver",
        EXECUTOR => "executor",
        REQUEST => "request",
        EVENTS => "events",
        SET_ASIDE => "set-aside",
        RecordKind(_) => "unknown",
    }
}

/// Where the bytes of the damaged record under `key` are set aside.
#[must_use]
pub fn aside_key(key: &RecordKey, value: &[u8]) -> RecordKey {
    let mut id = format!("{}/{}", key.kind.0, key.id);
    let suffix = format!("#{:08x}", crc32fast::hash(value));
    // Ids are a few hundred bytes at most; a longer one can only be damage itself.
    let room = interrex_persistence::record::KEY_BYTES_MAX - suffix.len();
    while id.len() > room {
        id.pop();
    }
    id.push_str(&suffix);
    self::key(SET_ASIDE, id)
}

/// The name of a record, for people.
#[must_use]
pub fn shown_key(key: &RecordKey) -> String {
    format!("{} `{}`", kind_name(key.kind), key.id)
}

fn key(kind: RecordKind, id: impl Into<Box<str>>) -> RecordKey {
    RecordKey {
        kind,
        id: id.into(),
    }
}

#[cfg(test)]
mod records_test;
#[cfg(test)]
mod size_test;
