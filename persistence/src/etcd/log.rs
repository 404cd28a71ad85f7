//! How batches lie in the values of the log.
//!
//! An entry is one or more batches that were stored together. Batches, not records, are what etcd gets: a group commit
//! of thousands of mutations is one put instead of thousands, in a transaction that has room for 128. An entry that is
//! larger than one value is written in parts *before* its head, so that it exists for readers as soon as its head does,
//! and not before.
//!
//! ```text
//! head   version:u8 parts:u32 crc:u32 body        part   the next bytes of the body
//! body   postcard of Entry; the crc is that of the whole body
//! ```
//! Read back with suspicion: whatever the values are, an entry that was written comes out, or an error.

use serde::{Deserialize, Serialize};

use super::{keys::LogKey, limits::CHUNK_BYTES};
use crate::record::Mutation;

/// The format that this version writes, and the newest that it reads.
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + 4 + 4;

/// Batches that were stored together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The leadership that decided them.
    pub(super) epoch: u64,
    /// The place of the first one; the others follow.
    pub(super) seq: u64,
    pub(super) batches: Vec<Vec<Mutation>>,
}

/// An entry as values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) head: Vec<u8>,
    /// To be written before the head.
    pub(super) parts: Vec<Vec<u8>>,
}

/// Why the log cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LogError {
    #[error(
        "entry {seq} of the log has format {found}, this program reads up to {VERSION}; use the newer program"
    )]
    Newer { seq: u64, found: u8 },
    #[error("entry {seq} of the log is damaged: {reason}")]
    Damaged { seq: u64, reason: String },
    #[error("batch {missing} is missing in the log; the next one that is there is {found}")]
    Gap { missing: u64, found: u64 },
}

/// Puts entries together from the keys of the log, in their order.
#[derive(Debug)]
pub(super) struct Assembler {
    next: u64,
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    seq: u64,
    parts: u32,
    crc: u32,
    got: u32,
    body: Vec<u8>,
}

// === impl Entry ===

impl Entry {
    /// The entry as values of at most [`CHUNK_BYTES`] and a head.
    ///
    /// # Errors
    /// What the encoder says; nothing that fits a batch's limits is refused.
    pub(super) fn encode(&self) -> Result<Encoded, postcard::Error> {
        let body = postcard::to_allocvec(self)?;
        let (inline, parts): (&[u8], Vec<Vec<u8>>) = if body.len() <= CHUNK_BYTES {
            (&body, Vec::new())
        } else {
            (&[], body.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect())
        };
        let mut head = Vec::with_capacity(HEAD_BYTES + inline.len());
        head.push(VERSION);
        head.extend((parts.len() as u32).to_le_bytes());
        head.extend(crc32fast::hash(&body).to_le_bytes());
        head.extend_from_slice(inline);
        Ok(Encoded { head, parts })
    }
}

// === impl Encoded ===

impl Encoded {
    /// Bytes of all values.
    pub(super) fn bytes(&self) -> usize {
        self.head.len() + self.parts.iter().map(Vec::len).sum::<usize>()
    }
}

// === impl Assembler ===

impl Assembler {
    /// The next entry begins with batch `next`.
    pub(super) fn from(next: u64) -> Self {
        Self {
            next,
            pending: None,
        }
    }

    /// Takes the next key; the entry that it completes.
    ///
    /// # Errors
    /// See [`LogError`].
    pub(super) fn push(&mut self, key: LogKey, value: &[u8]) -> Result<Option<Entry>, LogError> {
        match key {
            LogKey::Head(seq) => {
                self.nothing_pending()?;
                if seq != self.next {
                    return Err(LogError::Gap {
                        missing: self.next,
                        found: seq,
                    });
                }
                self.pending = Some(Pending::begin(seq, value)?);
            }
            LogKey::Part(seq, part) => match &mut self.pending {
                Some(pending) if pending.seq == seq && part < pending.parts => {
                    pending.add(part, value)?;
                }
                // What a leader left behind that ended before it wrote the head, or more parts than this head has.
                Some(_) | None => return Ok(None),
            },
        }
        self.complete()
    }

    /// The place of the next batch, when all keys were taken.
    ///
    /// # Errors
    /// `Damaged` when parts of the last entry are missing.
    pub(super) fn finish(self) -> Result<u64, LogError> {
        self.nothing_pending()?;
        Ok(self.next)
    }

    fn complete(&mut self) -> Result<Option<Entry>, LogError> {
        let Some(pending) = self.pending.take_if(|p| p.got == p.parts) else {
            return Ok(None);
        };
        let entry = pending.decode()?;
        self.next += entry.batches.len() as u64;
        Ok(Some(entry))
    }

    fn nothing_pending(&self) -> Result<(), LogError> {
        match &self.pending {
            None => Ok(()),
            Some(pending) => {
                Err(pending.damaged(format!("it has {} of {} parts", pending.got, pending.parts)))
            }
        }
    }
}

// === impl Pending ===

impl Pending {
    fn begin(seq: u64, value: &[u8]) -> Result<Self, LogError> {
        let damaged = |reason: &str| LogError::Damaged {
            seq,
            reason: reason.to_owned(),
        };
        let Some((head, inline)) = value.split_first_chunk::<HEAD_BYTES>() else {
            return Err(damaged("it is too short"));
        };
        let [version, p0, p1, p2, p3, c0, c1, c2, c3] = *head;
        if version > VERSION {
            return Err(LogError::Newer {
                seq,
                found: version,
            });
        }
        if version == 0 {
            return Err(damaged("format 0 does not exist"));
        }
        Ok(Self {
            seq,
            parts: u32::from_le_bytes([p0, p1, p2, p3]),
            crc: u32::from_le_bytes([c0, c1, c2, c3]),
            got: 0,
            body: inline.to_vec(),
        })
    }

    fn add(&mut self, part: u32, value: &[u8]) -> Result<(), LogError> {
        if part != self.got {
            return Err(self.damaged(format!("part {} is missing", self.got)));
        }
        self.got += 1;
        self.body.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self) -> Result<Entry, LogError> {
        if crc32fast::hash(&self.body) != self.crc {
            return Err(self.damaged("its checksum is wrong".to_owned()));
        }
        let entry: Entry =
            postcard::from_bytes(&self.body).map_err(|error| self.damaged(error.to_string()))?;
        if entry.seq != self.seq || entry.batches.is_empty() {
            return Err(self.damaged("it is not the entry that its key says".to_owned()));
        }
        Ok(entry)
    }

    fn damaged(&self, reason: String) -> LogError {
        LogError::Damaged {
            seq: self.seq,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::record::{RecordKey, RecordKind};

    fn put(id: &str, len: usize) -> Mutation {
        Mutation::Put {
            key: RecordKey {
                kind: RecordKind(1),
                id: id.into(),
            },
            value: Bytes::from(vec![7; len]),
        }
    }

    fn entry(seq: u64, batches: usize, len: usize) -> Entry {
        Entry {
            epoch: 3,
            seq,
            batches: (0..batches)
                .map(|i| vec![put(&i.to_string(), len)])
                .collect(),
        }
    }

    fn keyed(entry: &Entry) -> Vec<(LogKey, Vec<u8>)> {
        let encoded = entry.encode().unwrap();
        let parts = encoded.parts.into_iter().enumerate();
        let parts = parts.map(|(n, part)| (LogKey::Part(entry.seq, n as u32), part));
        std::iter::once((LogKey::Head(entry.seq), encoded.head))
            .chain(parts)
            .collect()
    }

    fn read(next: u64, keys: &[(LogKey, Vec<u8>)]) -> Result<(Vec<Entry>, u64), LogError> {
        let mut assembler = Assembler::from(next);
        let mut entries = Vec::new();
        for (key, value) in keys {
            entries.extend(assembler.push(*key, value)?);
        }
        Ok((entries, assembler.finish()?))
    }

    #[test]
    fn entries_of_any_size_are_read_back() {
        let all = [entry(5, 3, 10), entry(8, 4, CHUNK_BYTES), entry(12, 1, 0)];
        let keys: Vec<_> = all.iter().flat_map(keyed).collect();
        assert!(keys.len() > 6, "the large one has parts");
        assert!(
            keys.iter()
                .all(|(_, value)| value.len() <= CHUNK_BYTES + HEAD_BYTES)
        );
        assert_eq!(read(5, &keys).unwrap(), (all.to_vec(), 13));
    }

    #[test]
    fn parts_without_their_head_are_nothing() {
        let mut keys = keyed(&entry(5, 1, 10));
        let large = keyed(&entry(6, 2, CHUNK_BYTES));
        keys.extend(large.into_iter().skip(1));
        assert_eq!(read(5, &keys).unwrap().1, 6);
        // The next leader used the same place, for less.
        let mut again = keyed(&entry(6, 1, 10));
        again.push((LogKey::Part(6, 2), vec![1]));
        assert_eq!(read(6, &again).unwrap().1, 7);
    }

    #[test]
    fn a_missing_batch_is_found_and_named() {
        let keys: Vec<_> = [entry(5, 1, 1), entry(7, 1, 1)]
            .iter()
            .flat_map(keyed)
            .collect();
        assert_eq!(
            read(5, &keys).unwrap_err(),
            LogError::Gap {
                missing: 6,
                found: 7
            }
        );
        let mut torn = keyed(&entry(5, 2, CHUNK_BYTES));
        torn.pop();
        assert!(matches!(
            read(5, &torn),
            Err(LogError::Damaged { seq: 5, .. })
        ));
        torn.extend(keyed(&entry(7, 1, 1)));
        assert!(matches!(
            read(5, &torn),
            Err(LogError::Damaged { seq: 5, .. })
        ));
    }

    #[test]
    fn damage_anywhere_is_noticed() {
        let keys = keyed(&entry(5, 2, 20));
        for at in 0..keys[0].1.len() {
            let mut bad = keys.clone();
            bad[0].1[at] ^= 0x10;
            let outcome = read(5, &bad);
            assert!(outcome.is_err(), "byte {at}: {outcome:?}");
        }
        assert!(read(5, &[(LogKey::Head(5), vec![])]).is_err());
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let mut keys = keyed(&entry(5, 1, 1));
        keys[0].1[0] = VERSION + 1;
        let said = read(5, &keys).unwrap_err().to_string();
        assert!(said.contains("use the newer program"), "{said}");
    }
}
