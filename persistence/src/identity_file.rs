//! The file in a data directory that says whose it is: the same rules for every engine that has one.
//!
//! A directory is claimed once and for ever. What must never happen: that a master takes a directory that is another's, or
//! one that holds something else.

use std::{fs, io, path::Path};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    data_dir::{LOCK_FILE, io_at, replace_file},
    error::OpenError,
};

/// What such a file says; JSON.
pub(crate) trait Identity: Sized + Serialize + DeserializeOwned {
    /// The file's name.
    const FILE: &'static str;
    /// The format that this build writes, and the only one that it reads.
    const FORMAT: u32;
    /// Whose directory it is, as in "it is not ...".
    const WHOSE: &'static str;

    /// The format that it was written in.
    fn format(&self) -> u32;
    /// The configured id of the master, such as `m1`.
    fn id(&self) -> &str;
    /// A new one for the master `id`.
    fn mint(id: &str) -> Self;
}

/// The identity in `dir`, or a new one for `id` where the directory is empty. The caller holds the directory's lock.
/// Blocks.
///
/// # Errors
/// `Foreign` when the directory is another master's or something else, `Corrupt` when the identity cannot be read
/// back, `Io` when it cannot be stored.
pub(crate) fn claim<T: Identity>(dir: &Path, id: &str) -> Result<T, OpenError> {
    if let Some(found) = read::<T>(dir)? {
        if found.id() == id {
            return Ok(found);
        }
        let reason = format!(
            "it belongs to master {}, not to {id}; check --id and --data-dir",
            found.id()
        );
        return Err(foreign(dir, reason));
    }
    if let Some(name) = stranger::<T>(dir)? {
        let reason = format!(
            "it is not {} (it holds `{name}` but no {}); choose an empty one",
            T::WHOSE,
            T::FILE
        );
        return Err(foreign(dir, reason));
    }
    let identity = T::mint(id);
    store(dir, &identity)?;
    Ok(identity)
}

/// The identity in `dir`, if there is one. Blocks.
///
/// # Errors
/// `Corrupt` when it cannot be read back, `Foreign` when it is of another format, `Io`.
pub(crate) fn read<T: Identity>(dir: &Path) -> Result<Option<T>, OpenError> {
    let file = dir.join(T::FILE);
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(OpenError::Io { path: file, source }),
    };
    let found: T = serde_json::from_slice(&bytes).map_err(|error| OpenError::Corrupt {
        path: file,
        reason: error.to_string(),
    })?;
    if found.format() != T::FORMAT {
        let reason = format!(
            "written in format {}, this program reads format {}",
            found.format(),
            T::FORMAT
        );
        return Err(foreign(dir, reason));
    }
    Ok(Some(found))
}

/// The identity in `dir`.
///
/// # Errors
/// `Foreign` when there is none; else as [`read`].
pub(crate) fn expect<T: Identity>(dir: &Path) -> Result<T, OpenError> {
    read(dir)?.ok_or_else(|| {
        let reason = format!("it is not {} (there is no {})", T::WHOSE, T::FILE);
        foreign(dir, reason)
    })
}

/// Stores `identity` durably. Blocks.
///
/// # Errors
/// `Io` when it cannot be written.
pub(crate) fn store<T: Identity>(dir: &Path, identity: &T) -> Result<(), OpenError> {
    let path = dir.join(T::FILE);
    let text = serde_json::to_vec_pretty(identity).map_err(|error| OpenError::Io {
        path: path.clone(),
        source: error.into(),
    })?;
    replace_file(&path, &text).map_err(io_at(&path))
}

/// Something that does not belong into a directory that is still free: there may be our lock, what file systems put
/// there, and what a crash between making the identity and naming it leaves behind.
fn stranger<T: Identity>(dir: &Path) -> Result<Option<String>, OpenError> {
    let unfinished = Path::new(T::FILE).with_extension("tmp");
    for entry in fs::read_dir(dir).map_err(io_at(dir))? {
        let name = entry.map_err(io_at(dir))?.file_name();
        let name = name.to_string_lossy().into_owned();
        let harmless = name == LOCK_FILE || name == "lost+found" || Path::new(&name) == unfinished;
        if !harmless {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn foreign(dir: &Path, reason: String) -> OpenError {
    OpenError::Foreign {
        path: dir.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Name {
        format: u32,
        id: String,
    }

    impl Identity for Name {
        const FILE: &'static str = "name.json";
        const FORMAT: u32 = 1;
        const WHOSE: &'static str = "a tester's";

        fn format(&self) -> u32 {
            self.format
        }

        fn id(&self) -> &str {
            &self.id
        }

        fn mint(id: &str) -> Self {
            Self {
                format: Self::FORMAT,
                id: id.to_owned(),
            }
        }
    }

    fn refusal(dir: &Path, id: &str) -> String {
        let error = claim::<Name>(dir, id).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        error.to_string()
    }

    #[test]
    fn a_directory_is_claimed_once_and_for_ever() {
        let temp = tempfile::tempdir().unwrap();
        let first: Name = claim(temp.path(), "m1").unwrap();
        assert_eq!(claim::<Name>(temp.path(), "m1").unwrap(), first);
        let refused = refusal(temp.path(), "m2");
        assert!(
            refused.contains("belongs to master m1, not to m2"),
            "{refused}"
        );
    }

    #[test]
    fn a_directory_of_something_else_is_refused_by_name() {
        let temp = tempfile::tempdir().unwrap();
        for harmless in [LOCK_FILE, "lost+found", "name.tmp"] {
            fs::write(temp.path().join(harmless), "").unwrap();
        }
        fs::write(temp.path().join("thesis.tex"), "x").unwrap();
        let refused = refusal(temp.path(), "m1");
        assert!(
            refused.contains("`thesis.tex` but no name.json"),
            "{refused}"
        );
        let absent = expect::<Name>(temp.path()).unwrap_err().to_string();
        assert!(absent.contains("there is no name.json"), "{absent}");
        assert!(!temp.path().join(Name::FILE).exists(), "nothing was made");
        fs::remove_file(temp.path().join("thesis.tex")).unwrap();
        claim::<Name>(temp.path(), "m1").unwrap();
    }

    #[test]
    fn another_format_is_refused_and_damage_is_called_damage() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join(Name::FILE);
        fs::write(&file, r#"{"format":2,"id":"m1"}"#).unwrap();
        assert!(refusal(temp.path(), "m1").contains("written in format 2"));
        fs::write(&file, "{").unwrap();
        let damaged = claim::<Name>(temp.path(), "m1").unwrap_err();
        assert!(matches!(damaged, OpenError::Corrupt { .. }), "{damaged}");
    }
}
