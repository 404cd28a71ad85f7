//! Reading everything at one revision, in pages.

use std::{
    collections::VecDeque,
    io::{self, Read},
};

use etcd_client::GetOptions;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    failure::{CallError, Kind, Refused},
    limits::{
        ANSWER_BYTES_MAX, CALL_DEADLINE, PAGE_BYTES, PAGE_DEADLINE, PAGE_KEYS_MAX, PAGE_KEYS_MIN,
        RETRY_MIN,
    },
    log::{Assembler, LogError},
    node::Node,
};
use crate::{
    error::CommitError,
    record::CommitBatch,
    record_store::{RecordStore, Refusal, SnapshotError},
};

/// How often one page is asked for before reading is given up.
const TRIES: u32 = 4;
/// The layout of snapshots that this version writes and reads.
pub(super) const SNAPSHOT_FORMAT: u32 = 1;

/// The value of the snapshot key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SnapshotValue {
    pub(super) format: u32,
    /// The newest batch in it, which is also the name of its pieces.
    pub(super) seq: u64,
    pub(super) pieces: u32,
    pub(super) bytes: u64,
}

/// What was read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) store: RecordStore,
    /// The log since the snapshot.
    pub(super) log_entries: u64,
    pub(super) log_bytes: u64,
}

/// Why the records could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("the snapshot in etcd is damaged: {0}")]
    Damaged(String),
    #[error("the log in etcd does not fit its snapshot: {0}")]
    Misfit(#[from] Refusal),
    #[error("leadership ended while records were read")]
    Over,
}

/// Keys and values of one range.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads everything as it was at `revision`, as long as `wanted`.
///
/// # Errors
/// See [`ReadError`].
pub(super) async fn read(
    node: &Node,
    revision: i64,
    wanted: impl Fn() -> bool,
) -> Result<Loaded, ReadError> {
    let keys = &node.keys;
    let snapshot = read_head(node, revision).await?;
    let pieces = match &snapshot {
        Some(head) => {
            let (start, end) = (keys.pieces_of(head.seq), keys.pieces_of(head.seq + 1));
            scan(node, start, end, revision, &wanted).await?
        }
        None => Pairs::new(),
    };
    let next = snapshot.as_ref().map_or(1, |head| head.seq + 1);
    let log = scan(node, keys.entry(next), keys.log_end(), revision, &wanted).await?;
    let keys = keys.clone();
    // Much to do with many records, and the lease must be kept alive meanwhile.
    let built = tokio::task::spawn_blocking(move || {
        let mut loaded = Loaded {
            store: build(snapshot.as_ref(), pieces)?,
            log_entries: 0,
            log_bytes: 0,
        };
        let mut assembler = Assembler::from(next);
        for (key, value) in log {
            let Some(key) = keys.log_key(&key) else {
                continue;
            };
            loaded.log_bytes += value.len() as u64;
            let Some(entry) = assembler.push(key, &value)? else {
                continue;
            };
            loaded.log_entries += 1;
            let epoch = crate::epoch::Epoch(entry.epoch);
            loaded.store.open_epoch(epoch)?;
            for mutations in entry.batches {
                loaded.store.apply(CommitBatch { epoch, mutations })?;
            }
        }
        assembler.finish()?;
        Ok(loaded)
    });
    built
        .await
        .unwrap_or_else(|error| Err(ReadError::Damaged(error.to_string())))
}

async fn read_head(node: &Node, revision: i64) -> Result<Option<SnapshotValue>, ReadError> {
    let key = node.keys.snapshot();
    let at = GetOptions::new().with_revision(revision);
    let found = node
        .link
        .call(
            "read",
            Instant::now() + CALL_DEADLINE,
            |mut client| async move { client.get(key, Some(at)).await },
        )
        .await?;
    let Some(kv) = found.kvs().first() else {
        return Ok(None);
    };
    let head: SnapshotValue = serde_json::from_slice(kv.value())
        .map_err(|error| ReadError::Damaged(error.to_string()))?;
    if head.format > SNAPSHOT_FORMAT {
        return Err(ReadError::Damaged(format!(
            "it has format {}, this program reads up to {SNAPSHOT_FORMAT}; use the newer program",
            head.format
        )));
    }
    Ok(Some(head))
}

/// Reads a range, in pages of about [`PAGE_BYTES`].
async fn scan(
    node: &Node,
    start: String,
    end: String,
    revision: i64,
    wanted: &impl Fn() -> bool,
) -> Result<Pairs, ReadError> {
    let mut all = Pairs::new();
    let mut from = start.into_bytes();
    let mut limit = PAGE_KEYS_MIN;
    let mut tries = 0;
    loop {
        if !wanted() {
            return Err(ReadError::Over);
        }
        let options = GetOptions::new()
            .with_range(end.clone())
            .with_limit(limit)
            .with_revision(revision);
        let start = from.clone();
        let page = node
            .link
            .call(
                "read",
                Instant::now() + PAGE_DEADLINE,
                |client| async move {
                    let kv = client.kv_client();
                    let mut kv = kv.max_decoding_message_size(ANSWER_BYTES_MAX);
                    kv.get(start, Some(options)).await
                },
            )
            .await;
        let mut page = match page {
            Ok(page) => page,
            // Too large to be taken, perhaps.
            Err(error) if error.kind == Kind::Refused(Refused::Other) && limit > PAGE_KEYS_MIN => {
                limit = PAGE_KEYS_MIN;
                continue;
            }
            // Nothing is changed by reading twice.
            Err(error) if error.is_of_the_connection() && tries < TRIES => {
                tries += 1;
                node.rest(RETRY_MIN * tries).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        tries = 0;
        let more = page.more();
        let pairs = page.take_kvs().into_iter();
        let before = all.len();
        all.extend(pairs.map(etcd_client::KeyValue::into_key_value));
        let Some((last, _)) = all.last().filter(|_| more && all.len() > before) else {
            return Ok(all);
        };
        from.clone_from(last);
        from.push(0);
        let read = all.get(before..).unwrap_or_default();
        limit = next_limit(read.len(), read.iter().map(|(_, value)| value.len()).sum());
    }
}

/// As many keys as would have made the last page about right, growing no faster than by doubling.
fn next_limit(keys: usize, bytes: usize) -> i64 {
    let fitting = PAGE_BYTES.saturating_mul(keys) / bytes.max(1);
    let limit = fitting.min(keys * 2);
    i64::try_from(limit)
        .unwrap_or(PAGE_KEYS_MAX)
        .clamp(PAGE_KEYS_MIN, PAGE_KEYS_MAX)
}

fn build(head: Option<&SnapshotValue>, pieces: Pairs) -> Result<RecordStore, ReadError> {
    let Some(head) = head else {
        return Ok(RecordStore::new());
    };
    if pieces.len() != head.pieces as usize {
        return Err(ReadError::Damaged(format!(
            "{} of {} pieces are there",
            pieces.len(),
            head.pieces
        )));
    }
    let store = RecordStore::decode(PiecesReader {
        pieces: pieces.into_iter().map(|(_, value)| value).collect(),
        at: 0,
    })?;
    if store.seq().0 != head.seq {
        return Err(ReadError::Damaged(format!(
            "it ends with batch {}, not {}",
            store.seq(),
            head.seq
        )));
    }
    Ok(store)
}

/// The pieces of a snapshot as one stream.
struct PiecesReader {
    pieces: VecDeque<Vec<u8>>,
    at: usize,
}

impl Read for PiecesReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(piece) = self.pieces.front() else {
                return Ok(0);
            };
            let mut rest = piece.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                self.pieces.pop_front();
                self.at = 0;
                continue;
            }
            let read = rest.read(into)?;
            self.at += read;
            return Ok(read);
        }
    }
}

impl From<ReadError> for CommitError {
    /// The epoch's opening has changed nothing that matters, so it may be tried again.
    fn from(error: ReadError) -> Self {
        Self::Rejected(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_with_small_values_and_shrink_with_large_ones() {
        assert_eq!(next_limit(4, 400), 8);
        assert_eq!(next_limit(1500, 15_000), PAGE_KEYS_MAX);
        assert_eq!(next_limit(100, 400 << 20), PAGE_KEYS_MIN);
        assert_eq!(next_limit(8, 8 << 20), 4);
        assert_eq!(next_limit(4, 0), 8);
    }

    #[test]
    fn pieces_are_read_as_one_stream() {
        let mut reader = PiecesReader {
            pieces: [vec![1, 2, 3], vec![], vec![4], vec![5, 6]].into(),
            at: 0,
        };
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert_eq!(all, [1, 2, 3, 4, 5, 6]);
    }
}
