//! What is in the data directory, and which of its databases counts.
//!
//! ```text
//! LOCK            the owner's process id; locked while it lives
//! interrex.sled   format, master, and the database that counts
//! sled-1/         a sled database; others are leftovers of an interrupted change
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    data_dir::{self, LOCK_FILE, io_at},
    error::OpenError,
};

/// Where it is said what the directory is.
pub(crate) const MARKER_FILE: &str = "interrex.sled";
const MARKER_TEMP: &str = "interrex.tmp";
const FORMAT: u32 = 1;
const DATABASE_PREFIX: &str = "sled-";

/// A data directory of this engine.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    marker: Marker,
}

/// The content of the marker file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Marker {
    master: String,
    /// Which database counts; rises with each replacement.
    generation: u64,
    /// Whether that database was made to its end. Until then nothing was acknowledged from it.
    ready: bool,
}

// === impl Directory ===

impl Directory {
    /// Reads what is there, or begins a new one. The caller holds the directory's lock.
    ///
    /// # Errors
    /// `Foreign` when it belongs to something or somebody else; `Corrupt`; `Io`.
    pub(super) fn open(path: &Path, master: &str) -> Result<Self, OpenError> {
        let file = path.join(MARKER_FILE);
        let marker = match fs::read_to_string(&file) {
            Ok(text) => Marker::parse(&text).map_err(|reason| foreign(path, reason))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                refuse_strangers(path)?;
                Marker {
                    master: master.to_owned(),
                    generation: 1,
                    ready: false,
                }
            }
            Err(source) => return Err(OpenError::Io { path: file, source }),
        };
        if marker.master != master {
            let reason = format!(
                "it belongs to master {}, not {master}; start with --id {0} or another --data-dir",
                marker.master
            );
            return Err(foreign(path, reason));
        }
        let directory = Self {
            path: path.to_owned(),
            marker,
        };
        if !directory.marker.ready {
            directory.write_marker().map_err(io_at(&file))?;
        }
        directory.remove_leftovers().map_err(io_at(path))?;
        if directory.marker.ready && !directory.database().join("db").is_file() {
            let reason = "the database file is missing; restore it from a backup, or start with an empty directory";
            return Err(OpenError::Corrupt {
                path: directory.database(),
                reason: reason.to_owned(),
            });
        }
        Ok(directory)
    }

    /// Reads what is there, of whichever master.
    ///
    /// # Errors
    /// `Foreign` when there is nothing, or it cannot be understood; `Io`.
    pub(super) fn known(path: &Path) -> Result<Self, OpenError> {
        let file = path.join(MARKER_FILE);
        let text = fs::read_to_string(&file).map_err(io_at(&file))?;
        let marker = Marker::parse(&text).map_err(|reason| foreign(path, reason))?;
        Ok(Self {
            path: path.to_owned(),
            marker,
        })
    }

    /// The id of the master that it belongs to.
    pub(super) fn master(&self) -> &str {
        &self.marker.master
    }

    /// Whether the database that counts has been made to its end.
    pub(super) fn ready(&self) -> bool {
        self.marker.ready
    }

    /// The directory of the database that counts.
    pub(super) fn database(&self) -> PathBuf {
        self.path
            .join(format!("{DATABASE_PREFIX}{}", self.marker.generation))
    }

    /// The directory in which a replacement is to be made; empty.
    pub(super) fn next_database(&self) -> io::Result<PathBuf> {
        let next = self
            .path
            .join(format!("{DATABASE_PREFIX}{}", self.marker.generation + 1));
        match fs::remove_dir_all(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(next),
        }
    }

    /// From now on the first database counts: it has been made, and is durable.
    pub(super) fn set_ready(&mut self) -> io::Result<()> {
        data_dir::sync_dir(&self.path)?;
        self.replace_marker(Marker {
            ready: true,
            ..self.marker.clone()
        })
    }

    /// From now on the next database counts; the old one is a leftover.
    pub(super) fn switch(&mut self) -> io::Result<()> {
        data_dir::sync_dir(&self.path)?;
        let generation = self.marker.generation + 1;
        self.replace_marker(Marker {
            generation,
            ready: true,
            ..self.marker.clone()
        })
    }

    fn replace_marker(&mut self, marker: Marker) -> io::Result<()> {
        let old = std::mem::replace(&mut self.marker, marker);
        self.write_marker().inspect_err(|_error| self.marker = old)
    }

    fn write_marker(&self) -> io::Result<()> {
        data_dir::replace_file(&self.path.join(MARKER_FILE), self.marker.text().as_bytes())
    }

    /// Removes databases that do not count.
    pub(super) fn remove_leftovers(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let path = entry.path();
            let database = entry
                .file_name()
                .to_string_lossy()
                .starts_with(DATABASE_PREFIX);
            if database && (path != self.database() || !self.marker.ready) {
                fs::remove_dir_all(path)?;
            }
        }
        Ok(())
    }
}

/// A directory without our marker must hold nothing that we would disturb.
fn refuse_strangers(path: &Path) -> Result<(), OpenError> {
    let mut strangers = Vec::new();
    for entry in fs::read_dir(path).map_err(io_at(path))? {
        let name = entry
            .map_err(io_at(path))?
            .file_name()
            .to_string_lossy()
            .into_owned();
        let ours = [LOCK_FILE, MARKER_TEMP, "lost+found"].contains(&name.as_str());
        if !ours && !name.starts_with('.') {
            strangers.push(name);
        }
    }
    if strangers.is_empty() {
        return Ok(());
    }
    strangers.sort();
    strangers.truncate(3);
    let reason = format!(
        "it holds {} and no {MARKER_FILE}, so it is not of the sled engine; choose an empty --data-dir",
        strangers.join(", ")
    );
    Err(foreign(path, reason))
}

fn foreign(path: &Path, reason: String) -> OpenError {
    OpenError::Foreign {
        path: path.to_owned(),
        reason,
    }
}

// === impl Marker ===

impl Marker {
    fn text(&self) -> String {
        let state = if self.ready { "ready" } else { "new" };
        let Self {
            master, generation, ..
        } = self;
        format!("format {FORMAT}\nmaster {master}\ndatabase {generation} {state}\n")
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let mut field = |name: &str| {
            let line = lines
                .next()
                .and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.ok_or_else(|| {
                format!("{MARKER_FILE} has no line {name:?}; restore it from a backup")
            })
        };
        let format = field("format")?;
        if format.parse::<u32>() != Ok(FORMAT) {
            return Err(format!(
                "{MARKER_FILE} has format {format}, this program reads {FORMAT}; use the program that wrote it"
            ));
        }
        let master = field("master")?.to_owned();
        let database = field("database")?;
        let (generation, ready) = match database.split_once(' ') {
            Some((generation, "ready")) => (generation, true),
            Some((generation, "new")) => (generation, false),
            Some(_) | None => (database, false),
        };
        let generation = generation
            .parse()
            .map_err(|_error| format!("{MARKER_FILE} names no database: {database:?}"))?;
        Ok(Self {
            master,
            generation,
            ready,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_reads_back_as_written() {
        for ready in [false, true] {
            let marker = Marker {
                master: "m 1".to_owned(),
                generation: 7,
                ready,
            };
            assert_eq!(Marker::parse(&marker.text()), Ok(marker));
        }
    }

    #[test]
    fn a_damaged_marker_is_refused_with_the_line() {
        for (text, word) in [
            ("", "\"format\""),
            (
                "format 2\nmaster m1\ndatabase 1 ready\n",
                "use the program that wrote it",
            ),
            ("format 1\nmaster m1\n", "\"database\""),
            (
                "format 1\nmaster m1\ndatabase x ready\n",
                "names no database",
            ),
        ] {
            let reason = Marker::parse(text).unwrap_err();
            assert!(reason.contains(word), "{text:?}: {reason}");
        }
    }

    #[test]
    fn an_interrupted_beginning_is_begun_again() {
        let dir = tempfile::tempdir().unwrap();
        let begun = Directory::open(dir.path(), "m1").unwrap();
        fs::create_dir(begun.database()).unwrap();
        fs::write(begun.database().join("db"), "half").unwrap();
        let again = Directory::open(dir.path(), "m1").unwrap();
        assert!(!again.ready() && !again.database().exists());
    }

    #[test]
    fn an_interrupted_replacement_leaves_the_old_database_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = Directory::open(dir.path(), "m1").unwrap();
        fs::create_dir(first.database()).unwrap();
        fs::write(first.database().join("db"), "old").unwrap();
        first.set_ready().unwrap();
        let next = first.next_database().unwrap();
        fs::create_dir(&next).unwrap();
        let again = Directory::open(dir.path(), "m1").unwrap();
        assert!(again.ready() && again.database().join("db").is_file() && !next.exists());
    }

    #[test]
    fn a_vanished_database_is_not_taken_for_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = Directory::open(dir.path(), "m1").unwrap();
        first.set_ready().unwrap();
        let error = Directory::open(dir.path(), "m1").unwrap_err();
        assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    }
}
