//! Asks the peer of a connection what its classes look like, where no dictionary says it (`--spark-probe`).
//!
//! What the peer has said waits meanwhile, and is dealt with as if it came then. Drivers are asked by the leader only; one
//! that a standby does not know waits there until that leads. The questions and what follows from their answers are
//! [`Probe`]'s. What was found out has the name under which an agent offers an installation for it: an agent that
//! could read its classes would have taught them.

use std::{sync::Arc, time::Duration};

use interrex_spark_wire::{
    Dictionary, Envelope, Frame, Probe, ProbeError, Purpose,
    probe::{Next, UNNAMED},
};
use tokio::time::Instant;

use crate::edge::spark_rpc::{
    builds::Naming,
    connection::{Connection, KnownPeer, Step, raw_request},
    probes::{NotAsked, Place},
};

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest message that waits. A registration has 5 kB; a submission comes with its client's environment.
const HELD_BYTES_MAX: usize = 256 << 10;

/// What there is to find out on one connection.
#[derive(Debug, Default)]
pub(super) struct Probing {
    /// What waits for it.
    held: Option<Held>,
    /// The peer is being asked.
    open: Option<Open>,
    /// What was held is about a driver that may have another leader already.
    pub(super) follows: bool,
    /// Numbers our questions.
    asked: i64,
}

/// A message of a peer whose build is not known.
#[derive(Debug)]
pub(super) struct Held {
    id: Option<i64>,
    envelope: Envelope,
    purpose: Purpose,
    peer: KnownPeer,
}

#[derive(Debug)]
struct Open {
    probe: Probe,
    purpose: Purpose,
    peer: KnownPeer,
    /// Of the question that waits for its answer.
    id: i64,
    deadline: Instant,
    _place: Place,
}

// === impl Probing ===

impl Probing {
    /// When the open question has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.deadline)
    }
}

// === impl Held ===

impl Held {
    pub(super) fn new(
        id: Option<i64>,
        envelope: &Envelope,
        purpose: Purpose,
        peer: KnownPeer,
    ) -> Self {
        Self {
            id,
            envelope: envelope.clone(),
            purpose,
            peer,
        }
    }
}

// === impl Connection ===

impl Connection {
    /// This message can only be answered when it is known who it is from.
    pub(super) fn find_out(&mut self, held: Held) -> Step {
        if !self.rpc.probes.is_on() {
            return self.not_known(held.purpose, held.id);
        }
        let length = held.envelope.payload.len();
        if length > HELD_BYTES_MAX {
            let text = format!(
                "{length} bytes of a build of Spark that is not known; at most {HELD_BYTES_MAX} wait until it is"
            );
            return self.fail(held.id, "probe", &text);
        }
        if self.probing.open.is_some() {
            let text = "this client is being asked what its classes look like";
            // A driver says the same again and again.
            let id = held.id;
            return id.map_or_else(Step::default, |id| self.fail(Some(id), "probe", text));
        }
        let (purpose, peer) = (held.purpose, held.peer.clone());
        self.probing.held = Some(held);
        if purpose == Purpose::Driver && self.rpc.handle.port().is_err() {
            return Step::default();
        }
        self.ask_peer(purpose, peer)
    }

    /// This master leads now: a driver whose registration it did not understand is asked.
    pub(super) fn lead_unknown(&mut self) -> Option<Step> {
        let held = self.probing.held.as_ref()?;
        if held.purpose != Purpose::Driver || self.probing.open.is_some() {
            return None;
        }
        let (purpose, peer) = (held.purpose, held.peer.clone());
        self.probing.follows = true;
        Some(self.ask_peer(purpose, peer))
    }

    /// Puts the first question.
    pub(super) fn ask_peer(&mut self, purpose: Purpose, peer: KnownPeer) -> Step {
        let place = match self.rpc.probes.begin(&peer.address) {
            Ok(place) => place,
            // A driver says it again in 20 s.
            Err(NotAsked::Busy) => return self.not_now(&NotAsked::Busy),
            Err(error) => {
                let id = self.probing.held.take().and_then(|held| held.id);
                return self.fail(id, "probe", &error.to_string());
            }
        };
        tracing::info!(
            from = self.from, peer = %peer.address, ?purpose, classes = self.recogniser.describe(3),
            "asks a peer of Spark what its classes look like"
        );
        let fitting = self.rpc.builds.fitting(&self.recogniser);
        let probe = Probe::new(purpose, &self.recogniser, fitting.iter().map(AsRef::as_ref));
        self.probing.open = Some(Open {
            probe,
            purpose,
            peer,
            id: 0,
            deadline: Instant::now(),
            _place: place,
        });
        self.next_question()
    }

    fn not_now(&mut self, error: &NotAsked) -> Step {
        let id = self.probing.held.take().and_then(|held| held.id);
        match id {
            Some(id) => self.fail(Some(id), "probe", &error.to_string()),
            None => Step::default(),
        }
    }

    fn next_question(&mut self) -> Step {
        let Some(open) = &mut self.probing.open else {
            return Step::default();
        };
        match open.probe.step() {
            Ok(Next::Ask(stream)) => {
                self.probing.asked += 1;
                open.id = self.probing.asked;
                open.deadline = Instant::now() + ANSWER_TIMEOUT;
                match raw_request(&self.rpc, &open.peer, open.id, stream) {
                    Ok(frame) => Step::send(frame),
                    Err(error) => self.asked_in_vain(&error),
                }
            }
            Ok(Next::Learned(dictionary)) => self.found_out(dictionary),
            Err(error) => self.asked_in_vain(&error.to_string()),
        }
    }

    /// What came as an answer; nothing if it was none to a question of ours.
    pub(super) fn peer_answered(&mut self, answered: i64, text: &str) -> Option<Step> {
        let open = self.probing.open.as_mut()?;
        if open.id != answered {
            return None;
        }
        let taken: Result<(), ProbeError> = open.probe.answered(text);
        Some(match taken {
            Ok(()) => self.next_question(),
            Err(error) => self.asked_in_vain(&error.to_string()),
        })
    }

    /// The question has waited long enough.
    pub(super) fn peer_is_silent(&mut self) -> Step {
        self.asked_in_vain("it does not answer")
    }

    fn asked_in_vain(&mut self, why: &str) -> Step {
        let Some(open) = self.probing.open.take() else {
            return Step::default();
        };
        self.rpc.probes.failed(&open.peer.address, why);
        let held = self.probing.held.take();
        let text = NotAsked::Vain(why.to_owned()).to_string();
        let mut step = self.fail(held.as_ref().and_then(|held| held.id), "probe", &text);
        // One that this master has dialled is of no use.
        step.close |= held.is_none();
        step
    }

    fn found_out(&mut self, dictionary: Dictionary) -> Step {
        let Some(open) = self.probing.open.take() else {
            return Step::default();
        };
        tracing::info!(
            from = self.from, questions = open.probe.asked(), purpose = ?open.purpose,
            "found out what the classes of a peer of Spark look like"
        );
        for (class, suid) in open.probe.told() {
            self.recogniser.note(class, *suid);
        }
        let Some(held) = self.probing.held.take() else {
            return self.called(dictionary);
        };
        match open.purpose {
            // It is named when it is known what its driver says of it.
            Purpose::Driver => self.line = Some(Arc::new(dictionary)),
            Purpose::Client if self.agreed_dictionary().is_some() => {}
            Purpose::Client => match self.named(dictionary, None) {
                Ok(named) => self.line = Some(named),
                Err(error) => return self.fail(held.id, "build", &error),
            },
        }
        self.message(held.id, &held.envelope)
    }

    /// A driver that this master has dialled is known now.
    fn called(&mut self, dictionary: Dictionary) -> Step {
        let view = self.rpc.handle.view();
        let app = self.app.as_ref().and_then(|id| view.app(id));
        let Some(line) = app.and_then(|app| Some(app.spec.spark.as_ref()?.line.clone())) else {
            let close = true;
            return Step {
                close,
                ..Step::default()
            };
        };
        self.line = Some(self.rpc.builds.found_out(&line, &dictionary));
        self.to_driver(&self.rpc.master_changed())
    }

    /// What was found out, under the name of an installation that agents offer.
    ///
    /// # Errors
    /// In words: there is none, or it is not clear which one.
    pub(super) fn named(
        &self,
        dictionary: Dictionary,
        wanted: Option<&str>,
    ) -> Result<Arc<Dictionary>, String> {
        let name = match self.rpc.builds.name_for(wanted) {
            Naming::Name(name) => name,
            Naming::None(reason) => return Err(reason),
        };
        let other = self.rpc.builds.of_line(&name);
        let differs = other.is_some_and(|other| !agree(&other, &dictionary));
        let is_used = || {
            let view = self.rpc.handle.view();
            let mut open = view.apps().filter(|app| !app.state.is_final());
            open.any(|app| app.spec.spark.as_ref().is_some_and(|s| s.line == name))
        };
        if differs && is_used() {
            return Err(format!(
                "its build of Spark is another one than that of applications on `{name}` that run; give agents an \
                 installation for it with --spark-home NAME=DIR"
            ));
        }
        Ok(self.rpc.builds.found_out(&name, &dictionary))
    }

    fn not_known(&self, purpose: Purpose, id: Option<i64>) -> Step {
        let fits = !self.rpc.builds.fitting(&self.recogniser).is_empty();
        if purpose == Purpose::Client && fits {
            return self.fail(
                id,
                "cluster mode",
                "this client could be of more than one line of Spark; submit over REST: --conf \
                 spark.master.rest.enabled=true and the master's REST port (6066), or start masters with --spark-probe",
            );
        }
        self.unknown_build(id)
    }
}

/// Whether two are of the same build, as far as both know.
fn agree(one: &Dictionary, other: &Dictionary) -> bool {
    let both = one.classes.iter();
    let mut both = both.filter_map(|(name, class)| Some((class, other.class(name)?)));
    both.all(|(one, other)| one.suid == other.suid)
}

/// Whether a dictionary was found out and has no name yet.
pub(super) fn is_unnamed(dictionary: &Dictionary) -> bool {
    dictionary.line == UNNAMED
}

/// What a failure on the wire says, if it is an answer to somebody.
pub(super) fn answer(frame: &Frame) -> Option<(i64, &str)> {
    match frame {
        Frame::Failure { id, text } => Some((*id, text)),
        // No question of ours can be granted.
        Frame::Response { id, .. } => Some((*id, "yes")),
        Frame::Request { .. } | Frame::OneWay { .. } => None,
    }
}
