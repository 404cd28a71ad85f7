//! What a data directory needs whatever is kept in it: one owner at a time, and names that survive a power cut.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::error::OpenError;

/// The file whose lock is the directory's; holds the owner's process id.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// How long an owner that is just ending is waited for.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// Sole ownership of a directory, until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct DirLock {
    /// The lock belongs to the open file.
    _file: File,
}

// === impl DirLock ===

impl DirLock {
    /// Creates `dir` where it is missing, and takes it. Blocks for at most [`LOCK_PATIENCE`].
    ///
    /// # Errors
    /// `InUse` naming the owner; `Io`.
    pub(crate) fn acquire(dir: &Path) -> Result<Self, OpenError> {
        create_dir(dir).map_err(io_at(dir))?;
        let path = dir.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(io_at(&path))?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(LOCK_RETRY);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(OpenError::InUse {
                        path: dir.to_owned(),
                        owner: owner(&mut file),
                    });
                }
                Err(TryLockError::Error(source)) => return Err(OpenError::Io { path, source }),
            }
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(io_at(&path))?;
        Ok(Self { _file: file })
    }
}

/// Who wrote the lock file, in words; its content is not trusted.
fn owner(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(32).read_to_string(&mut text) {
        Ok(_) => match text.trim().parse::<u32>() {
            Ok(pid) => format!("pid {pid}"),
            Err(_) => "another process".to_owned(),
        },
        Err(_) => "another process".to_owned(),
    }
}

/// Creates `dir` and what is missing above it, durably: a power cut must not leave an identity whose log is gone.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = parent_of(dir);
    if parent != dir {
        create_dir(parent)?;
    }
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    sync_dir(parent)
}

/// Makes the names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Replaces the file `path` by `content`: after a power cut it has the old content or the new, whole.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let temp = path.with_extension("tmp");
    let mut file = File::create(&temp)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temp, path)?;
    sync_dir(parent_of(path))
}

/// The directory that holds `path`; the current one for a bare name.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// For `map_err`: an I/O error with the place where it happened.
pub(crate) fn io_at(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path: PathBuf = path.to_owned();
    move |source| OpenError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time_and_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::acquire(dir.path()).unwrap();
        let refused = DirLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("in use by pid {}", std::process::id())),
            "{refused}"
        );
        drop(first);
        drop(DirLock::acquire(dir.path()).unwrap());
    }

    #[test]
    fn a_lock_file_with_nonsense_names_another_process() {
        let dir = tempfile::tempdir().unwrap();
        let _owner = DirLock::acquire(dir.path()).unwrap();
        fs::write(dir.path().join(LOCK_FILE), [0xff; 64]).unwrap();
        let refused = DirLock::acquire(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("in use by another process"), "{refused}");
    }

    #[test]
    fn a_directory_is_made_with_all_that_is_missing_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        create_dir(&deep).unwrap();
        assert!(deep.is_dir());
        create_dir(&deep).unwrap();
        assert_eq!(parent_of(Path::new("bare")), Path::new("."));
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_io_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = DirLock::acquire(&file.join("below")).unwrap_err();
        assert!(matches!(refused, OpenError::Io { .. }), "{refused}");
        assert!(refused.to_string().contains("below"), "{refused}");
    }
}
