//! Looks after the processes that the ledger names while a run goes on: one that is gone without an `END` was killed.
//!
//! Reads only what has been appended since the last look. A pid alone is not enough to know a process again: the time at
//! which it started belongs to it.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use interrex_agent::process::proc::{self, Stat};

use super::{Entry, Event, Ledger, parse};
use crate::live::clock::since_boot_us;

/// Most of the ledger that is read in one look, in bytes; the rest comes with the next.
const LOOK_BYTES_MAX: u64 = 4 << 20;

/// An attempt that was seen to be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::live) struct Gone {
    /// Its start.
    pub(in crate::live) start: Entry,
    /// When that was seen, in microseconds since the machine started; it was gone then, perhaps for a while.
    pub(in crate::live) at_us: u64,
}

/// What is known of the ledger so far.
#[derive(Debug, Default)]
pub(in crate::live) struct Watch {
    read_bytes: u64,
    running: BTreeMap<(String, u32), (Entry, Option<Stat>)>,
    starts: u64,
    ends: u64,
}

// === impl Watch ===

impl Watch {
    /// How many attempts have started, and how many have done their work.
    pub(in crate::live) fn counts(&self) -> (u64, u64) {
        (self.starts, self.ends)
    }

    /// Attempts that run now, as far as the last look goes.
    pub(in crate::live) fn running(&self) -> impl Iterator<Item = &Entry> {
        self.running.values().map(|(entry, _)| entry)
    }

    /// Looks; returns the attempts that are gone since the last look without having done their work. Blocking, for some
    /// milliseconds.
    ///
    /// # Errors
    /// Where the ledger cannot be read, or is not one.
    pub(in crate::live) fn look(&mut self, ledger: &Ledger) -> io::Result<Vec<Gone>> {
        // Before the file is read: what is gone then and has no END by now has none.
        let at_us = since_boot_us();
        let gone: Vec<(String, u32)> = self
            .running
            .iter_mut()
            .filter_map(|(key, (entry, stat))| is_gone(entry, stat).then(|| key.clone()))
            .collect();
        self.read(ledger)?;
        let ended = gone.into_iter().filter_map(|key| {
            let (start, _) = self.running.remove(&key)?;
            Some(Gone { start, at_us })
        });
        Ok(ended.collect())
    }

    fn read(&mut self, ledger: &Ledger) -> io::Result<()> {
        let mut file = match File::open(ledger.file()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(self.read_bytes))?;
        let mut text = String::new();
        file.take(LOOK_BYTES_MAX).read_to_string(&mut text)?;
        let entries = parse(&text).map_err(io::Error::other)?;
        self.read_bytes += text.rfind('\n').map_or(0, |at| at as u64 + 1);
        for entry in entries {
            let key = (entry.field("driver").to_owned(), entry.attempt);
            match entry.event {
                Event::Start => {
                    self.starts += 1;
                    let stat = i32::try_from(entry.pid).ok().and_then(proc::stat);
                    self.running.insert(key, (entry, stat));
                }
                Event::End => {
                    self.ends += 1;
                    self.running.remove(&key);
                }
            }
        }
        Ok(())
    }
}

fn is_gone(entry: &Entry, known: &Option<Stat>) -> bool {
    let now = i32::try_from(entry.pid).ok().and_then(proc::stat);
    match (now, known) {
        (Some(now), Some(known)) => {
            now.start_ticks != known.start_ticks || matches!(now.state, 'Z' | 'X')
        }
        // It was gone already when its start was read.
        (_, None) | (None, Some(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, process::Command};

    use super::*;

    fn start_of(pid: u32, driver: &str) -> Entry {
        Entry {
            submission: "s".into(),
            attempt: 1,
            epoch: 1,
            pid,
            event: Event::Start,
            at_us: 1,
            more: BTreeMap::from([("driver".into(), driver.into())]),
        }
    }

    #[test]
    fn what_was_killed_is_gone_and_what_is_done_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(dir.path());
        let mut killed = Command::new("sleep").arg("60").spawn().unwrap();
        let (one, two) = (
            start_of(killed.id(), "d1"),
            start_of(std::process::id(), "d2"),
        );
        fs::write(ledger.file(), format!("{one}\n{two}\n")).unwrap();
        let mut watch = Watch::default();
        assert_eq!(watch.look(&ledger).unwrap(), []);
        assert_eq!(watch.running().count(), 2);
        killed.kill().unwrap();
        killed.wait().unwrap();
        let mut done = two.clone();
        done.event = Event::End;
        fs::write(ledger.file(), format!("{one}\n{two}\n{done}\n")).unwrap();
        let gone = watch.look(&ledger).unwrap();
        assert_eq!(gone.len(), 1);
        assert_eq!(gone[0].start, one);
        assert_eq!((watch.counts(), watch.running().count()), ((2, 1), 0));
    }
}
