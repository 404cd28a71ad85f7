//! Asks a peer what its classes look like, where no dictionary says it: which question is next, and what an answer tells.
//!
//! A peer that is sent an object of a class with a wrong serial version UID refuses it in words that hold the right one.
//! So the classes of a build are found out one by one, beginning with what the peer's own messages have shown. Only
//! UIDs are asked for: names and fields are those of the built-in dictionary that is most like the peer.
//!
//! Pure, and bounded: whatever a peer answers, it is learned from or it ends the questions.

use std::collections::BTreeMap;

use crate::{
    dictionary::{ClassInfo, Dictionary, built_in},
    envelope::Address,
    java::{Emitter, Tag},
    message::{DriverState, DriverStatus, EndpointRef, ExecutorChange, ExecutorState, Outbound},
    recognise::Recogniser,
    writer::WriteError,
};

/// Most questions to one peer. A driver whose registration has come needs 7, one of which nothing is known 16 at most.
pub const QUESTIONS_MAX: usize = 24;
/// What a dictionary is called that was found out so, until somebody names it.
pub const UNNAMED: &str = "probed";

/// A UID that no class has whose UID is asked for; those that Spark's classes have are hashes.
const WRONG_SUID: i64 = 1;
const SERIALIZABLE: u8 = 2;
/// Says by its UID which Scala a peer has; the first question where nothing else tells.
const TELLS_SCALA: &str = "scala.concurrent.duration.FiniteDuration";
/// Longest part of an answer that stands in an error.
const SHOWN_MAX: usize = 160;

/// What a peer is to be told, which decides what has to be known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// All that a master tells the driver of an application.
    Driver,
    /// All that a master tells a client of cluster mode.
    Client,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Probe {
    purpose: Purpose,
    /// What is known so far.
    known: Dictionary,
    /// Everything that can be found out, and how it is laid out.
    template: Option<&'static Dictionary>,
    /// The question that waits for its answer.
    open: Option<String>,
    asked: usize,
    /// What was answered.
    told: BTreeMap<String, i64>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Send this Java stream as a request, and give the failure that comes back to [`Probe::answered`].
    Ask(Vec<u8>),
    /// Enough is known.
    Learned(Dictionary),
}

/// Why a peer cannot be found out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// It has been asked enough.
    #[error("after {QUESTIONS_MAX} questions {class} is still not known")]
    TooMany {
        /// The next that would be asked for.
        class: String,
    },
    /// No answer to the question, or no question was open.
    #[error("asked for the UID of {class}, it said: {said}")]
    Answer {
        /// Asked for.
        class: String,
        /// How the answer begins.
        said: String,
    },
    /// A class that no built-in dictionary has, so that its fields are not known.
    #[error("nothing is known of {class}")]
    Class {
        /// Which.
        class: String,
    },
    /// What it shows of Scala is of no version that is known.
    #[error("its Scala is none that is known")]
    Scala,
    /// A message does not fit the classes.
    #[error(transparent)]
    Write(WriteError),
}

// === impl Purpose ===

impl Purpose {
    /// Whether a dictionary has all that is needed.
    #[must_use]
    pub fn is_served_by(self, dictionary: &Dictionary) -> bool {
        matches!(self.missing(dictionary), Ok(None))
    }

    /// The first class that is missing.
    fn missing(self, dictionary: &Dictionary) -> Result<Option<String>, WriteError> {
        for sample in self.samples() {
            match sample.write(dictionary) {
                Ok(_stream) => {}
                Err(WriteError::NoClass { class, .. }) => return Ok(Some(class)),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// One of each message, with all that can be in it.
    fn samples(self) -> Vec<Outbound> {
        let master = || EndpointRef::new("Master", Address::new("host", 1));
        let text = || "text".to_owned();
        match self {
            Self::Driver => vec![
                Outbound::RegisteredApplication {
                    app_id: text(),
                    master: master(),
                },
                Outbound::ExecutorAdded {
                    id: 0,
                    worker_id: text(),
                    host_port: text(),
                    cores: 1,
                    memory_mib: 1,
                },
                Outbound::ExecutorUpdated(ExecutorChange {
                    id: 0,
                    state: ExecutorState::Lost,
                    message: None,
                    exit_status: Some(1),
                    worker_host: Some(text()),
                }),
                Outbound::WorkerRemoved {
                    id: text(),
                    host: text(),
                    message: text(),
                },
                Outbound::ApplicationRemoved { message: text() },
                Outbound::MasterChanged {
                    master: master(),
                    web_url: text(),
                },
            ],
            Self::Client => vec![
                Outbound::SubmitDriverResponse {
                    master: master(),
                    success: true,
                    driver_id: Some(text()),
                    message: text(),
                },
                Outbound::KillDriverResponse {
                    master: master(),
                    driver_id: text(),
                    success: true,
                    message: text(),
                },
                Outbound::DriverStatusResponse(DriverStatus {
                    found: true,
                    state: Some(DriverState::Running),
                    worker_id: Some(text()),
                    worker_host_port: None,
                    exception: Some(text()),
                }),
            ],
        }
    }
}

// === impl Probe ===

impl Probe {
    /// A peer that has shown these classes. Where dictionaries fit them already, but do not agree or do not suffice,
    /// only the rest is asked for.
    #[must_use]
    pub fn new<'d>(
        purpose: Purpose,
        seen: &Recogniser,
        fitting: impl IntoIterator<Item = &'d Dictionary>,
    ) -> Self {
        let mut fitting = fitting.into_iter();
        let mut known = Dictionary {
            line: UNNAMED.to_owned(),
            classes: BTreeMap::new(),
        };
        if let Some(first) = fitting.next() {
            known.classes.clone_from(&first.classes);
            for other in fitting {
                known
                    .classes
                    .retain(|name, class| other.class(name) == Some(class));
            }
        }
        let mut seen = seen.clone();
        if let Some(class) = known.class(TELLS_SCALA) {
            seen.note(TELLS_SCALA, class.suid);
        }
        let mut probe = Self {
            purpose,
            known,
            template: None,
            open: None,
            asked: 0,
            told: BTreeMap::new(),
        };
        probe.take(&seen);
        probe
    }

    /// What to do now. A question that waits for its answer is put again, and counts.
    ///
    /// # Errors
    /// The peer cannot be found out.
    pub fn step(&mut self) -> Result<Next, ProbeError> {
        let missing = match self.template {
            None => Some(TELLS_SCALA.to_owned()),
            Some(_) => self
                .purpose
                .missing(&self.known)
                .map_err(ProbeError::Write)?,
        };
        let Some(class) = missing else {
            return Ok(Next::Learned(self.known.clone()));
        };
        if self
            .template
            .is_some_and(|known| known.class(&class).is_none())
        {
            return Err(ProbeError::Class { class });
        }
        if self.asked >= QUESTIONS_MAX {
            return Err(ProbeError::TooMany { class });
        }
        self.asked += 1;
        let question = question(&class);
        self.open = Some(class);
        Ok(Next::Ask(question))
    }

    /// The text of the failure with which the peer has answered the question.
    ///
    /// # Errors
    /// It does not tell the UID that was asked for.
    pub fn answered(&mut self, text: &str) -> Result<(), ProbeError> {
        let class = self.open.take().unwrap_or_default();
        let Some(suid) = suid_in(text, &class) else {
            let said = text.lines().next().unwrap_or_default();
            let said = said.chars().take(SHOWN_MAX).collect();
            return Err(ProbeError::Answer { class, said });
        };
        let mut told = Recogniser::default();
        told.note(&class, suid);
        self.told.insert(class, suid);
        self.take(&told);
        match self.template {
            Some(_) => Ok(()),
            None => Err(ProbeError::Scala),
        }
    }

    /// What the peer has answered, class by class.
    #[must_use]
    pub fn told(&self) -> &BTreeMap<String, i64> {
        &self.told
    }

    /// How many questions were put.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked
    }

    /// Takes over what is sure: what was seen, laid out as in the template, and what does not depend on the build.
    fn take(&mut self, seen: &Recogniser) {
        let is_first = self.template.is_none();
        let Some(template) = self.template.or_else(|| most_alike(seen)) else {
            return;
        };
        self.template = Some(template);
        if is_first {
            let shared = template.classes.iter().filter(|(name, _)| !is_sparks(name));
            for (name, class) in shared {
                let entry = self.known.classes.entry(name.clone());
                entry.or_insert_with(|| class.clone());
            }
        }
        for (name, suid) in seen.seen() {
            if let Some(class) = template.class(name) {
                let class = ClassInfo {
                    suid,
                    ..class.clone()
                };
                self.known.classes.insert(name.to_owned(), class);
            }
        }
    }
}

/// The newest built-in dictionary that has the most of what a peer shows of Scala and Java. Nothing where it shows none.
fn most_alike(seen: &Recogniser) -> Option<&'static Dictionary> {
    let likeness = |dictionary: &&Dictionary| {
        let agrees =
            |(name, suid): &(&str, i64)| dictionary.class(name).is_some_and(|c| c.suid == *suid);
        let shared = seen.seen().filter(|(name, _)| !is_sparks(name));
        shared.filter(agrees).count()
    };
    let best = built_in().iter().max_by_key(likeness)?;
    let tells = |dictionary: &Dictionary| likeness(&dictionary);
    let worst = built_in().iter().map(tells).min()?;
    // Scala 2.12 and 2.13 share some of their classes.
    (tells(best) > worst).then_some(best)
}

fn is_sparks(class: &str) -> bool {
    class.starts_with("org.apache.spark.")
}

/// An object of a class with a UID that it does not have.
fn question(class: &str) -> Vec<u8> {
    let mut out = Emitter::new();
    out.tag(Tag::Object);
    out.tag(Tag::ClassDesc);
    // Names of our own dictionaries are short.
    if out.name(class).is_err() {
        return Vec::new();
    }
    out.bytes(&WRONG_SUID.to_be_bytes());
    out.bytes(&[SERIALIZABLE, 0, 0]);
    out.tag(Tag::EndBlockData);
    out.tag(Tag::Null);
    out.finish()
}

/// The UID in the words of a JVM that has refused [`question`], if these are they.
fn suid_in(text: &str, class: &str) -> Option<i64> {
    let line = text.lines().next()?;
    let rest = line.strip_prefix("java.io.InvalidClassException: ")?;
    let rest = rest.strip_prefix(class)?;
    let rest = rest.strip_prefix(
        "; local class incompatible: stream classdesc serialVersionUID = 1, local class serialVersionUID = ",
    )?;
    let suid = rest.trim_end().parse().ok()?;
    // A class that had the wrong one would not have refused it.
    (!class.is_empty() && suid != WRONG_SUID).then_some(suid)
}
