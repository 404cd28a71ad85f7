//! Reports that no master has acknowledged yet.
//!
//! [`Outbox`] is pure: it numbers reports, says which are due to be sent, and forgets them when they are
//! acknowledged. Results (a process ended, was killed, could not start) are also written to disk by the pump
//! ([`store`]), before they are sent for the first time, so that a true exit code outlives the agent.
//!
//! One report a piece of work: a newer one replaces an older one that is not acknowledged yet, because what a process
//! has become says all about what it was.

pub mod store;

use std::{collections::BTreeMap, time::Duration};

use interrex_proto::v1::{ProcessState, WorkReport, work_report};

use crate::process::WorkKey;

/// Most unacknowledged reports with which a new launch is still taken. With the results of all that runs then there
/// are never more than [`WORK_MAX`](crate::worker::WORK_MAX) above this, and all of them fit into one registration.
pub const REPORTS_MAX: usize = 2_000;
/// How long a report may stay unacknowledged until it is sent again.
pub const RESEND_AFTER: Duration = Duration::from_secs(5);
/// How long a report waits that the session had no room for.
pub const BUSY_RETRY: Duration = Duration::from_millis(200);
/// How long a result waits that could not be written to disk.
pub const STORE_RETRY: Duration = Duration::from_secs(5);

/// Where a report stands with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// Not a result; lives in memory only.
    Volatile,
    /// Being written; not sent until that is over.
    Writing,
    /// On disk.
    Stored,
    /// Could not be written; sent all the same, and written again at this time.
    Failed { retry_at: Duration },
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    key: WorkKey,
    report: WorkReport,
    durability: Durability,
    /// When it is to be sent (again).
    due_at: Duration,
}

/// The unacknowledged reports of one agent. Times are those of the machine's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbox {
    next: u64,
    entries: BTreeMap<u64, Entry>,
    by_key: BTreeMap<WorkKey, u64>,
}

/// What an acknowledgement took out.
#[derive(Debug, Clone, PartialEq)]
pub struct Acknowledged {
    /// Its number.
    pub sequence: u64,
    /// What it was about.
    pub key: WorkKey,
    /// What it said.
    pub body: work_report::Body,
    /// Whether it said the last thing about its work.
    pub result: bool,
}

/// Whether a report says the last thing about its work.
#[must_use]
pub fn is_result(body: &work_report::Body) -> bool {
    match state_of(body) {
        ProcessState::Exited | ProcessState::Killed | ProcessState::Failed => true,
        ProcessState::Running | ProcessState::Unspecified => false,
    }
}

/// What a report is about.
#[must_use]
pub fn key_of(body: &work_report::Body) -> WorkKey {
    match body {
        work_report::Body::Driver(driver) => WorkKey::driver(&driver.driver_id, driver.attempt),
        work_report::Body::Executor(executor) => {
            WorkKey::executor(&executor.app_id, executor.executor_id)
        }
    }
}

fn state_of(body: &work_report::Body) -> ProcessState {
    match body {
        work_report::Body::Driver(driver) => driver.state(),
        work_report::Body::Executor(executor) => executor.state(),
    }
}

// === impl Outbox ===

impl Outbox {
    /// An empty outbox whose numbers rise from `first`, which is larger than any that this work directory has seen.
    #[must_use]
    pub fn new(first: u64) -> Self {
        Self {
            next: first,
            entries: BTreeMap::new(),
            by_key: BTreeMap::new(),
        }
    }

    /// Puts back a result that was found on disk.
    pub fn restore(&mut self, report: WorkReport) {
        let Some(body) = report.body.as_ref() else {
            return;
        };
        let (key, sequence) = (key_of(body), report.sequence);
        self.next = self.next.max(sequence.saturating_add(1));
        let due_at = Duration::ZERO;
        let entry = Entry {
            key: key.clone(),
            report,
            durability: Durability::Stored,
            due_at,
        };
        self.by_key.insert(key, sequence);
        self.entries.insert(sequence, entry);
    }

    /// A number that no report has and no other call returns: larger than all before.
    pub fn number(&mut self) -> u64 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        number
    }

    /// Adds a report, in place of an older one about the same work. Returns the report where it must be written to
    /// disk, and the number of a written one that it replaces.
    pub fn add(
        &mut self,
        body: work_report::Body,
        now: Duration,
    ) -> (Option<WorkReport>, Option<u64>) {
        let sequence = self.number();
        let key = key_of(&body);
        let durable = is_result(&body);
        let report = WorkReport {
            sequence,
            body: Some(body),
        };
        let durability = if durable {
            Durability::Writing
        } else {
            Durability::Volatile
        };
        let replaced = self.by_key.insert(key.clone(), sequence).filter(|older| {
            self.entries
                .remove(older)
                .is_some_and(|entry| entry.on_disk())
        });
        self.entries.insert(
            sequence,
            Entry {
                key,
                report: report.clone(),
                durability,
                due_at: now,
            },
        );
        (durable.then_some(report), replaced)
    }

    /// The unacknowledged report about `key`, if it is a result.
    #[must_use]
    pub fn has_result(&self, key: &WorkKey) -> bool {
        self.entry(key).is_some_and(|entry| entry.is_result())
    }

    /// What the unacknowledged results are about.
    pub fn result_keys(&self) -> impl Iterator<Item = &WorkKey> {
        self.entries
            .values()
            .filter(|entry| entry.is_result())
            .map(|entry| &entry.key)
    }

    /// Whether anything about `key` is unacknowledged.
    #[must_use]
    pub fn contains(&self, key: &WorkKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Makes the report about `key` due now. False where there is none.
    pub fn send_again(&mut self, key: &WorkKey, now: Duration) -> bool {
        let found = self
            .by_key
            .get(key)
            .and_then(|sequence| self.entries.get_mut(sequence));
        found.is_some_and(|entry| {
            entry.due_at = now;
            true
        })
    }

    /// The highest attempt of `driver_id` above `attempt` that something is known of.
    #[must_use]
    pub fn later_attempt(&self, driver_id: &str, attempt: u32) -> Option<u32> {
        later_attempt(self.by_key.keys_range(driver_id, attempt))
    }

    /// A result was written to disk, or could not be.
    pub fn stored(&mut self, sequence: u64, stored: bool, now: Duration) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.durability = if stored {
                Durability::Stored
            } else {
                Durability::Failed {
                    retry_at: now + STORE_RETRY,
                }
            };
        }
    }

    /// The session had no room for a report that was due.
    pub fn not_sent(&mut self, sequence: u64, now: Duration) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.due_at = now + BUSY_RETRY;
        }
    }

    /// Takes out an acknowledged report; `None` where it is not here (any more).
    pub fn acknowledge(&mut self, sequence: u64) -> Option<Acknowledged> {
        let entry = self.entries.remove(&sequence)?;
        if self.by_key.get(&entry.key) == Some(&sequence) {
            self.by_key.remove(&entry.key);
        }
        let result = entry.is_result();
        Some(Acknowledged {
            sequence,
            key: entry.key,
            body: entry.report.body?,
            result,
        })
    }

    /// The reports to send now; they are due again after [`RESEND_AFTER`].
    pub fn take_due(&mut self, now: Duration) -> Vec<WorkReport> {
        let mut due = Vec::new();
        for entry in self.entries.values_mut() {
            if entry.durability != Durability::Writing && entry.due_at <= now {
                entry.due_at = now + RESEND_AFTER;
                due.push(entry.report.clone());
            }
        }
        due
    }

    /// The results to write again now.
    pub fn take_unstored(&mut self, now: Duration) -> Vec<WorkReport> {
        let mut due = Vec::new();
        for entry in self.entries.values_mut() {
            if let Durability::Failed { retry_at } = entry.durability
                && retry_at <= now
            {
                entry.durability = Durability::Failed {
                    retry_at: now + STORE_RETRY,
                };
                due.push(entry.report.clone());
            }
        }
        due
    }

    /// Everything, for a registration. Results that are still being written are part of it: a registration that knew
    /// neither the process nor its result would make a master believe that both are lost.
    pub fn for_registration(&self) -> Vec<WorkReport> {
        self.entries
            .values()
            .map(|entry| entry.report.clone())
            .collect()
    }

    /// When something is due: to be sent (where `attached`) or to be written.
    #[must_use]
    pub fn next_due(&self, attached: bool) -> Option<Duration> {
        let due = |entry: &Entry| match entry.durability {
            Durability::Writing => None,
            Durability::Failed { retry_at } if !attached => Some(retry_at),
            Durability::Failed { retry_at } => Some(retry_at.min(entry.due_at)),
            Durability::Volatile | Durability::Stored => attached.then_some(entry.due_at),
        };
        self.entries.values().filter_map(due).min()
    }

    /// How many reports are unacknowledged.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether everything is acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn entry(&self, key: &WorkKey) -> Option<&Entry> {
        self.entries.get(self.by_key.get(key)?)
    }
}

// === impl Entry ===

impl Entry {
    fn is_result(&self) -> bool {
        self.durability != Durability::Volatile
    }

    fn on_disk(&self) -> bool {
        self.is_result()
    }
}

/// Maps by [`WorkKey`] that can list the later attempts of a driver.
pub(crate) trait ByWorkKey {
    /// The keys of attempts of `driver_id` above `attempt`, rising.
    fn keys_range(
        &self,
        driver_id: &str,
        attempt: u32,
    ) -> impl DoubleEndedIterator<Item = &WorkKey>;
}

impl<V> ByWorkKey for BTreeMap<WorkKey, V> {
    fn keys_range(
        &self,
        driver_id: &str,
        attempt: u32,
    ) -> impl DoubleEndedIterator<Item = &WorkKey> {
        let from = WorkKey::driver(driver_id, attempt);
        let to = WorkKey::driver(driver_id, u32::MAX);
        self.range((
            std::ops::Bound::Excluded(from),
            std::ops::Bound::Included(to),
        ))
        .map(|(key, _)| key)
    }
}

pub(crate) fn later_attempt<'keys>(
    mut keys: impl DoubleEndedIterator<Item = &'keys WorkKey>,
) -> Option<u32> {
    match keys.next_back()? {
        WorkKey::Driver { attempt, .. } => Some(*attempt),
        WorkKey::Executor { .. } => None,
    }
}
