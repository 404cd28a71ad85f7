//! Snapshots: the records in pieces, so that the log before them can go.
//!
//! The pieces are written while commits go on; then one transaction makes them count, and removes the log that they
//! hold, the snapshot before and whatever other uploads have left behind. Until that transaction a reader knows nothing
//! of them.

use tokio::time::Instant;

use super::{
    failure::{CallError, Kind},
    limits::{CHUNK_BYTES, LOG_BYTES_AN_ENTRY, LOG_BYTES_MIN, LOG_ENTRIES_MIN},
    metrics,
    node::delete_range,
    reader::{SNAPSHOT_FORMAT, SnapshotValue},
    write::{Outcome, Pen},
};
use crate::record_store::RecordStore;

/// Whether the log is long enough to be replaced by a snapshot of so many bytes.
pub(super) fn due(entries: u64, bytes: u64, store_bytes: u64) -> bool {
    bytes >= LOG_BYTES_MIN.max(store_bytes)
        || entries >= LOG_ENTRIES_MIN.max(store_bytes / LOG_BYTES_AN_ENTRY)
}

/// Writes the pieces of `store`. They count for nothing yet.
///
/// # Errors
/// The first write that did not succeed.
pub(super) async fn upload(pen: Pen, store: RecordStore) -> Result<SnapshotValue, CallError> {
    let began = Instant::now();
    let mut head = SnapshotValue {
        format: SNAPSHOT_FORMAT,
        seq: store.seq().0,
        pieces: 0,
        bytes: 0,
    };
    let mut piece = Vec::with_capacity(CHUNK_BYTES);
    for chunk in store.encode() {
        let mut rest = &*chunk;
        while !rest.is_empty() {
            let (fits, later) = rest.split_at(rest.len().min(CHUNK_BYTES - piece.len()));
            piece.extend_from_slice(fits);
            rest = later;
            if piece.len() == CHUNK_BYTES {
                write_piece(&pen, &mut head, &mut piece).await?;
            }
        }
    }
    if !piece.is_empty() {
        write_piece(&pen, &mut head, &mut piece).await?;
    }
    metrics::snapshot_built(began.elapsed());
    Ok(head)
}

async fn write_piece(
    pen: &Pen,
    head: &mut SnapshotValue,
    piece: &mut Vec<u8>,
) -> Result<(), CallError> {
    let key = pen.node.keys.piece(head.seq, head.pieces);
    head.pieces += 1;
    head.bytes += piece.len() as u64;
    let value = std::mem::replace(piece, Vec::with_capacity(CHUNK_BYTES));
    let put = etcd_client::TxnOp::put(key, value, None);
    match pen.repeatable("snapshot", vec![put]).await {
        Outcome::Stored => Ok(()),
        Outcome::Fenced => Err(CallError::new(Kind::Unknown, "the leadership is over")),
        Outcome::Refused(error) | Outcome::Unknown(error) => Err(error),
    }
}

/// Makes the snapshot count, and removes what it replaces.
pub(super) async fn adopt(pen: &Pen, head: &SnapshotValue) -> Outcome {
    let keys = &pen.node.keys;
    let value = match serde_json::to_vec(head) {
        Ok(value) => value,
        Err(error) => return Outcome::Refused(CallError::new(Kind::Unsent, error.to_string())),
    };
    let then = vec![
        etcd_client::TxnOp::put(keys.snapshot(), value, None),
        delete_range(keys.pieces(), keys.pieces_of(head.seq)),
        delete_range(keys.pieces_of(head.seq + 1), keys.pieces_end()),
        delete_range(keys.log(), keys.entry(head.seq + 1)),
    ];
    pen.repeatable("snapshot", then).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_when_the_log_outweighs_the_records() {
        assert!(!due(10, LOG_BYTES_MIN - 1, 0));
        assert!(due(10, LOG_BYTES_MIN, 0));
        assert!(!due(10, LOG_BYTES_MIN, LOG_BYTES_MIN * 2));
        assert!(due(LOG_ENTRIES_MIN, 0, 0));
        assert!(!due(
            LOG_ENTRIES_MIN,
            0,
            LOG_ENTRIES_MIN * LOG_BYTES_AN_ENTRY * 2
        ));
    }
}
