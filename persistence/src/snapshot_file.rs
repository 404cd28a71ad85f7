//! A snapshot as one file, to be kept elsewhere and restored into a new cluster of any engine.
//!
//! Pure over [`Read`] and [`Iterator`]: masters make it, clients write it to a disk and look into it, masters read it back.
//! What must never happen: a file that was cut short or changed on the way is taken for a whole one.
//!
//! ```text
//! magic[8] version:u32 len:u32 crc:u32 header[len]     crc of version, len and header; header = JSON
//! the records, as `RecordStore::encode` writes them    in chunks with a checksum each
//! sha256[32]                                           of every byte before it
//! ```
//! Numbers are little-endian. Magic, version, length and checksum stay where they are in every version, so that an older
//! program can tell a newer file from a damaged one. New fields of the header need no new version.

use std::{
    collections::BTreeMap,
    fmt,
    io::{self, ErrorKind, Read},
};

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    backend::StoreSnapshot,
    record_store::{RecordStore, SnapshotChunks, SnapshotError},
};

/// The format that this build writes, and the newest that it reads.
pub const SNAPSHOT_FILE_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"IXBACKUP";
/// A few numbers and names; anything longer is damage.
const HEADER_BYTES_MAX: u32 = 64 << 10;
const DIGEST_BYTES: usize = 32;

/// What a snapshot is of. Kept in front of the records, so that it can be shown before they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotHeader {
    /// The cluster's id; empty where it never had a leader.
    pub cluster_id: String,
    /// The epoch that was open.
    pub epoch: u64,
    /// The place of the newest batch that is in it.
    pub seq: u64,
    /// The name of the engine that it was taken from.
    pub engine: String,
    /// When it was taken, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// The version of the program that took it.
    pub interrex_version: String,
    /// How many records there are.
    pub records: u64,
    /// The same by the number of their kind.
    pub records_by_kind: BTreeMap<u8, u64>,
}

/// The SHA-256 of a whole snapshot: its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotDigest(pub [u8; DIGEST_BYTES]);

/// A snapshot that was read back and found whole.
#[derive(Debug, Clone)]
pub struct SnapshotFile {
    /// What it is of.
    pub header: SnapshotHeader,
    /// The records.
    pub store: RecordStore,
    /// Its name.
    pub digest: SnapshotDigest,
    /// Its length.
    pub bytes: u64,
}

/// Why bytes are not a snapshot that can be trusted. Reading them again does not help, but for `Io`.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotFileError {
    /// It begins with other bytes.
    #[error("not a snapshot of interrex: it does not begin like one")]
    Foreign,
    /// Written by a newer version of this program.
    #[error(
        "the snapshot has format version {found}, this program reads up to {SNAPSHOT_FILE_VERSION}; use the newer program"
    )]
    Newer {
        /// Its version.
        found: u32,
    },
    /// It ends early.
    #[error("the snapshot is truncated: it ends in {part}, after {at} bytes")]
    Truncated {
        /// Its length.
        at: u64,
        /// Where it ends.
        part: Part,
    },
    /// It was changed.
    #[error("the snapshot is damaged in {part}, before byte {at}: {reason}")]
    Damaged {
        /// Up to where it was read.
        at: u64,
        /// In which part.
        part: Part,
        /// What is wrong.
        reason: String,
    },
    /// The system cannot read it.
    #[error("reading the snapshot after byte {at}: {source}")]
    Io {
        /// Up to where it was read.
        at: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// A part of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What stands in front of the records.
    Header,
    /// The records.
    Records,
    /// The SHA-256 behind them.
    Digest,
}

/// A snapshot as bytes, made one piece at a time; each is smaller than 3 MiB.
#[derive(Debug)]
pub struct FilePieces {
    head: Option<Bytes>,
    records: SnapshotChunks,
    sha: Option<Sha256>,
}

/// Counts and hashes what is read.
struct Hashed<R> {
    from: R,
    at: u64,
    sha: Sha256,
}

// === impl SnapshotHeader ===

impl SnapshotHeader {
    /// What `snapshot` is of, taken at `created_at_ms` by a program of this version.
    #[must_use]
    pub fn new(snapshot: &StoreSnapshot, created_at_ms: u64) -> Self {
        let store = &snapshot.store;
        Self {
            cluster_id: snapshot.cluster_id.clone().unwrap_or_default(),
            epoch: store.opened().0,
            seq: store.seq().0,
            engine: snapshot.engine.name().to_owned(),
            created_at_ms,
            interrex_version: env!("CARGO_PKG_VERSION").to_owned(),
            records: store.len() as u64,
            records_by_kind: by_kind(store),
        }
    }

    /// The snapshot of `store` as bytes.
    #[must_use]
    pub fn encode(&self, store: &RecordStore) -> FilePieces {
        // Of numbers and strings: nothing that JSON cannot say.
        let body = serde_json::to_vec(self).unwrap_or_default();
        let mut head = BytesMut::with_capacity(MAGIC.len() + 12 + body.len());
        head.put_slice(&MAGIC);
        head.put_u32_le(SNAPSHOT_FILE_VERSION);
        head.put_u32_le(body.len() as u32);
        head.put_u32_le(checksum(SNAPSHOT_FILE_VERSION, &body));
        head.put_slice(&body);
        FilePieces {
            head: Some(head.freeze()),
            records: store.encode(),
            sha: Some(Sha256::new()),
        }
    }

    fn check(&self, store: &RecordStore) -> Result<(), &'static str> {
        if (self.epoch, self.seq) != (store.opened().0, store.seq().0) {
            return Err("its header names another epoch or sequence than its records");
        }
        if self.records != store.len() as u64 || self.records_by_kind != by_kind(store) {
            return Err("its header counts other records than there are");
        }
        Ok(())
    }
}

fn by_kind(store: &RecordStore) -> BTreeMap<u8, u64> {
    let mut counts = BTreeMap::new();
    for (key, _) in store.iter() {
        *counts.entry(key.kind.0).or_insert(0) += 1;
    }
    counts
}

fn checksum(version: u32, body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&version.to_le_bytes());
    crc.update(&(body.len() as u32).to_le_bytes());
    crc.update(body);
    crc.finalize()
}

// === impl FilePieces ===

impl Iterator for FilePieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let next = self.head.take().or_else(|| self.records.next());
        match (next, &mut self.sha) {
            (Some(piece), Some(sha)) => {
                sha.update(&piece);
                Some(piece)
            }
            (None, sha) => {
                let digest = sha.take()?.finalize();
                Some(Bytes::copy_from_slice(&digest))
            }
            (Some(_), None) => None,
        }
    }
}

// === impl SnapshotFile ===

impl SnapshotFile {
    /// Reads a snapshot to the end of `from`, and checks all of it.
    ///
    /// # Errors
    /// [`SnapshotFileError`]: what is wrong, and where.
    pub fn read(from: impl Read) -> Result<Self, SnapshotFileError> {
        let mut from = Hashed {
            from,
            at: 0,
            sha: Sha256::new(),
        };
        let header = from.header()?;
        let store = RecordStore::decode_part(&mut from).map_err(|error| from.records(error))?;
        header
            .check(&store)
            .map_err(|reason| from.damaged(Part::Records, reason))?;
        let expected = from.sha.clone().finalize();
        let found: [u8; DIGEST_BYTES] = from.exact(Part::Digest)?;
        if found != *expected {
            return Err(from.damaged(
                Part::Digest,
                "the SHA-256 is not that of the bytes before it",
            ));
        }
        match from.read(&mut [0; 1]) {
            Ok(0) => Ok(Self {
                header,
                store,
                digest: SnapshotDigest(found),
                bytes: from.at,
            }),
            Ok(_) => Err(from.damaged(Part::Digest, "bytes follow its end")),
            Err(source) => Err(from.broken(Part::Digest, source)),
        }
    }
}

// === impl Hashed ===

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.sha.update(buffer.get(..read).unwrap_or_default());
        self.at += read as u64;
        Ok(read)
    }
}

impl<R: Read> Hashed<R> {
    fn header(&mut self) -> Result<SnapshotHeader, SnapshotFileError> {
        let part = Part::Header;
        if self.exact(part)? != MAGIC {
            return Err(SnapshotFileError::Foreign);
        }
        let version = u32::from_le_bytes(self.exact(part)?);
        let len = u32::from_le_bytes(self.exact(part)?);
        let crc = u32::from_le_bytes(self.exact(part)?);
        if len > HEADER_BYTES_MAX {
            return Err(self.damaged(part, "the header is too long"));
        }
        let mut body = vec![0; len as usize];
        self.read_exact(&mut body)
            .map_err(|error| self.broken(part, error))?;
        if checksum(version, &body) != crc {
            return Err(self.damaged(part, "the header's checksum is wrong"));
        }
        match version {
            SNAPSHOT_FILE_VERSION => {
                serde_json::from_slice(&body).map_err(|error| self.damaged(part, error.to_string()))
            }
            found if found > SNAPSHOT_FILE_VERSION => Err(SnapshotFileError::Newer { found }),
            _zero => Err(self.damaged(part, "format version 0 does not exist")),
        }
    }

    fn exact<const N: usize>(&mut self, part: Part) -> Result<[u8; N], SnapshotFileError> {
        let mut piece = [0; N];
        self.read_exact(&mut piece)
            .map_err(|error| self.broken(part, error))?;
        Ok(piece)
    }

    fn records(&self, error: SnapshotError) -> SnapshotFileError {
        match error {
            SnapshotError::Io(error) => self.broken(Part::Records, error),
            // A newer encoding of records comes with a newer version of the file.
            SnapshotError::Newer { found } => self.damaged(
                Part::Records,
                format!("their format version {found} does not belong to this file's"),
            ),
            SnapshotError::Corrupt(reason) => self.damaged(Part::Records, reason),
        }
    }

    fn broken(&self, part: Part, source: io::Error) -> SnapshotFileError {
        let at = self.at;
        if source.kind() == ErrorKind::UnexpectedEof {
            SnapshotFileError::Truncated { at, part }
        } else {
            SnapshotFileError::Io { at, source }
        }
    }

    fn damaged(&self, part: Part, reason: impl Into<String>) -> SnapshotFileError {
        SnapshotFileError::Damaged {
            at: self.at,
            part,
            reason: reason.into(),
        }
    }
}

// === impl SnapshotDigest ===

impl fmt::Display for SnapshotDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SnapshotDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl Part ===

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "its header",
            Self::Records => "its records",
            Self::Digest => "its SHA-256",
        })
    }
}
#[cfg(test)]
mod tests;
