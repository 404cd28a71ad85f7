//! What each write tells: one fact for each transition of an entity, in the order in which a command made them.
//!
//! Called from `state/write.rs` only, so no transition can go untold, and a state that is added is told as well.

use std::{mem, sync::Arc};

use crate::{
    event::{EventKind, Fact, Who},
    ids::{Attempt, WorkerId},
    state::{
        app::{Application, ApplicationState},
        cluster::ClusterState,
        driver::{Driver, DriverState},
        executor::{Executor, ExecutorState},
        worker::{Worker, WorkerState},
    },
    time::Timestamp,
};

/// Takes down what one command makes happen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scribe {
    /// Not while records are loaded: what they tell has been told.
    writes: bool,
    now: Timestamp,
    who: Option<Who>,
    facts: Vec<Fact>,
    /// Requests of this command that were recognised as repeats.
    pub(crate) replays: u32,
}

/// The changing part of a fact.
struct About {
    kind: EventKind,
    subject: Arc<str>,
    worker: Option<WorkerId>,
    attempt: Option<Attempt>,
}

// === impl Scribe ===

impl Scribe {
    /// A command begins.
    pub(crate) fn begin(&mut self, now: Timestamp, who: Who) {
        (self.writes, self.now, self.who) = (true, now, Some(who));
        self.replays = 0;
    }

    /// What follows is somebody else's doing: the scheduler's, after the command itself.
    pub(crate) fn hand_to(&mut self, who: Who) {
        self.who = Some(who);
    }

    /// What the command made happen.
    pub(crate) fn take(&mut self) -> Vec<Fact> {
        mem::take(&mut self.facts)
    }

    /// Takes down what concerns `subject`; `why` is only asked for when it is.
    pub(crate) fn write(
        &mut self,
        kind: EventKind,
        subject: impl AsRef<str>,
        why: impl FnOnce() -> String,
    ) {
        let subject = Arc::from(subject.as_ref());
        let about = About {
            kind,
            subject,
            worker: None,
            attempt: None,
        };
        self.push(about, why);
    }

    fn push(&mut self, about: About, why: impl FnOnce() -> String) {
        if !self.writes {
            return;
        }
        let About {
            kind,
            subject,
            worker,
            attempt,
        } = about;
        let fact = Fact {
            at: self.now,
            kind,
            subject,
            worker,
            attempt,
            who: self.who.clone().unwrap_or(Who::Leader),
            why: why(),
        };
        self.facts.push(fact.cut());
    }
}

// === impl ClusterState ===

impl ClusterState {
    pub(crate) fn tell_worker(&mut self, before: Option<&Worker>, after: &Worker) {
        let id = after.id.as_str();
        if before.map(|worker| worker.state) != Some(after.state) {
            let kind = EventKind::Worker(after.state);
            let timeout = self.config.worker_timeout;
            self.scribe.write(kind, id, || match after.state {
                WorkerState::Alive => format!(
                    "{} cores, {} MiB on {}",
                    after.spec.cores.0, after.spec.memory.0, after.spec.host
                ),
                WorkerState::Unknown => {
                    "its session ended; it keeps what it runs and gets nothing new".to_owned()
                }
                WorkerState::Dead => format!("not heard of for {timeout:?}"),
            });
        }
        self.tell_of_work(before, after);
    }

    /// Whether a worker gets work, for other reasons than its state.
    fn tell_of_work(&mut self, before: Option<&Worker>, after: &Worker) {
        let (id, now) = (after.id.as_str(), self.now);
        let drained = before.and_then(|worker| worker.drain.as_ref());
        match &after.drain {
            Some(drain) if drained != Some(drain) => {
                self.scribe
                    .write(EventKind::WorkerDrain, id, || match drain.deadline {
                        Some(at) => {
                            format!("{}; what runs ends in {:?}", drain.reason, at.since(now))
                        }
                        None => drain.reason.clone(),
                    });
            }
            None if drained.is_some() => {
                let why = || "it gets new work".to_owned();
                self.scribe.write(EventKind::WorkerUndrain, id, why);
            }
            Some(_) | None => {}
        }
        let reason = &after.not_accepting;
        if reason != before.map_or("", |worker| &worker.not_accepting) {
            let kind = match reason.is_empty() {
                true => EventKind::WorkerAccepting,
                false => EventKind::WorkerNotAccepting,
            };
            self.scribe.write(kind, id, || reason.clone());
        }
    }

    pub(crate) fn tell_app(&mut self, before: Option<&Application>, after: &Application) {
        if before.map(|app| app.state) != Some(after.state) {
            let why = || match after.state {
                ApplicationState::Waiting => {
                    format!("`{}` of {}", after.spec.name, after.spec.user)
                }
                ApplicationState::Running
                | ApplicationState::Finished
                | ApplicationState::Failed
                | ApplicationState::Killed => after.message.clone(),
            };
            self.scribe
                .write(EventKind::App(after.state), after.id.as_str(), why);
        }
        let Some(before) = before else { return };
        if !same_target(before, after) {
            let why = || format!("{}; was {}", target_words(after), target_words(before));
            self.scribe
                .write(EventKind::AppTarget, after.id.as_str(), why);
        }
    }

    pub(crate) fn tell_driver(&mut self, before: Option<&Driver>, after: &Driver) {
        let at_once = self.now;
        let about = |kind| About {
            kind,
            subject: Arc::from(after.id.as_str()),
            worker: after.worker.clone(),
            attempt: Some(after.attempt).filter(|attempt| attempt.0 > 0),
        };
        let asked = before.is_some_and(|driver| driver.kill_requested);
        if after.kill_requested && !asked && !after.state.is_final() {
            let about = about(EventKind::DriverKillRequested);
            self.scribe.push(about, || "killed by request".to_owned());
        }
        if before.map(|driver| (driver.state, driver.attempt)) != Some((after.state, after.attempt))
        {
            let about = about(EventKind::Driver(after.state));
            self.scribe.push(about, || driver_words(after, at_once));
        }
    }

    pub(crate) fn tell_executor(&mut self, before: Option<&Executor>, after: &Executor) {
        if before.map(|executor| executor.state) == Some(after.state) {
            return;
        }
        let about = About {
            kind: EventKind::Executor(after.state),
            subject: Arc::from(format!("{}/{}", after.app, after.id)),
            worker: Some(after.worker.clone()),
            attempt: None,
        };
        self.scribe.push(about, || match after.state {
            ExecutorState::Launching => {
                format!("{} cores, {} MiB", after.cores.0, after.memory.0)
            }
            ExecutorState::Running
            | ExecutorState::Killing
            | ExecutorState::Decommissioned
            | ExecutorState::Killed
            | ExecutorState::Failed
            | ExecutorState::Lost
            | ExecutorState::Exited => {
                ended_words(after.exit.map(|exit| exit.describe()), &after.message)
            }
        });
    }
}

fn driver_words(driver: &Driver, now: Timestamp) -> String {
    let spec = &driver.spec;
    match driver.state {
        DriverState::Submitted => format!("`{}` of {}", spec.name, spec.user),
        DriverState::Launching => {
            format!("{} cores, {} MiB", spec.cores.0, spec.memory.0)
        }
        DriverState::Running => String::new(),
        DriverState::Relaunching => match driver.not_before {
            Some(at) => format!("{}; again in {:?}", driver.message, at.since(now)),
            None => driver.message.clone(),
        },
        DriverState::Finished | DriverState::Killed | DriverState::Failed | DriverState::Error => {
            ended_words(driver.exit.map(|exit| exit.describe()), &driver.message)
        }
    }
}

/// How a process ended and what was said about it, each once.
fn ended_words(exit: Option<String>, message: &str) -> String {
    match exit {
        Some(exit) if message.is_empty() => exit,
        Some(exit) if !message.contains(&exit) => format!("{exit}; {message}"),
        Some(_) | None => message.to_owned(),
    }
}

/// Whether two versions of an application ask for the same number of executors of each profile.
fn same_target(a: &Application, b: &Application) -> bool {
    let of_profiles = |app: &Application| -> Vec<u32> {
        app.profiles
            .values()
            .map(|profile| profile.wanted)
            .collect()
    };
    a.executors_wanted == b.executors_wanted && of_profiles(a) == of_profiles(b)
}

fn target_words(app: &Application) -> String {
    let mut words = app
        .executors_wanted
        .map_or_else(|| "no limit".to_owned(), |wanted| wanted.to_string());
    for (id, profile) in &app.profiles {
        words.push_str(&format!(", {} of profile {id}", profile.wanted));
    }
    words
}
