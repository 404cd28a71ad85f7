//! Files that survive a crash: written beside, synced, renamed into place, directory synced.
//!
//! Used by the agent's pump tasks (through `spawn_blocking`) and by the process supervisor; never on an async
//! thread.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The ending of files that are being written; leftovers of a crash carry it.
pub(crate) const TEMPORARY: &str = "tmp";

/// Writes a file so that a crash leaves either the old content or the new, never a part.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = with_suffix(path, TEMPORARY);
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_directory(path)
}

/// Removes a file for good; one that is gone already is fine.
pub(crate) fn remove_durably(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_directory(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Moves a file that cannot be read out of the way, keeping it for people. Returns its new name.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let aside = with_suffix(
        path,
        &format!("corrupt-{}", interrex_proto::clock::now_ms()),
    );
    fs::rename(path, &aside)?;
    sync_directory(path)?;
    Ok(aside)
}

/// `path` with `.suffix` appended (not replacing what follows the last dot).
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// The files of a directory that end in `.extension`, sorted. What is being written is left alone: its writer may be
/// another process.
pub(crate) fn list(directory: &Path, wanted: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == wanted)
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Removes what unfinished writes have left in a directory that no other process writes to.
pub(crate) fn remove_unfinished(directory: &Path) -> io::Result<()> {
    list(directory, TEMPORARY)?
        .iter()
        .try_for_each(|path| remove_durably(path))
}

fn sync_directory(of: &Path) -> io::Result<()> {
    let parent = of.parent().unwrap_or_else(|| Path::new("."));
    File::open(parent)?.sync_all()
}
