//! How records become entries of the database, and back. Pure.
//!
//! ```text
//! [0]                                   meta: the fence and what the whole must come to
//! [1] kind id_len:u16 id piece:u16      a piece of a value; piece 0 begins with the value's length and checksum
//! ```
//! Numbers in keys are big-endian. Values are cut into pieces because sled writes a page of more than 128 KiB into
//! a file of its own that it never syncs; a page holds up to some thirty entries.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};
use sled::Batch;

use crate::{
    epoch::{CommitSeq, Epoch},
    record::{CommitBatch, Mutation, RecordKey, RecordKind},
    record_store::RecordStore,
};

/// Largest piece of a value: thirty of them, with keys, stay below 128 KiB.
const PIECE_BYTES: usize = 3 << 10;
const META_KEY: [u8; 1] = [0];
const RECORD: u8 = 1;
const RECORD_OVERHEAD_BYTES: usize = 1 + 1 + 2 + 2;
const VALUE_HEADER_BYTES: usize = 4 + 4;

/// All that is durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) store: RecordStore,
    /// Largest epoch that was given to a leadership.
    pub(super) granted: Epoch,
}

/// Entry [`META_KEY`]; another shape needs another format in the marker file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meta {
    granted: Epoch,
    opened: Epoch,
    seq: CommitSeq,
    /// What the records must come to; a page that the database lost shows here.
    count: u64,
    bytes: u64,
}

/// Reads entries, in ascending order, into a [`Content`].
#[derive(Debug, Default)]
pub(super) struct Loader {
    meta: Option<Meta>,
    records: Vec<(RecordKey, Bytes)>,
    open: Option<Assembly>,
}

/// A value of which more pieces are to come.
#[derive(Debug)]
struct Assembly {
    key: RecordKey,
    len: usize,
    crc: u32,
    next: u16,
    value: BytesMut,
}

/// The keys that `batch` changes, added to `touched`.
pub(super) fn touch(batch: &CommitBatch, touched: &mut BTreeSet<RecordKey>) {
    touched.extend(batch.mutations.iter().map(|mutation| match mutation {
        Mutation::Put { key, .. } | Mutation::Delete { key } => key.clone(),
    }));
}

/// What turns the entries of `before` into those of `after`, where only `touched` keys differ.
pub(super) fn difference(
    before: &Content,
    after: &Content,
    touched: &BTreeSet<RecordKey>,
) -> Batch {
    let mut batch = Batch::default();
    for key in touched {
        let (old, new) = (before.store.get(key), after.store.get(key));
        if let Some(new) = new {
            put(&mut batch, key, new);
        }
        let kept = new.map_or(0, pieces);
        for piece in kept..old.map_or(0, pieces) {
            batch.remove(entry_key(key, piece));
        }
    }
    put_meta(&mut batch, after);
    batch
}

/// The entries of one record, for a database that does not have it.
pub(super) fn put(batch: &mut Batch, key: &RecordKey, value: &Bytes) {
    let mut framed = BytesMut::with_capacity(VALUE_HEADER_BYTES + value.len());
    framed.put_u32(value.len() as u32);
    framed.put_u32(crc32fast::hash(value));
    framed.put_slice(value);
    for (piece, bytes) in framed.chunks(PIECE_BYTES).enumerate() {
        batch.insert(entry_key(key, piece as u16), bytes);
    }
}

/// The entry that makes the others valid; in the batch of every change.
pub(super) fn put_meta(batch: &mut Batch, content: &Content) {
    let Content { store, granted } = content;
    let mut bytes = Vec::with_capacity(5 * 8);
    let numbers = [
        granted.0,
        store.opened().0,
        store.seq().0,
        store.len() as u64,
        store.bytes(),
    ];
    for number in numbers {
        bytes.put_u64(number);
    }
    batch.insert(&META_KEY, bytes);
}

fn pieces(value: &Bytes) -> u16 {
    (VALUE_HEADER_BYTES + value.len()).div_ceil(PIECE_BYTES) as u16
}

fn entry_key(key: &RecordKey, piece: u16) -> Vec<u8> {
    let mut entry = Vec::with_capacity(RECORD_OVERHEAD_BYTES + key.id.len());
    entry.put_u8(RECORD);
    entry.put_u8(key.kind.0);
    entry.put_u16(key.id.len() as u16);
    entry.put_slice(key.id.as_bytes());
    entry.put_u16(piece);
    entry
}

fn read_key(entry: &[u8]) -> Option<(RecordKey, u16)> {
    let (&[tag, kind, high, low], rest) = entry.split_first_chunk()?;
    let (id, &[piece_high, piece_low]) = rest.split_last_chunk()?;
    if tag != RECORD || id.len() != usize::from(u16::from_be_bytes([high, low])) {
        return None;
    }
    let id = std::str::from_utf8(id).ok()?.into();
    Some((
        RecordKey {
            kind: RecordKind(kind),
            id,
        },
        u16::from_be_bytes([piece_high, piece_low]),
    ))
}

// === impl Loader ===

impl Loader {
    /// Takes the next entry.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        if key == META_KEY {
            self.meta = Some(Meta::parse(value).ok_or("its meta entry is damaged")?);
            return Ok(());
        }
        let (key, piece) = read_key(key).ok_or("it has an entry that is not a record")?;
        match &mut self.open {
            Some(open) if open.key == key && open.next == piece => open.extend(value),
            None if piece == 0 => self.open = Some(Assembly::begin(key, value)?),
            Some(_) | None => return Err(format!("record {} has a gap at piece {piece}", key.id)),
        }
        self.close_if_whole()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn finish(mut self) -> Result<Content, String> {
        if let Some(open) = self.open.take() {
            return Err(format!("record {} ends early", open.key.id));
        }
        let meta = self.meta.ok_or("it has no meta entry")?;
        let store = RecordStore::restore(meta.opened, meta.seq, self.records);
        if (store.len() as u64, store.bytes()) != (meta.count, meta.bytes) {
            return Err(format!(
                "it has {} records of {} bytes where {} of {} were stored",
                store.len(),
                store.bytes(),
                meta.count,
                meta.bytes
            ));
        }
        Ok(Content {
            store,
            granted: meta.granted,
        })
    }

    fn close_if_whole(&mut self) -> Result<(), String> {
        let Some(open) = self.open.take_if(|open| open.value.len() >= open.len) else {
            return Ok(());
        };
        if open.value.len() > open.len || crc32fast::hash(&open.value) != open.crc {
            return Err(format!("record {} does not have its checksum", open.key.id));
        }
        self.records.push((open.key, open.value.freeze()));
        Ok(())
    }
}

// === impl Assembly ===

impl Assembly {
    fn begin(key: RecordKey, first: &[u8]) -> Result<Self, String> {
        let Some((&[a, b, c, d, e, f, g, h], rest)) = first.split_first_chunk() else {
            return Err(format!("record {} has no length", key.id));
        };
        let (len, crc) = (
            u32::from_be_bytes([a, b, c, d]),
            u32::from_be_bytes([e, f, g, h]),
        );
        Ok(Self {
            key,
            len: len as usize,
            crc,
            next: 1,
            value: BytesMut::from(rest),
        })
    }

    fn extend(&mut self, piece: &[u8]) {
        self.next += 1;
        self.value.put_slice(piece);
    }
}

// === impl Meta ===

impl Meta {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut numbers = [0; 5];
        if bytes.len() != numbers.len() * 8 {
            return None;
        }
        for (number, piece) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = u64::from_be_bytes(piece.try_into().ok()?);
        }
        let [granted, opened, seq, count, bytes] = numbers;
        Some(Self {
            granted: Epoch(granted),
            opened: Epoch(opened),
            seq: CommitSeq(seq),
            count,
            bytes,
        })
    }
}
