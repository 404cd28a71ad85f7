//! The builds of Spark that this master can speak with: those that are built in, and those that agents have taught it.
//!
//! An agent tells every master, leader or not, with each registration, what its installations are and no master has
//! built in. So nothing of it has to be stored: whoever leads has heard it from the agents that can run it, and what no
//! agent offers is of no use. Bounded: the build that was told longest ago makes room.
//!
//! Two builds can have the same classes here and differ in others (3.4 and 3.5 do). So what agents offer counts first
//! where a driver fits more than one.

use std::{
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use interrex_proto::{
    limits::{SPARK_DICTIONARIES_MAX, SPARK_DICTIONARY_BYTES_MAX},
    v1::SparkDictionary,
};
use interrex_spark_wire::{
    Dictionary, Recogniser,
    dictionary::{LEARNED, built_in},
};

use crate::{edge::spark_rpc::registering::LINE_VARIABLE, metrics};

/// Builds that are remembered besides those that are built in.
const LEARNED_MAX: usize = 64;
/// Offered lines that are remembered.
const OFFERED_MAX: usize = 128;
/// Builds that are remembered because peers have told them.
const FOUND_OUT_MAX: usize = 16;
/// What the capability for a line begins with.
const CAPABILITY_PREFIX: &str = "spark-";

/// See the module.
#[derive(Debug)]
pub(crate) struct Builds {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    built_in: Vec<Arc<Dictionary>>,
    /// The one that was told longest ago comes first.
    learned: Vec<Arc<Dictionary>>,
    /// Those that peers have told themselves, when they were asked; the oldest comes first.
    found_out: Vec<Arc<Dictionary>>,
    /// Lines that agents have offered; the one that was offered longest ago comes first.
    offered: Vec<String>,
}

/// The name for a build that a peer has told itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Naming {
    /// An installation that agents offer.
    Name(String),
    /// Why there is none, in words.
    None(String),
}

// === impl Builds ===

impl Builds {
    pub(crate) fn new() -> Self {
        let built_in = built_in().iter().cloned().map(Arc::new).collect();
        Self {
            inner: Mutex::new(Inner {
                built_in,
                learned: Vec::new(),
                found_out: Vec::new(),
                offered: Vec::new(),
            }),
        }
    }

    /// What an agent has told. What makes no sense is left out: the agent is none the worse for it.
    pub(crate) fn learn(&self, told: Vec<SparkDictionary>) {
        for SparkDictionary { line, json } in told.into_iter().take(SPARK_DICTIONARIES_MAX) {
            if self.is_told_again(&line) {
                continue;
            }
            match read(&line, &json) {
                Ok(dictionary) => {
                    tracing::info!(line, "an agent has taught this master a build of Spark");
                    self.lock().add(Arc::new(dictionary));
                }
                Err(error) => {
                    metrics::spark_refused("dictionary");
                    tracing::warn!(error, "refused a build of Spark that an agent offers");
                }
            }
        }
    }

    /// A worker offers these capabilities; those for lines of Spark are taken note of.
    pub(crate) fn offers(&self, capabilities: &[String]) {
        let lines = capabilities
            .iter()
            .filter_map(|c| c.strip_prefix(CAPABILITY_PREFIX));
        let mut inner = self.lock();
        for line in lines {
            inner.offered.retain(|known| known != line);
            if inner.offered.len() >= OFFERED_MAX {
                inner.offered.remove(0);
            }
            inner.offered.push(line.to_owned());
        }
    }

    /// By the name of its dictionary.
    pub(super) fn of_line(&self, line: &str) -> Option<Arc<Dictionary>> {
        let inner = self.lock();
        inner.all().find(|d| d.line == line).cloned()
    }

    /// Those that a peer can be, best first.
    pub(super) fn fitting(&self, peer: &Recogniser) -> Vec<Arc<Dictionary>> {
        let inner = self.lock();
        let fitting = peer.candidates(inner.all().map(AsRef::as_ref));
        let shared = |found: &Dictionary| inner.all().find(|d| ptr::eq(d.as_ref(), found)).cloned();
        let mut fitting: Vec<_> = fitting.into_iter().filter_map(shared).collect();
        fitting.sort_by_key(|d| !inner.offered.contains(&d.line));
        fitting
    }

    /// Names that operators have given to installations (`--spark-home NAME=DIR`), as far as agents offer them.
    pub(super) fn named(&self) -> Vec<String> {
        let inner = self.lock();
        let is_named = |line: &&String| {
            !line.contains(LEARNED) && inner.built_in.iter().all(|d| d.line != **line)
        };
        inner.offered.iter().filter(is_named).cloned().collect()
    }

    /// The installation for a build that a peer has told itself: the one that it wants, else the only one.
    pub(super) fn name_for(&self, wanted: Option<&str>) -> Naming {
        let named = self.named();
        let all = named.join(", ");
        match (wanted, named.as_slice()) {
            (_, []) => Naming::None(
                "its build of Spark is not known, and no agent offers an installation for it with --spark-home NAME=DIR"
                    .to_owned(),
            ),
            (Some(wanted), _) if named.iter().any(|name| name == wanted) => {
                Naming::Name(wanted.to_owned())
            }
            (Some(wanted), _) => Naming::None(format!(
                "{LINE_VARIABLE}: agents offer no installation `{wanted}`, but {all}"
            )),
            (None, [one]) => Naming::Name(one.clone()),
            (None, _) => Naming::None(format!(
                "its build of Spark is not known, and agents offer {all}: say which with --conf \
                 spark.executorEnv.{LINE_VARIABLE}=NAME"
            )),
        }
    }

    /// What a peer has told itself, from now on under this name.
    pub(super) fn found_out(&self, name: &str, dictionary: &Dictionary) -> Arc<Dictionary> {
        let found = Arc::new(Dictionary {
            line: name.to_owned(),
            classes: dictionary.classes.clone(),
        });
        let mut inner = self.lock();
        inner.found_out.retain(|d| d.line != name);
        if inner.found_out.len() >= FOUND_OUT_MAX {
            inner.found_out.remove(0);
        }
        inner.found_out.push(Arc::clone(&found));
        found
    }

    /// One of these that was found out under another name, if agents offer an installation of this name: two can have
    /// the same classes.
    pub(super) fn found_as(
        &self,
        fitting: &[Arc<Dictionary>],
        name: &str,
    ) -> Option<Arc<Dictionary>> {
        let is_found =
            |d: &&Arc<Dictionary>| self.lock().found_out.iter().any(|f| f.line == d.line);
        let found = fitting.iter().find(is_found)?;
        let is_offered = self.named().iter().any(|known| known == name);
        is_offered.then(|| self.found_out(name, found))
    }

    /// Their names, for a refusal.
    pub(super) fn lines(&self) -> Vec<String> {
        self.lock().all().map(|d| d.line.clone()).collect()
    }

    fn is_told_again(&self, line: &str) -> bool {
        let mut inner = self.lock();
        let known = inner.learned.iter().position(|d| d.line == line);
        if let Some(place) = known {
            let dictionary = inner.learned.remove(place);
            inner.learned.push(dictionary);
        }
        known.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No change of the lists can panic half way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    fn all(&self) -> impl Iterator<Item = &Arc<Dictionary>> {
        let told = self.learned.iter().chain(&self.found_out);
        self.built_in.iter().chain(told)
    }

    fn add(&mut self, dictionary: Arc<Dictionary>) {
        if self.learned.len() >= LEARNED_MAX {
            self.learned.remove(0);
        }
        self.learned.push(dictionary);
    }
}

fn read(line: &str, json: &str) -> Result<Dictionary, String> {
    let length = json.len();
    if length > SPARK_DICTIONARY_BYTES_MAX {
        return Err(format!(
            "{length} bytes; at most {SPARK_DICTIONARY_BYTES_MAX} are accepted"
        ));
    }
    let dictionary = Dictionary::from_json(json).map_err(|e| e.to_string())?;
    if dictionary.line != line || !dictionary.is_learned() {
        return Err(format!(
            "it is called `{line}` and `{}`; a learned build has one name, with a `+`",
            dictionary.line
        ));
    }
    Ok(dictionary)
}

#[cfg(test)]
mod tests {
    use interrex_spark_wire::{Address, Outbound, java, message::EndpointRef};

    use super::*;

    fn told(line: &str) -> SparkDictionary {
        let mut dictionary = built_in()[0].clone();
        line.clone_into(&mut dictionary.line);
        for class in dictionary.classes.values_mut() {
            class.suid ^= 1;
        }
        SparkDictionary {
            line: line.to_owned(),
            json: dictionary.to_json().expect("JSON"),
        }
    }

    #[test]
    fn what_an_agent_tells_is_known_from_then_on() {
        let builds = Builds::new();
        assert!(builds.of_line("3.4+x").is_none());
        builds.learn(vec![told("3.4+x"), told("3.4+x")]);
        assert_eq!(builds.of_line("3.4+x").expect("learned").line, "3.4+x");
        assert_eq!(builds.lines(), ["3.5", "4.0", "4.1", "3.4+x"]);
    }

    #[test]
    fn of_builds_that_look_alike_the_one_that_agents_offer_comes_first() {
        let builds = Builds::new();
        let mut twin = built_in()[0].clone();
        "3.4.4+2.12.1".clone_into(&mut twin.line);
        let json = twin.to_json().expect("JSON");
        let line = twin.line.clone();
        builds.learn(vec![SparkDictionary { line, json }]);
        let mut peer = Recogniser::default();
        let master = EndpointRef::new("Master", Address::new("h1", 7077));
        let message = Outbound::RegisteredApplication {
            app_id: String::new(),
            master,
        };
        let stream = message.write(&twin).expect("known classes");
        peer.observe(&java::read(&stream, &java::Limits::default()).expect("a stream"));
        let lines = || -> Vec<String> {
            let fitting = builds.fitting(&peer).into_iter();
            fitting.map(|d| d.line.clone()).collect()
        };
        assert_eq!(lines(), ["3.5", "3.4.4+2.12.1"]);
        builds.offers(&["gpu".to_owned(), "spark-3.4.4+2.12.1".to_owned()]);
        assert_eq!(lines(), ["3.4.4+2.12.1", "3.5"]);
        builds.offers(&["spark-3.5".to_owned()]);
        assert_eq!(lines(), ["3.5", "3.4.4+2.12.1"]);
    }

    #[test]
    fn what_makes_no_sense_or_takes_a_built_in_name_is_left_out() {
        let builds = Builds::new();
        let long = SparkDictionary {
            line: "a+b".to_owned(),
            json: " ".repeat(SPARK_DICTIONARY_BYTES_MAX + 1),
        };
        let other_name = SparkDictionary {
            line: "a+b".to_owned(),
            ..told("a+c")
        };
        builds.learn(vec![told("3.5"), long, other_name, told("fine+1")]);
        assert_eq!(builds.lines(), ["3.5", "4.0", "4.1", "fine+1"]);
        let many = (0..20).map(|n| told(&format!("n+{n}"))).collect();
        builds.learn(many);
        assert_eq!(builds.lines().len(), 4 + SPARK_DICTIONARIES_MAX);
    }

    #[test]
    fn the_build_that_was_told_longest_ago_makes_room() {
        let builds = Builds::new();
        for number in 0..LEARNED_MAX {
            builds.learn(vec![told(&format!("n+{number}"))]);
        }
        builds.learn(vec![told("n+0"), told("new+1")]);
        assert_eq!(builds.lines().len(), 3 + LEARNED_MAX);
        assert!(builds.of_line("n+0").is_some());
        assert!(builds.of_line("n+1").is_none());
    }
}
