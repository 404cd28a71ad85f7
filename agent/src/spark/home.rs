//! One installation of Spark, as an operator names it: `DIR`, or `NAME=DIR` where its jars are not to be read.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    str::FromStr,
};

use interrex_spark_wire::dictionary::{LEARNED, built_in};

/// Longest name.
const NAME_BYTES_MAX: usize = 64;

/// An installation of Spark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparkHome {
    /// What it is offered as; nothing: what its jars say. With a name its jars are not read, so only masters that ask drivers
    /// (`--spark-probe`) have anything to run there.
    pub name: Option<String>,
    /// Where it is: the folder with `bin` and `jars`.
    pub dir: PathBuf,
}

/// Why a text is no installation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SparkHomeError {
    /// Nothing behind the name.
    #[error("`{0}=` has no folder behind it; write NAME=DIR")]
    NoFolder(String),
    /// Not of the characters of a name, or too long.
    #[error(
        "`{0}` is no name for an installation: give 1 to {NAME_BYTES_MAX} letters, digits, `.`, `-` or `_`, or write a folder \
         with `=` in its name as ./{0}=..."
    )]
    Name(String),
    /// A line that every master knows: an installation of it is known by its jars.
    #[error(
        "`{0}` is a line that Interrex reads from the jars: leave the name out, or give another one"
    )]
    BuiltIn(String),
}

// === impl SparkHome ===

impl SparkHome {
    /// An installation whose jars say what it is.
    #[must_use]
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self {
            name: None,
            dir: dir.into(),
        }
    }

    /// As it stands on a command line.
    #[must_use]
    pub fn argument(&self) -> OsString {
        let mut argument = OsString::new();
        if let Some(name) = &self.name {
            argument.push(name);
            argument.push("=");
        }
        argument.push(&self.dir);
        argument
    }

    /// The same with a folder that does not depend on where one stands.
    ///
    /// # Errors
    /// The current folder cannot be found out.
    pub fn absolute(&self) -> std::io::Result<Self> {
        Ok(Self {
            name: self.name.clone(),
            dir: std::path::absolute(&self.dir)?,
        })
    }
}

impl FromStr for SparkHome {
    type Err = SparkHomeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = text.split_once('=').filter(|(name, _)| !name.contains('/'));
        let Some((name, dir)) = named else {
            return Ok(Self::at(Path::new(text)));
        };
        let name = name.to_owned();
        // A `+` stands in the names of builds that were read from jars.
        let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        debug_assert!(!usable(LEARNED), "names of read builds are other ones");
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(usable) {
            return Err(SparkHomeError::Name(name));
        }
        if built_in().iter().any(|known| known.line == name) {
            return Err(SparkHomeError::BuiltIn(name));
        }
        if dir.is_empty() {
            return Err(SparkHomeError::NoFolder(name));
        }
        Ok(Self {
            name: Some(name),
            dir: PathBuf::from(dir),
        })
    }
}

impl std::fmt::Display for SparkHome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        write!(f, "{}", self.dir.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_and_a_name_before_it_is_kept() {
        let parse = |text: &str| text.parse::<SparkHome>().expect("fine");
        assert_eq!(parse("/opt/spark"), SparkHome::at("/opt/spark"));
        assert_eq!(parse("./a=b"), SparkHome::at("./a=b"));
        let named = parse("acme-3.5=/opt/acme=2");
        assert_eq!(named.name.as_deref(), Some("acme-3.5"));
        assert_eq!(named.dir, Path::new("/opt/acme=2"));
        assert_eq!(named.to_string(), "acme-3.5=/opt/acme=2");
    }

    #[test]
    fn a_name_that_masters_would_misunderstand_is_refused() {
        let refused = |text: &str| text.parse::<SparkHome>().expect_err("bad");
        assert_eq!(refused("3.5=/a"), SparkHomeError::BuiltIn("3.5".to_owned()));
        assert_eq!(refused("a+b=/a"), SparkHomeError::Name("a+b".to_owned()));
        assert_eq!(refused("=/a"), SparkHomeError::Name(String::new()));
        assert_eq!(
            refused("acme="),
            SparkHomeError::NoFolder("acme".to_owned())
        );
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(refused(&format!("{long}=/a")), SparkHomeError::Name(long));
    }
}
