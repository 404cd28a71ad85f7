//! Snapshots as files beside the log: written whole or not at all, checked whenever they are read.
//!
//! ```text
//! magic[7] version len:u32 crc:u32 header[len]   header (postcard) = last entry, membership, cluster id,
//!                                                epochs, nodes that were left behind
//! the records, as `RecordStore::write_to` writes them, with checksums of their own, to the end of the file
//! ```
//! Only the newest file is kept: the log behind it is gone, so an older one is of no use. A damaged newest one
//! therefore refuses to open, by name; the cure is another master's copy.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use super::{
    epochs::Epochs,
    snapshot_header::{Header, VERSION},
    types::{LogId, SnapshotMeta, StoredMembership},
};
use crate::{
    data_dir::{create_dir, io_at, sync_dir},
    error::OpenError,
    record_store::RecordStore,
};

const MAGIC: [u8; 7] = *b"IXRAFTS";
const SUFFIX: &str = ".snapshot";
/// Names of files that are being written or received.
const UNFINISHED: &str = ".tmp";
/// Ids and addresses of a few masters; anything longer is damage.
const HEADER_BYTES_MAX: u32 = 1 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// Everything that a snapshot holds, and that applying the log changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Image {
    /// The newest entry that is in here.
    pub(super) last: Option<LogId>,
    /// The newest membership that is in here.
    pub(super) membership: StoredMembership,
    /// The cluster's name; empty until the first leader has given it one.
    pub(super) cluster_id: String,
    /// Which epoch a term is.
    pub(super) epochs: Epochs,
    /// Nodes that were left behind when the cluster was recovered.
    pub(super) expelled: BTreeSet<u64>,
    /// The records and their fence.
    pub(super) store: RecordStore,
}

/// A snapshot that is being sent or installed.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    /// Open for reading, so that it can still be sent after a newer one has replaced it.
    pub(super) file: File,
    path: PathBuf,
    /// What is in it, where it has been read already.
    image: Option<Box<Image>>,
    /// Removes what was received, unless it is installed.
    _temp: Option<TempFile>,
}

/// A file that is being written or received; it is gone when this is, unless it was given another name.
#[derive(Debug)]
pub(super) struct TempFile(pub(super) PathBuf);

/// The snapshots of one data directory.
#[derive(Debug)]
pub(super) struct Snapshots {
    dir: PathBuf,
    newest: Mutex<Option<(SnapshotMeta, PathBuf)>>,
    /// When the newest was written, in milliseconds since 1970; 0: there is none.
    written_at: AtomicU64,
}

// === impl Image ===

impl Image {
    pub(super) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: self.last,
            last_membership: self.membership.clone(),
        }
    }

    fn write_to(&self, file: &mut File) -> io::Result<()> {
        let header = Header {
            last: self.last,
            membership: self.membership.clone(),
            cluster_id: self.cluster_id.clone(),
            epochs: self.epochs,
            expelled: self.expelled.clone(),
        };
        let header = postcard::to_allocvec(&header).map_err(io::Error::other)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        out.write_all(&MAGIC)?;
        out.write_all(&[VERSION])?;
        out.write_all(&(header.len() as u32).to_le_bytes())?;
        out.write_all(&crc32fast::hash(&header).to_le_bytes())?;
        out.write_all(&header)?;
        self.store.write_to(&mut out)?;
        out.flush()
    }

    fn read_from(file: &File) -> io::Result<Self> {
        let mut from = BufReader::with_capacity(BUFFER_BYTES, file);
        from.rewind()?;
        if exact(&mut from)? != MAGIC {
            return Err(damage("it does not begin like a snapshot"));
        }
        let [version] = exact(&mut from)?;
        let len = u32::from_le_bytes(exact(&mut from)?);
        let crc = u32::from_le_bytes(exact(&mut from)?);
        if len > HEADER_BYTES_MAX {
            return Err(damage("its header is too long"));
        }
        let mut header = vec![0; len as usize];
        from.read_exact(&mut header)?;
        if crc32fast::hash(&header) != crc {
            return Err(damage("its header's checksum is wrong"));
        }
        let header = Header::decode(version, &header)?;
        let store = RecordStore::decode(from).map_err(damage)?;
        let Header {
            last,
            membership,
            cluster_id,
            epochs,
            expelled,
        } = header;
        Ok(Self {
            last,
            membership,
            cluster_id,
            epochs,
            expelled,
            store,
        })
    }
}

// === impl SnapshotFile ===

impl SnapshotFile {
    /// A received file at `path`, read through and found whole. Blocks.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn received(temp: TempFile, meta: &SnapshotMeta) -> io::Result<Self> {
        let file = File::open(&temp.0)?;
        let image = Image::read_from(&file)?;
        if image.last != meta.last_log_id {
            return Err(damage("it covers other entries than its sender said"));
        }
        let path = temp.0.clone();
        Ok(Self {
            file,
            path,
            image: Some(Box::new(image)),
            _temp: Some(temp),
        })
    }
}

// === impl TempFile ===

impl Drop for TempFile {
    fn drop(&mut self) {
        // It has been renamed or was never made; if neither, the next start removes it.
        drop(fs::remove_file(&self.0));
    }
}

// === impl Snapshots ===

impl Snapshots {
    /// Opens the snapshots in `dir`: removes what was left unfinished and reads the newest one.
    ///
    /// # Errors
    /// `Corrupt`, naming the file, when the newest one cannot be trusted; `Io` otherwise.
    pub(super) fn open(dir: &Path) -> Result<(Self, Option<Image>), OpenError> {
        create_dir(dir).map_err(io_at(dir))?;
        let mut newest: Option<PathBuf> = None;
        for entry in fs::read_dir(dir).map_err(io_at(dir))? {
            let path = entry.map_err(io_at(dir))?.path();
            let name = path.to_string_lossy();
            if name.ends_with(UNFINISHED) {
                fs::remove_file(&path).map_err(io_at(dir))?;
            } else if name.ends_with(SUFFIX) && newest.as_ref().is_none_or(|other| *other < path) {
                newest = Some(path);
            }
        }
        let store = Self {
            dir: dir.to_owned(),
            newest: Mutex::new(None),
            written_at: AtomicU64::new(0),
        };
        let Some(path) = newest else {
            return Ok((store, None));
        };
        let image = File::open(&path).and_then(|file| Image::read_from(&file)).map_err(|error| {
            OpenError::Corrupt {
                path: path.clone(),
                reason: format!(
                    "the newest snapshot cannot be trusted: {error}; move the data directory away and let this \
                     master rejoin with `interrex cluster add`"
                ),
            }
        })?;
        store.set_newest(image.meta(), path);
        Ok((store, Some(image)))
    }

    /// Stores `image` as the newest snapshot. Blocks.
    ///
    /// # Errors
    /// What the system says; then nothing has changed.
    pub(super) fn save(&self, image: &Image) -> io::Result<SnapshotFile> {
        let path = self.dir.join(name(image.last));
        let temp = self.temp();
        let mut file = File::create(&temp.0)?;
        image.write_to(&mut file)?;
        file.sync_all()?;
        fs::rename(&temp.0, &path)?;
        sync_dir(&self.dir)?;
        let file = File::open(&path)?;
        self.set_newest(image.meta(), path.clone());
        Ok(SnapshotFile {
            file,
            path,
            image: None,
            _temp: None,
        })
    }

    /// Makes a received snapshot the newest one, and returns what is in it. Blocks.
    ///
    /// # Errors
    /// What the system says, or what is wrong with the file.
    pub(super) fn install(&self, snapshot: SnapshotFile) -> io::Result<Image> {
        let image = match snapshot.image {
            Some(image) => *image,
            None => Image::read_from(&snapshot.file)?,
        };
        let path = self.dir.join(name(image.last));
        if snapshot.path != path {
            fs::rename(&snapshot.path, &path)?;
            sync_dir(&self.dir)?;
        }
        self.set_newest(image.meta(), path);
        Ok(image)
    }

    /// The newest snapshot, open for reading.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn newest(&self) -> io::Result<Option<(SnapshotMeta, SnapshotFile)>> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((meta, path)) = newest.as_ref() else {
            return Ok(None);
        };
        let file = File::open(path)?;
        Ok(Some((
            meta.clone(),
            SnapshotFile {
                file,
                path: path.clone(),
                image: None,
                _temp: None,
            },
        )))
    }

    /// How old the newest one is at `now_ms`; `None` where there is none.
    pub(super) fn age(&self, now_ms: u64) -> Option<Duration> {
        match self.written_at.load(Ordering::Relaxed) {
            0 => None,
            written_at => Some(Duration::from_millis(now_ms.saturating_sub(written_at))),
        }
    }

    /// A name for a file that is being written or received; removed at the next start if it stays behind.
    pub(super) fn temp(&self) -> TempFile {
        TempFile(
            self.dir
                .join(format!("{:016x}{UNFINISHED}", rand::random::<u64>())),
        )
    }

    /// Remembers the newest and removes all older ones; a file that stays behind is removed the next time.
    fn set_newest(&self, meta: SnapshotMeta, path: PathBuf) {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let superseded = newest
            .as_ref()
            .is_some_and(|(other, _)| other.last_log_id > meta.last_log_id);
        if !superseded {
            self.written_at.store(written_at(&path), Ordering::Relaxed);
            *newest = Some((meta, path));
        }
        let keep = newest.as_ref().map(|(_, path)| path.clone());
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.to_string_lossy().ends_with(SUFFIX)
                && Some(&path) != keep.as_ref()
                && let Err(error) = fs::remove_file(&path)
            {
                tracing::warn!(path = %path.display(), %error, "an old snapshot stays behind");
            }
        }
    }
}

/// When the file was written, in milliseconds since 1970.
fn written_at(path: &Path) -> u64 {
    let modified = fs::metadata(path).and_then(|found| found.modified()).ok();
    let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// Sorts like the entries it covers.
fn name(last: Option<LogId>) -> String {
    let (index, term) = last.map_or((0, 0), |last| (last.index, *last.leader_id));
    format!("{index:020}-{term:020}{SUFFIX}")
}

fn exact<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut piece = [0; N];
    from.read_exact(&mut piece)?;
    Ok(piece)
}

pub(super) fn damage(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        epoch::Epoch,
        raft::types::leader_of,
        record::{CommitBatch, Mutation, RecordKey, RecordKind},
    };

    fn image(index: u64) -> Image {
        let mut store = RecordStore::new();
        store.open_epoch(Epoch(3)).unwrap();
        let key = RecordKey {
            kind: RecordKind(1),
            id: "d1".into(),
        };
        let mutations = vec![Mutation::Put {
            key,
            value: vec![7; 1000].into(),
        }];
        store
            .apply(CommitBatch {
                epoch: Epoch(3),
                mutations,
            })
            .unwrap();
        let last = Some(LogId::new(leader_of(3), index));
        Image {
            last,
            cluster_id: "c".into(),
            store,
            ..Image::default()
        }
    }

    #[test]
    fn only_the_newest_snapshot_is_kept_and_read_back() {
        let temp = tempfile::tempdir().unwrap();
        let (snapshots, none) = Snapshots::open(temp.path()).unwrap();
        assert!(none.is_none());
        snapshots.save(&image(5)).unwrap();
        snapshots.save(&image(9)).unwrap();
        // A build that began earlier and ends later does not replace a newer one.
        snapshots.save(&image(7)).unwrap();
        fs::write(temp.path().join("x.tmp"), "half").unwrap();
        let (_, read) = Snapshots::open(temp.path()).unwrap();
        let read = read.unwrap();
        assert_eq!(read.last.unwrap().index, 9);
        assert_eq!(read.store, image(9).store);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
        let later = interrex_proto::clock::now_ms() + 60_000;
        let age = snapshots.age(later).unwrap();
        assert!(age >= Duration::from_secs(59) && age < Duration::from_secs(600));
    }

    #[test]
    fn every_damaged_byte_is_noticed_and_the_file_named() {
        let temp = tempfile::tempdir().unwrap();
        let (snapshots, _) = Snapshots::open(temp.path()).unwrap();
        let path = snapshots.save(&image(5)).unwrap().path;
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(13) {
            let mut bad = whole.clone();
            bad[at] ^= 0x40;
            fs::write(&path, bad).unwrap();
            let error = Snapshots::open(temp.path()).unwrap_err();
            assert!(
                matches!(error, OpenError::Corrupt { .. }),
                "byte {at}: {error}"
            );
            assert!(error.to_string().contains(".snapshot"), "{error}");
        }
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        Snapshots::open(temp.path()).unwrap_err();
    }

    #[test]
    fn a_snapshot_keeps_which_epoch_a_term_is_and_who_was_left_behind() {
        let temp = tempfile::tempdir().unwrap();
        let (snapshots, _) = Snapshots::open(temp.path()).unwrap();
        let mut raised = image(5);
        raised.epochs.raise(Epoch(100), 3);
        raised.expelled = BTreeSet::from([7, 9]);
        snapshots.save(&raised).unwrap();
        let (_, read) = Snapshots::open(temp.path()).unwrap();
        let read = read.unwrap();
        assert_eq!(read.epochs.of(4), Epoch(104));
        assert_eq!(read.expelled, raised.expelled);
    }

    #[test]
    fn older_versions_are_read_and_a_newer_one_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let (snapshots, _) = Snapshots::open(temp.path()).unwrap();
        let path = snapshots.save(&image(5)).unwrap().path;
        let whole = fs::read(&path).unwrap();
        let len = u32::from_le_bytes(whole[8..12].try_into().unwrap()) as usize;
        // Version 2: the same without the number of nodes left behind, which is one byte. Version 1: nor the three
        // numbers before it, one byte each.
        for (version, less) in [(b'2', 1), (b'1', 4)] {
            let header = &whole[16..16 + len - less];
            let mut old = b"IXRAFTS".to_vec();
            old.push(version);
            old.extend((header.len() as u32).to_le_bytes());
            old.extend(crc32fast::hash(header).to_le_bytes());
            old.extend(header);
            old.extend(&whole[16 + len..]);
            fs::write(&path, old).unwrap();
            let (_, read) = Snapshots::open(temp.path()).unwrap();
            let read = read.unwrap();
            assert_eq!(
                (read.store, read.epochs, read.expelled),
                (image(5).store, Epochs::default(), BTreeSet::new())
            );
        }

        let mut newer = whole;
        newer[7] = b'4';
        fs::write(&path, newer).unwrap();
        let error = Snapshots::open(temp.path()).unwrap_err().to_string();
        assert!(error.contains("format version 4"), "{error}");
    }
}
