//! A client of a live run, as a process of its own: it submits, repeats, kills and asks, and writes down what it was told.
//!
//! Its part of the history is a file that it alone appends to, one write a line, so that what it did is known however it
//! ends. A request that it has begun and not finished when it is killed has an unknown outcome; the harness adds that.

mod one;
mod requests;
mod rest;
mod submitter;

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

use super::{clock::Clock, work::Site};
use crate::history::{Kind, Op, Record};

pub use one::{Hold, OneRequest, run_one};
pub use submitter::{SubmitterOptions, run_submitter};

pub(super) use requests::{Requests, Told};
pub(super) use submitter::is_over;

/// What every client is given.
#[derive(Debug, Clone)]
pub struct ClientPlace {
    /// Its name: `c1`.
    pub name: String,
    /// The masters, behind their proxies.
    pub masters: Vec<String>,
    /// The masters' REST addresses, if it submits over REST; else empty.
    pub rest: Vec<String>,
    /// When the run began, in microseconds since the machine started.
    pub began_us: u64,
    /// Where its part of the history goes.
    pub history: PathBuf,
    /// What it submits.
    pub site: Site,
}

/// A part of a history that is being written. Clones write to the same one.
#[derive(Debug, Clone)]
pub(super) struct Notes {
    name: String,
    clock: Clock,
    file: Arc<Mutex<File>>,
}

// === impl Notes ===

impl Notes {
    pub(super) fn open(name: &str, clock: Clock, path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self {
            name: name.to_owned(),
            clock,
            file: Arc::new(Mutex::new(file)),
        })
    }

    /// Writes a record; one that cannot be written is lost, which the checks would take for a loss of the cluster's, so
    /// the error is the caller's end.
    pub(super) fn note(
        &self,
        kind: Kind,
        op: Op,
        id: &str,
        attempt: Option<u32>,
        value: Value,
    ) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // The time is taken under the lock, so that lines are in order.
        let record = Record {
            time: self.clock.now(),
            process: self.name.clone(),
            kind,
            op,
            id: id.to_owned(),
            attempt,
            epoch: None,
            value,
        };
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}
