//! How far the database had come, kept beside it.
//!
//! sled takes damage in the middle of its log for the end of the log: it opens without a word, at an older state.
//! The anchor shows that. It is written after a batch has been synced, and itself not synced each time: on disk it
//! can only be behind the database, never ahead of it, so it raises no false alarm after a power cut; and after a
//! crash of the process alone, it is exact.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::Path,
};

use crate::epoch::CommitSeq;

const ANCHOR_FILE: &str = "anchor";
const ANCHOR_BYTES: usize = 8 + 4;

/// The open anchor of a database.
#[derive(Debug)]
pub(super) struct Anchor {
    file: File,
}

// === impl Anchor ===

impl Anchor {
    pub(super) fn open(database: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        Ok(Self {
            file: options.open(database.join(ANCHOR_FILE))?,
        })
    }

    /// The batch that was durable at least; zero where nothing is known.
    pub(super) fn read(&self) -> io::Result<CommitSeq> {
        let mut bytes = Vec::with_capacity(ANCHOR_BYTES);
        (&self.file)
            .take(ANCHOR_BYTES as u64)
            .read_to_end(&mut bytes)?;
        Ok(parse(&bytes).unwrap_or_else(|| {
            if !bytes.is_empty() {
                tracing::warn!("the anchor of the database is damaged and is not used");
            }
            CommitSeq(0)
        }))
    }

    /// Notes that `seq` is durable.
    pub(super) fn write(&self, seq: CommitSeq) -> io::Result<()> {
        let number = seq.0.to_le_bytes();
        let mut bytes = [0; ANCHOR_BYTES];
        bytes[..8].copy_from_slice(&number);
        bytes[8..].copy_from_slice(&crc32fast::hash(&number).to_le_bytes());
        self.file.write_all_at(&bytes, 0)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn parse(bytes: &[u8]) -> Option<CommitSeq> {
    let (number, crc) = bytes.split_first_chunk::<8>()?;
    let crc = u32::from_le_bytes(crc.try_into().ok()?);
    (crc32fast::hash(number) == crc).then(|| CommitSeq(u64::from_le_bytes(*number)))
}
