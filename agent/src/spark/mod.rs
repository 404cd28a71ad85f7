//! The installations of Spark that this agent offers: which line each is, read from its jars without a JVM.
//!
//! An executor runs with the classes of its driver's line or not at all, so each line is a capability of its own, and
//! the scheduler sends here only what can run here.

pub(crate) mod home;
pub(crate) mod submission;

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use interrex_proto::{limits::SPARK_DICTIONARIES_MAX, v1::SparkDictionary};
use interrex_spark_wire::learn::{LearnError, is_installation, learn};

pub use self::home::{SparkHome, SparkHomeError};
use crate::error::AgentError;

/// What an agent with any installation of Spark offers.
const CAPABILITY: &str = "spark";

/// Installations by line, such as `3.5`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SparkHomes {
    by_line: BTreeMap<String, PathBuf>,
    java: PathBuf,
    /// Those of them that are built into no master.
    learned: Vec<SparkDictionary>,
}

// === impl SparkHomes ===

impl SparkHomes {
    /// Reads the jars of these installations, but of those that have a name; blocking, a second or two each.
    ///
    /// # Errors
    /// One is none, two are of the same line, or its path is not absolute text.
    pub(crate) fn read(homes: &[SparkHome]) -> Result<Self, AgentError> {
        let java = match env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
            Some(home) => Path::new(&home).join("bin/java"),
            None => PathBuf::from("java"),
        };
        let (mut by_line, mut learned) = (BTreeMap::new(), Vec::new());
        for SparkHome { name, dir: home } in homes {
            let refused = |source| AgentError::Spark {
                home: home.clone(),
                source,
            };
            let path = home.canonicalize().map_err(|source| {
                let path = home.clone();
                refused(LearnError::Folder { path, source })
            })?;
            let line = match name {
                Some(name) => {
                    is_installation(&path).map_err(refused)?;
                    name.clone()
                }
                None => {
                    let dictionary = learn(&path).map_err(refused)?;
                    if dictionary.is_learned() {
                        let json = dictionary.to_json();
                        let json = json.map_err(|error| refused(LearnError::Dictionary(error)))?;
                        let line = dictionary.line.clone();
                        learned.push(SparkDictionary { line, json });
                    }
                    dictionary.line
                }
            };
            tracing::info!(line, home = %path.display(), "offers Spark");
            if let Some(other) = by_line.insert(line.clone(), path) {
                let home = home.clone();
                return Err(AgentError::SparkTwice { line, home, other });
            }
        }
        if learned.len() > SPARK_DICTIONARIES_MAX {
            let lines = learned.into_iter().map(|d| d.line).collect();
            return Err(AgentError::SparkTooMany { lines });
        }
        Ok(Self {
            by_line,
            java,
            learned,
        })
    }

    /// What masters have to be taught, to speak with drivers of these installations.
    pub(crate) fn learned(&self) -> &[SparkDictionary] {
        &self.learned
    }

    /// What the agent offers because of them: `spark`, and `spark-<line>` for each.
    pub(crate) fn capabilities(&self) -> impl Iterator<Item = String> {
        let any = (!self.by_line.is_empty()).then(|| CAPABILITY.to_owned());
        let lines = self
            .by_line
            .keys()
            .map(|line| format!("{CAPABILITY}-{line}"));
        any.into_iter().chain(lines)
    }

    /// The values of placeholders: `SPARK_HOME:<line>` for each, and `JAVA`.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = (String, String)> {
        let homes = self.by_line.iter();
        let homes =
            homes.map(|(line, home)| (format!("SPARK_HOME:{line}"), home.display().to_string()));
        let java = (!self.by_line.is_empty())
            .then(|| ("JAVA".to_owned(), self.java.display().to_string()));
        homes.chain(java)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_installation_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = SparkHomes::read(&[SparkHome::at(folder.path())]).expect_err("no Spark");
        let text = error.to_string();
        assert!(
            text.contains(&folder.path().display().to_string()),
            "{text}"
        );
    }

    #[test]
    fn an_installation_with_a_name_is_offered_unread() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = SparkHome {
            name: Some("acme".to_owned()),
            ..SparkHome::at(folder.path())
        };
        assert!(SparkHomes::read(std::slice::from_ref(&home)).is_err());
        let jars = folder.path().join("jars");
        std::fs::create_dir(&jars).expect("a folder");
        for jar in ["spark-core_2.13-9.9.9.jar", "scala-library-2.13.99.jar"] {
            std::fs::write(jars.join(jar), "no jar at all").expect("written");
        }
        let homes = SparkHomes::read(&[home]).expect("offered");
        let offered: Vec<_> = homes.capabilities().collect();
        assert_eq!(offered, ["spark", "spark-acme"]);
        assert!(homes.learned().is_empty());
    }

    #[test]
    fn without_installations_nothing_is_offered() {
        let none = SparkHomes::read(&[]).expect("nothing to read");
        assert_eq!(none.capabilities().count(), 0);
        assert_eq!(none.placeholders().count(), 0);
    }

    #[test]
    fn each_line_is_a_capability_and_a_placeholder() {
        let homes = SparkHomes {
            by_line: BTreeMap::from([
                ("3.5".to_owned(), "/a".into()),
                ("4.1".to_owned(), "/b".into()),
            ]),
            java: "/j/bin/java".into(),
            learned: Vec::new(),
        };
        let offered: Vec<_> = homes.capabilities().collect();
        assert_eq!(offered, ["spark", "spark-3.5", "spark-4.1"]);
        let values: BTreeMap<_, _> = homes.placeholders().collect();
        assert_eq!(values["SPARK_HOME:4.1"], "/b");
        assert_eq!(values["JAVA"], "/j/bin/java");
    }
}
