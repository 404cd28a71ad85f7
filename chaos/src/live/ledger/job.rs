//! The work of a live run: says that it begins, takes its time, says that it is done.
//!
//! It runs as a driver, started by an agent. A line is one write to a file that is only appended to, so lines of
//! different processes do not mix. One that is killed leaves no `END`; its locks are given back by the kernel all the same.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use super::{Entry, Event, Ledger};
use crate::live::clock::since_boot_us;

/// What an attempt does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The submission that it belongs to.
    pub submission: String,
    /// How long its work takes.
    pub work: Duration,
    /// Cores that its worker offers.
    pub offered: u32,
    /// Memory that it was submitted with, in MiB.
    pub memory_mib: u64,
    /// Attempts up to this one fail with exit code 1.
    pub failures: u32,
}

/// Locks that are held for as long as the process lives.
#[derive(Debug)]
struct Held {
    alone: bool,
    slots: Vec<u32>,
    short: u32,
    _files: Vec<File>,
}

// === impl Job ===

impl Job {
    /// Runs it as the process that an agent has started, and returns its exit code.
    ///
    /// # Errors
    /// Where the ledger cannot be written: then nothing has been done.
    pub fn run(&self, ledger: &Ledger) -> io::Result<u8> {
        let variable = |name: &str| std::env::var(format!("INTERREX_{name}")).unwrap_or_default();
        let number = |name: &str| variable(name).parse().unwrap_or(0);
        let worker = std::env::current_dir()
            .ok()
            .and_then(|dir| worker_of(&dir))
            .unwrap_or_default();
        let cores = u32::try_from(number("CORES")).unwrap_or(1);
        let held = Held::take(ledger, &self.submission, &worker, cores, self.offered)?;
        let mut entry = Entry {
            submission: self.submission.clone(),
            attempt: u32::try_from(number("ATTEMPT")).unwrap_or(0),
            epoch: number("EPOCH"),
            pid: std::process::id(),
            event: Event::Start,
            at_us: since_boot_us(),
            more: BTreeMap::from([
                ("driver".to_owned(), variable("DRIVER_ID")),
                ("worker".to_owned(), worker),
            ]),
        };
        let mut start = entry.clone();
        let slots: Vec<String> = held.slots.iter().map(u32::to_string).collect();
        start.more.extend([
            ("cores".to_owned(), cores.to_string()),
            ("memory".to_owned(), self.memory_mib.to_string()),
            ("alone".to_owned(), u8::from(held.alone).to_string()),
            ("short".to_owned(), held.short.to_string()),
            ("slots".to_owned(), slots.join(",")),
        ]);
        append(ledger, &start)?;
        std::thread::sleep(self.work);
        let code = u8::from(entry.attempt <= self.failures);
        entry.event = Event::End;
        entry.at_us = since_boot_us();
        entry.more.insert("code".to_owned(), code.to_string());
        append(ledger, &entry)?;
        Ok(code)
    }
}

/// Agents run a driver in `<work directory>/<driver>`, and work directories are named after their agents.
fn worker_of(dir: &Path) -> Option<String> {
    Some(dir.parent()?.file_name()?.to_string_lossy().into_owned())
}

fn append(ledger: &Ledger, entry: &Entry) -> io::Result<()> {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(ledger.file())?;
    file.write_all(format!("{entry}\n").as_bytes())
}

// === impl Held ===

impl Held {
    fn take(
        ledger: &Ledger,
        submission: &str,
        worker: &str,
        cores: u32,
        offered: u32,
    ) -> io::Result<Self> {
        let running = lock(&ledger.running(submission))?;
        let mut held = Self {
            alone: running.is_some(),
            slots: Vec::new(),
            short: cores,
            _files: running.into_iter().collect(),
        };
        for number in 0..offered {
            if held.short == 0 {
                break;
            }
            if let Some(file) = lock(&ledger.core(worker, number))? {
                held._files.push(file);
                held.slots.push(number);
                held.short -= 1;
            }
        }
        Ok(held)
    }
}

/// The file, locked; `None` where another process has the lock.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_beside_another_attempt_or_on_too_few_cores_is_told_by_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(dir.path());
        ledger.create().unwrap();
        let take = |submission, cores| Held::take(&ledger, submission, "w1", cores, 4).unwrap();
        let first = take("s-1", 3);
        assert_eq!((first.alone, first.short), (true, 0));
        let second = take("s-1", 2);
        assert_eq!((second.alone, second.short), (false, 1));
        drop((first, second));
        let third = take("s-1", 4);
        assert_eq!((third.alone, third.short), (true, 0));
    }

    #[test]
    fn the_worker_is_the_one_that_the_work_directory_is_named_after() {
        let dir = Path::new("/run/w3/driver-20260101-1");
        assert_eq!(worker_of(dir).as_deref(), Some("w3"));
    }
}
