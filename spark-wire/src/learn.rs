//! Makes a dictionary from the jars of an installation of Spark, without a JVM.
//!
//! So a vendor's build or a new release needs no new release of ours. Nothing is executed: class files are parsed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use sha1::{Digest, Sha1};
use zip::ZipArchive;

use crate::{
    classfile::{self, Class},
    dictionary::{ClassInfo, Dictionary, DictionaryError, LEARNED, built_in},
};

/// Jars that hold the classes of the protocol.
const JARS: [&str; 3] = ["spark-core_", "spark-common-utils", "scala-library-"];
/// Longest class file that is read.
const CLASS_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Most classes and interfaces above one class that are looked at.
const ABOVE_MAX: usize = 400;

/// Why the jars of an installation are of no use.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// The folder cannot be read.
    #[error("{path}: {source}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not an installation of Spark.
    #[error("{path} has no jars/{jar}*.jar: is it an installation of Spark?")]
    NoJar {
        /// The installation.
        path: PathBuf,
        /// What is missing.
        jar: &'static str,
    },
    /// A jar is damaged.
    #[error("{path}: {source}")]
    Jar {
        /// Which.
        path: PathBuf,
        /// Why.
        source: zip::result::ZipError,
    },
    /// A class file is damaged.
    #[error("{class}: {reason}")]
    Class {
        /// Which.
        class: String,
        /// Why.
        reason: String,
    },
    /// A class that no build can do without is missing.
    #[error("the jars have no class {class}")]
    NoClass {
        /// Which.
        class: String,
    },
    /// What was found does not fit together.
    #[error(transparent)]
    Dictionary(#[from] DictionaryError),
}

/// The jars of one installation.
struct Jars {
    archives: Vec<(PathBuf, ZipArchive<File>)>,
    /// Read and parsed so far; nothing for a class that is in none of the jars.
    known: BTreeMap<String, Option<Class>>,
}

/// The classes of the installation at `spark_home`. It is called as the built-in dictionary of its line if it equals
/// that, else by the version in the name of its jar, Scala's, and a hash of the classes: `3.4.4+2.12.1a2b3c4d`. So two
/// builds that call themselves the same are told apart, and so are two lines with the same classes, whose executors
/// are none of each other's.
///
/// # Errors
/// There is no Spark there, or it is damaged, or one that the protocol is not known of.
pub fn learn(spark_home: &Path) -> Result<Dictionary, LearnError> {
    let mut jars = Jars::open(spark_home)?;
    let mut classes = BTreeMap::new();
    // Only what the newest line has; the names have not changed since 3.0.
    let wanted = built_in().iter().flat_map(|d| &d.classes);
    for (name, known) in wanted {
        if classes.contains_key(name) {
            continue;
        }
        if name.starts_with("java.") {
            classes.insert(name.clone(), known.clone());
        } else if let Some(info) = jars.info(name)? {
            classes.insert(name.clone(), info);
        }
    }
    let needed = "org.apache.spark.deploy.DeployMessages$RegisterApplication";
    if !classes.contains_key(needed) {
        return Err(LearnError::NoClass {
            class: needed.to_owned(),
        });
    }
    let version = jars.version();
    let is_of = |line: &str| {
        let spark = version.split_once('-').map_or("", |(_scala, spark)| spark);
        spark
            .strip_prefix(line)
            .is_some_and(|rest| rest.starts_with('.'))
    };
    let mut known = built_in().iter();
    let line = match known.find(|d| is_of(&d.line) && d.classes == classes) {
        Some(known) => known.line.clone(),
        None => learned_line(&version, &classes)?,
    };
    let dictionary = Dictionary { line, classes };
    dictionary.check()?;
    Ok(dictionary)
}

/// `version` is of Scala and Spark, as in the name of a jar: `2.13-4.1.4`.
fn learned_line(
    version: &str,
    classes: &BTreeMap<String, ClassInfo>,
) -> Result<String, DictionaryError> {
    let hash = Sha1::digest(serde_json::to_vec(classes)?);
    let hash: String = hash.iter().take(4).map(|b| format!("{b:02x}")).collect();
    let (scala, spark) = version.split_once('-').unwrap_or(("unknown", version));
    Ok(format!("{spark}{LEARNED}{scala}.{hash}"))
}

/// Whether there are the jars of an installation, as their names say; they are not read.
///
/// # Errors
/// There is no Spark there.
pub fn is_installation(spark_home: &Path) -> Result<(), LearnError> {
    jar_paths(spark_home).map(|_paths| ())
}

fn jar_paths(spark_home: &Path) -> Result<Vec<PathBuf>, LearnError> {
    let folder = spark_home.join("jars");
    let failed = |source| LearnError::Folder {
        path: folder.clone(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".jar") && JARS.iter().any(|j| name.starts_with(j)) {
            paths.push(path);
        }
    }
    paths.sort();
    for jar in [JARS[0], JARS[2]] {
        let is_it = |p: &PathBuf| {
            p.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with(jar))
        };
        if !paths.iter().any(is_it) {
            let path = spark_home.to_owned();
            return Err(LearnError::NoJar { path, jar });
        }
    }
    Ok(paths)
}

// === impl Jars ===

impl Jars {
    fn open(spark_home: &Path) -> Result<Self, LearnError> {
        let mut archives = Vec::new();
        for path in jar_paths(spark_home)? {
            let file = File::open(&path).map_err(|source| LearnError::Folder {
                path: path.clone(),
                source,
            })?;
            let archive = ZipArchive::new(file).map_err(|source| LearnError::Jar {
                path: path.clone(),
                source,
            })?;
            archives.push((path, archive));
        }
        let known = BTreeMap::new();
        Ok(Self { archives, known })
    }

    /// Of Spark, as its jar is called: `spark-core_2.13-4.1.4.jar`.
    fn version(&self) -> String {
        let mut names = self
            .archives
            .iter()
            .filter_map(|(path, _)| path.file_stem());
        let core = names.find_map(|n| n.to_string_lossy().strip_prefix(JARS[0]).map(str::to_owned));
        core.unwrap_or_else(|| "unknown".to_owned())
    }

    fn class(&mut self, name: &str) -> Result<Option<&Class>, LearnError> {
        if !self.known.contains_key(name) {
            let class = self.load(name)?;
            self.known.insert(name.to_owned(), class);
        }
        Ok(self.known.get(name).and_then(Option::as_ref))
    }

    fn load(&mut self, name: &str) -> Result<Option<Class>, LearnError> {
        let file = format!("{}.class", name.replace('.', "/"));
        let damaged = |reason: String| LearnError::Class {
            class: name.to_owned(),
            reason,
        };
        for (path, archive) in &mut self.archives {
            let entry = match archive.by_name(&file) {
                Ok(entry) => entry,
                Err(zip::result::ZipError::FileNotFound) => continue,
                Err(source) => {
                    return Err(LearnError::Jar {
                        path: path.clone(),
                        source,
                    });
                }
            };
            let mut bytes = Vec::new();
            let read = entry.take(CLASS_BYTES_MAX + 1).read_to_end(&mut bytes);
            let read = read.map_err(|e| damaged(e.to_string()))?;
            if u64::try_from(read).unwrap_or(u64::MAX) > CLASS_BYTES_MAX {
                return Err(damaged(format!("longer than {CLASS_BYTES_MAX} bytes")));
            }
            let class = classfile::parse(&bytes).map_err(damaged)?;
            if class.name != name {
                return Err(damaged(format!("holds {}", class.name)));
            }
            return Ok(Some(class));
        }
        Ok(None)
    }

    /// Nothing for a class that is missing, or that is never written (one of a newer Scala may be of another kind here).
    fn info(&mut self, name: &str) -> Result<Option<ClassInfo>, LearnError> {
        if !self.serializable(name)? {
            return Ok(None);
        }
        let Some(class) = self.class(name)? else {
            return Ok(None);
        };
        let mut info = class.info.clone();
        let parent = class.parent.clone();
        if let Some(parent) = parent
            && self.serializable(&parent)?
        {
            info.parent = Some(parent);
        }
        Ok(Some(info))
    }

    /// Whether a class, one above it, or an interface of one of them is `Serializable`.
    fn serializable(&mut self, name: &str) -> Result<bool, LearnError> {
        let mut open = vec![name.to_owned()];
        // Scala's collections reach the same interfaces in many ways.
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            if name == "java.io.Serializable" || is_serializable_of_java(&name) {
                return Ok(true);
            }
            if seen.len() >= ABOVE_MAX {
                break;
            }
            if !seen.insert(name.clone()) {
                continue;
            }
            if let Some(class) = self.class(&name)? {
                open.extend(class.interfaces.iter().cloned());
                open.extend(class.parent.clone());
            }
        }
        Ok(false)
    }
}

/// Java's own classes are not in the jars; the ones that matter are in every dictionary.
fn is_serializable_of_java(name: &str) -> bool {
    name.starts_with("java.") && built_in().iter().any(|d| d.classes.contains_key(name))
}
