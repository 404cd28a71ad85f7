//! A [`RecordStore`] as bytes, to be kept in a file or sent to another master.
//!
//! Written in chunks, so that a large store never needs a second copy of itself in memory. Read back with
//! suspicion: whatever the bytes are, [`RecordStore::decode`] returns a store that was written by
//! [`RecordStore::encode`] or an error; it never panics, and never allocates more than a chunk on a length's word.
//!
//! ```text
//! header   magic[8] version:u32 opened:u64 seq:u64 count:u64 crc:u32
//! chunk    len:u32 (> 0) crc:u32 body[len]        body = records: kind:u8 id_len:u16 id value_len:u32 value
//! trailer  0:u32 crc:u32                          of every byte before it
//! ```
//! Numbers are little-endian; checksums are CRC-32. Records are in strictly ascending order of keys.

use std::io::{self, Read, Write};

use bytes::{BufMut, Bytes, BytesMut};
use crc32fast::Hasher;

use super::RecordStore;
use crate::{
    epoch::{CommitSeq, Epoch},
    record::{KEY_BYTES_MAX, RecordKey, RecordKind, VALUE_BYTES_MAX},
};

/// The format that this version writes, and the newest that it reads.
pub const SNAPSHOT_VERSION: u32 = 1;
/// A chunk is closed when it has reached this many bytes; one record more may be in it.
pub const SNAPSHOT_CHUNK_BYTES: usize = 256 << 10;

const MAGIC: [u8; 8] = *b"IXRECORD";
const HEADER_BYTES: usize = 8 + 4 + 8 + 8 + 8 + 4;
const FRAME_BYTES: usize = 4 + 4;
const RECORD_OVERHEAD_BYTES: usize = 1 + 2 + 4;
const CHUNK_BYTES_MAX: usize =
    SNAPSHOT_CHUNK_BYTES + RECORD_OVERHEAD_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX;

/// Why bytes are not a snapshot that can be trusted.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Reading stopped; a truncated snapshot is `UnexpectedEof`.
    #[error("snapshot: {0}")]
    Io(#[from] io::Error),
    /// Written by a newer version of this program.
    #[error(
        "snapshot has format version {found}, this program reads up to {SNAPSHOT_VERSION}; use the newer program"
    )]
    Newer {
        /// The version in the header.
        found: u32,
    },
    /// Damaged, or never a snapshot.
    #[error("snapshot cannot be trusted: {0}")]
    Corrupt(&'static str),
}

/// The chunks of an encoded store, made one at a time.
///
/// Holds its own O(1) clone of the store, so the store may change while this is read.
#[derive(Debug)]
pub struct SnapshotChunks {
    store: RecordStore,
    crc: Hasher,
    next: Next,
}

/// Where the encoder stands.
#[derive(Debug)]
enum Next {
    Header,
    RecordsFrom(Option<RecordKey>),
    End,
}

/// Reads exact pieces and keeps the checksum of all of them.
struct Pieces<R> {
    from: R,
    crc: Hasher,
}

// === impl RecordStore ===

impl RecordStore {
    /// This store as bytes, in chunks of about [`SNAPSHOT_CHUNK_BYTES`].
    #[must_use]
    pub fn encode(&self) -> SnapshotChunks {
        SnapshotChunks {
            store: self.clone(),
            crc: Hasher::new(),
            next: Next::Header,
        }
    }

    /// Writes [`encode`](Self::encode) to `to`, and returns how many bytes that were. Does not flush or sync.
    ///
    /// # Errors
    /// What `to` reports.
    pub fn write_to(&self, to: &mut impl Write) -> io::Result<u64> {
        let mut written = 0;
        for chunk in self.encode() {
            to.write_all(&chunk)?;
            written += chunk.len() as u64;
        }
        Ok(written)
    }

    /// Reads a store back, to the end of `from`.
    ///
    /// # Errors
    /// See [`SnapshotError`]; none is cured by reading the same bytes again.
    pub fn decode(mut from: impl Read) -> Result<Self, SnapshotError> {
        let store = Self::decode_part(&mut from)?;
        match from.read(&mut [0; 1])? {
            0 => Ok(store),
            _ => Err(SnapshotError::Corrupt("bytes follow its end")),
        }
    }

    /// Reads a store back; what follows it is left in `from`.
    ///
    /// # Errors
    /// As for [`decode`](Self::decode).
    pub fn decode_part(from: impl Read) -> Result<Self, SnapshotError> {
        let mut pieces = Pieces {
            from,
            crc: Hasher::new(),
        };
        let (mut store, count) = pieces.header()?;
        let mut last: Option<RecordKey> = None;
        while let Some(body) = pieces.chunk()? {
            let mut rest = body;
            while !rest.is_empty() {
                let (key, value) = take_record(&mut rest)?;
                if last.as_ref().is_some_and(|last| *last >= key) {
                    return Err(SnapshotError::Corrupt("keys are out of order"));
                }
                last = Some(key.clone());
                store.put(key, value);
            }
        }
        if store.len() as u64 != count {
            return Err(SnapshotError::Corrupt(
                "the number of records differs from the header",
            ));
        }
        Ok(store)
    }
}

// === impl SnapshotChunks ===

impl Iterator for SnapshotChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let bytes = match std::mem::replace(&mut self.next, Next::End) {
            Next::Header => {
                self.next = Next::RecordsFrom(self.store.records.get_min().map(|(k, _)| k.clone()));
                self.header()
            }
            Next::RecordsFrom(Some(first)) => {
                let (bytes, next) = self.chunk(&first);
                self.next = Next::RecordsFrom(next);
                bytes
            }
            Next::RecordsFrom(None) => self.trailer(),
            Next::End => return None,
        };
        self.crc.update(&bytes);
        Some(bytes)
    }
}

impl SnapshotChunks {
    fn header(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(HEADER_BYTES);
        out.put_slice(&MAGIC);
        out.put_u32_le(SNAPSHOT_VERSION);
        out.put_u64_le(self.store.opened.0);
        out.put_u64_le(self.store.seq.0);
        out.put_u64_le(self.store.len() as u64);
        out.put_u32_le(crc32fast::hash(&out));
        out.freeze()
    }

    /// The chunk that begins with the record of `first`, and the key that the next one begins with.
    fn chunk(&self, first: &RecordKey) -> (Bytes, Option<RecordKey>) {
        let mut body = BytesMut::with_capacity(SNAPSHOT_CHUNK_BYTES);
        let mut next = None;
        for (key, value) in self.store.records.range::<_, RecordKey>(first..) {
            if body.len() >= SNAPSHOT_CHUNK_BYTES {
                next = Some(key.clone());
                break;
            }
            put_record(&mut body, key, value);
        }
        let mut out = BytesMut::with_capacity(FRAME_BYTES + body.len());
        out.put_u32_le(body.len() as u32);
        out.put_u32_le(crc32fast::hash(&body));
        out.put_slice(&body);
        (out.freeze(), next)
    }

    fn trailer(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(FRAME_BYTES);
        out.put_u32_le(0);
        out.put_u32_le(self.crc.clone().finalize());
        out.freeze()
    }
}

fn put_record(body: &mut BytesMut, key: &RecordKey, value: &Bytes) {
    debug_assert!(key.id.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX);
    body.put_u8(key.kind.0);
    body.put_u16_le(key.id.len() as u16);
    body.put_slice(key.id.as_bytes());
    body.put_u32_le(value.len() as u32);
    body.put_slice(value);
}

// === impl Pieces ===

impl<R: Read> Pieces<R> {
    fn exact<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut piece = [0; N];
        self.from.read_exact(&mut piece)?;
        self.crc.update(&piece);
        Ok(piece)
    }

    fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_le_bytes(self.exact()?))
    }

    fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.exact()?))
    }

    /// An empty store with the header's epoch and sequence, and how many records are to follow.
    fn header(&mut self) -> Result<(RecordStore, u64), SnapshotError> {
        if self.exact()? != MAGIC {
            return Err(SnapshotError::Corrupt("it does not begin like a snapshot"));
        }
        let version = self.u32()?;
        if version > SNAPSHOT_VERSION {
            return Err(SnapshotError::Newer { found: version });
        }
        if version == 0 {
            return Err(SnapshotError::Corrupt("format version 0 does not exist"));
        }
        let (opened, seq, count) = (Epoch(self.u64()?), CommitSeq(self.u64()?), self.u64()?);
        let expected = self.crc.clone().finalize();
        if self.u32()? != expected {
            return Err(SnapshotError::Corrupt("the header's checksum is wrong"));
        }
        Ok((RecordStore::restore(opened, seq, []), count))
    }

    /// The next chunk's body, or `None` after the trailer.
    fn chunk(&mut self) -> Result<Option<Bytes>, SnapshotError> {
        let before = self.crc.clone().finalize();
        let len = self.u32()? as usize;
        let crc = self.u32()?;
        if len == 0 {
            if crc != before {
                return Err(SnapshotError::Corrupt("the checksum of the whole is wrong"));
            }
            return Ok(None);
        }
        if len > CHUNK_BYTES_MAX {
            return Err(SnapshotError::Corrupt("a chunk is too long"));
        }
        let mut body = vec![0; len];
        self.from.read_exact(&mut body)?;
        if crc32fast::hash(&body) != crc {
            return Err(SnapshotError::Corrupt("a chunk's checksum is wrong"));
        }
        self.crc.update(&body);
        Ok(Some(Bytes::from(body)))
    }
}

fn take_record(rest: &mut Bytes) -> Result<(RecordKey, Bytes), SnapshotError> {
    let kind = RecordKind(take(rest, 1)?[0]);
    let id_len = take(rest, 2)?;
    let id = take(
        rest,
        usize::from(u16::from_le_bytes([id_len[0], id_len[1]])),
    )?;
    let id =
        std::str::from_utf8(&id).map_err(|_utf8| SnapshotError::Corrupt("a key is not UTF-8"))?;
    let len = take(rest, 4)?;
    let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
    // A copy: the small value of a long-lived record must not keep its whole chunk in memory.
    let value = Bytes::copy_from_slice(&take(rest, len)?);
    Ok((
        RecordKey {
            kind,
            id: id.into(),
        },
        value,
    ))
}

fn take(rest: &mut Bytes, len: usize) -> Result<Bytes, SnapshotError> {
    if rest.len() < len {
        return Err(SnapshotError::Corrupt(
            "a record runs over the end of its chunk",
        ));
    }
    Ok(rest.split_to(len))
}
