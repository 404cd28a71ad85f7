//! How entries and votes lie in the log's files: postcard with a length, inside the records of the `raft-log` crate,
//! which have checksums.

use std::{
    io::{self, Read},
    sync::Arc,
};

use raft_log::codeq;
use serde::{Deserialize, Serialize};

use super::{
    log_flush::Flushed,
    types::{CommittedLeaderId, LogEntry, LogId, Payload, Vote},
};
use crate::record::{BATCH_BYTES_MAX, Mutation};

/// An encoded payload: a batch with room for its framing. More can only be damage.
const PAYLOAD_BYTES_MAX: u64 = 2 * BATCH_BYTES_MAX as u64;

/// What the `raft-log` crate is made of here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Files;

/// A payload as it is stored: decoded once, shared by the cache and its readers.
#[derive(Debug, Clone)]
pub(super) struct StoredPayload {
    pub(super) payload: Arc<Payload>,
    /// About what it takes in memory.
    pub(super) bytes: u64,
}

/// A vote as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredVote(pub(super) Vote);

// === impl Files ===

impl raft_log::Types for Files {
    /// Term and index.
    type LogId = (u64, u64);
    type LogPayload = StoredPayload;
    type Vote = StoredVote;
    type Callback = Flushed;
    type UserData = String;

    fn log_index(log_id: &Self::LogId) -> u64 {
        log_id.1
    }

    fn payload_size(payload: &Self::LogPayload) -> u64 {
        payload.bytes
    }
}

pub(super) fn to_stored(log_id: LogId) -> (u64, u64) {
    (*log_id.leader_id, log_id.index)
}

pub(super) fn from_stored((term, index): (u64, u64)) -> LogId {
    LogId::new(CommittedLeaderId::new(term), index)
}

// === impl StoredPayload ===

impl StoredPayload {
    pub(super) fn new(payload: Payload) -> Self {
        Self {
            bytes: weight(&payload),
            payload: Arc::new(payload),
        }
    }
}

impl codeq::Encode for StoredPayload {
    fn encode<W: io::Write>(&self, w: W) -> io::Result<usize> {
        postcard::to_allocvec(&*self.payload)
            .map_err(io::Error::other)?
            .encode(w)
    }
}

impl codeq::Decode for StoredPayload {
    fn decode<R: io::Read>(r: R) -> io::Result<Self> {
        let body = bounded(r)?;
        let payload = postcard::from_bytes(&body).map_err(damage)?;
        Ok(Self::new(payload))
    }
}

// === impl StoredVote ===

/// Votes of one term for different nodes cannot follow each other, so they do not compare.
impl PartialOrd for StoredVote {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&other.0)
    }
}

impl codeq::Encode for StoredVote {
    fn encode<W: io::Write>(&self, w: W) -> io::Result<usize> {
        postcard::to_allocvec(self)
            .map_err(io::Error::other)?
            .encode(w)
    }
}

impl codeq::Decode for StoredVote {
    fn decode<R: io::Read>(r: R) -> io::Result<Self> {
        postcard::from_bytes(&bounded(r)?).map_err(damage)
    }
}

/// A length and as many bytes. A length beyond [`PAYLOAD_BYTES_MAX`] is damage, not a torn tail.
fn bounded<R: io::Read>(mut r: R) -> io::Result<Vec<u8>> {
    let len: u32 = codeq::Decode::decode(&mut r)?;
    if u64::from(len) > PAYLOAD_BYTES_MAX {
        let text = format!("an entry of {len} bytes, at most {PAYLOAD_BYTES_MAX} are written");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut body = Vec::new();
    io::Read::take(&mut r, u64::from(len)).read_to_end(&mut body)?;
    if body.len() != len as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

/// About how much memory a payload takes, for the bounds of the cache and of one read.
fn weight(payload: &Payload) -> u64 {
    const OVERHEAD: usize = 64;
    let bytes = match payload {
        Payload::Normal(LogEntry::Batch(batch)) => batch
            .mutations
            .iter()
            .map(|mutation| match mutation {
                Mutation::Put { key, value } => OVERHEAD + key.id.len() + value.len(),
                Mutation::Delete { key } => OVERHEAD + key.id.len(),
            })
            .sum(),
        Payload::Normal(LogEntry::Extension { body, .. }) => OVERHEAD + body.len(),
        Payload::Blank | Payload::Normal(_) | Payload::Membership(_) => OVERHEAD,
    };
    (OVERHEAD + bytes) as u64
}

fn damage(error: postcard::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
