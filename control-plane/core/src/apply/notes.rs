//! Decisions that change nothing and are told all the same: refusals, repeats, reports of no interest, elections.
//!
//! Each kind has an allowance of its own, so that a flood of bad input cannot push everything else out of the event
//! log: what exceeds it is counted, and the number is told with the next one.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    command::{Command, Subject},
    event::{EventKind, Who},
    ids::RequestId,
    state::{
        cluster::{ClusterState, Ignored},
        meta::RecoveryState,
    },
    time::Timestamp,
    transition::{Rejection, Reply},
};

/// Notes of one kind that may come at once.
const NOTES_BURST: u32 = 20;
/// One more note of a kind may come each time this has passed.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// Unusable records that are named after an election; further ones are counted.
const QUARANTINED_SHOWN_MAX: usize = 10;

/// How many more notes of each kind may be told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    allowances: BTreeMap<EventKind, Allowance>,
    /// Some kind has notes that were not told.
    owes: bool,
}

#[derive(Debug, Clone)]
struct Allowance {
    left: u32,
    /// When one was added last.
    since: Timestamp,
    untold: u64,
}

/// What has to be known of a command once it has been carried out.
pub(crate) struct Cause {
    subject: String,
    /// It is a worker's registration.
    registers: bool,
    ignored: Ignored,
    recovery: RecoveryState,
    ticks: bool,
}

// === impl Notes ===

impl Notes {
    /// Whether one more of this kind may be told, and how many were not told before it.
    fn allow(&mut self, kind: &EventKind, now: Timestamp) -> Option<u64> {
        let allowance = self
            .allowances
            .entry(kind.clone())
            .or_insert_with(|| Allowance {
                left: NOTES_BURST,
                since: now,
                untold: 0,
            });
        allowance.refill(now);
        if allowance.left == 0 {
            allowance.untold += 1;
            self.owes = true;
            return None;
        }
        allowance.left -= 1;
        Some(std::mem::take(&mut allowance.untold))
    }

    /// What was not told and may be now.
    fn settle(&mut self, now: Timestamp) -> Vec<(EventKind, u64)> {
        if !self.owes {
            return Vec::new();
        }
        let mut told = Vec::new();
        self.owes = false;
        for (kind, allowance) in &mut self.allowances {
            allowance.refill(now);
            if allowance.untold > 0 && allowance.left > 0 {
                allowance.left -= 1;
                told.push((kind.clone(), std::mem::take(&mut allowance.untold)));
            }
            self.owes |= allowance.untold > 0;
        }
        told
    }
}

// === impl Allowance ===

impl Allowance {
    fn refill(&mut self, now: Timestamp) {
        let steps = now.since(self.since).as_millis() / NOTE_EVERY.as_millis();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        if steps > 0 {
            self.left = self.left.saturating_add(steps).min(NOTES_BURST);
            self.since = self.since.plus(NOTE_EVERY.saturating_mul(steps)).min(now);
        }
    }
}

// === impl ClusterState ===

impl ClusterState {
    /// Before a command is carried out.
    pub(super) fn begin_notes(&mut self, command: &Command) -> Cause {
        self.scribe.begin(self.now, Who::of(command));
        Cause {
            subject: subject(command),
            registers: matches!(command, Command::RegisterWorker { .. }),
            ignored: self.ignored,
            recovery: self.recovery.state,
            ticks: matches!(command, Command::Tick),
        }
    }

    /// After it: what it did not change, and what the scheduler does next is the leader's doing.
    pub(super) fn note_outcome(&mut self, cause: Cause, reply: &Reply) {
        self.note_reply(&cause, reply);
        for (kind, before, now) in [
            (
                EventKind::ReportStale,
                cause.ignored.stale,
                self.ignored.stale,
            ),
            (
                EventKind::ReportUnknown,
                cause.ignored.unknown,
                self.ignored.unknown,
            ),
        ] {
            let count = now.saturating_sub(before);
            if count > 0 {
                self.note(kind, &cause.subject, || match count {
                    1 => "it is not about what is recorded as running there".to_owned(),
                    _ => format!("{count} reports are not about what is recorded as running there"),
                });
            }
        }
        self.scribe.hand_to(Who::Leader);
        if cause.recovery != self.recovery.state && self.recovery.state == RecoveryState::Alive {
            let timely = cause.recovery == RecoveryState::Recovering;
            self.scribe.write(EventKind::RecoveryEnded, "cluster", || {
                match timely {
                    true => "every known worker and application has answered",
                    false => "who is still silent is left to its own timeout",
                }
                .to_owned()
            });
        }
        if cause.ticks {
            for (kind, count) in self.notes.settle(self.now) {
                self.scribe.write(kind, "cluster", || {
                    format!("{count} more like those before")
                });
            }
        }
    }

    fn note_reply(&mut self, cause: &Cause, reply: &Reply) {
        match reply {
            Reply::Rejected(rejection) => {
                let kind = if matches!(rejection, Rejection::Conflict { .. }) {
                    EventKind::RequestConflict
                } else if cause.registers {
                    EventKind::WorkerRefused
                } else {
                    EventKind::RequestRefused
                };
                self.note(kind, &cause.subject, || rejection.to_string());
            }
            Reply::DriverSubmitted {
                driver,
                replayed: true,
            } => self.note(EventKind::RequestReplayed, &cause.subject, || {
                format!("it has created {}", driver.id)
            }),
            Reply::Done
            | Reply::WorkerRegistered
            | Reply::AppRegistered { .. }
            | Reply::DriverSubmitted { .. }
            | Reply::DriverKilled { .. }
            | Reply::AppKilled { .. }
            | Reply::Count(_) => {
                if self.scribe.replays > 0 {
                    self.note(EventKind::RequestReplayed, &cause.subject, || {
                        "it has done its work before".to_owned()
                    });
                }
            }
        }
    }

    /// Tells of something that changed nothing, within the allowance of its kind.
    fn note(&mut self, kind: EventKind, subject: &str, why: impl FnOnce() -> String) {
        let Some(untold) = self.notes.allow(&kind, self.now) else {
            return;
        };
        self.scribe.write(kind, subject, || match untold {
            0 => why(),
            _ => format!("{} ({untold} more like it were not told)", why()),
        });
    }

    pub(super) fn take_over(
        &mut self,
        master: &str,
        found: String,
        quarantined: Vec<String>,
    ) -> Reply {
        self.scribe
            .write(EventKind::LeaderElected, master, || found);
        let more = quarantined.len().saturating_sub(QUARANTINED_SHOWN_MAX);
        for (place, record) in quarantined
            .into_iter()
            .take(QUARANTINED_SHOWN_MAX)
            .enumerate()
        {
            let last = place + 1 == QUARANTINED_SHOWN_MAX && more > 0;
            self.scribe
                .write(EventKind::RecordQuarantined, master, || match last {
                    true => format!("{record} (and {more} more)"),
                    false => record,
                });
        }
        Reply::Done
    }
}

/// What a command is about, if it comes to nothing.
fn subject(command: &Command) -> String {
    let of_request = |request: Option<&RequestId>| {
        request.map_or_else(|| "cluster".to_owned(), ToString::to_string)
    };
    match command {
        Command::RegisterWorker { worker, .. }
        | Command::AcceptingChanged { worker, .. }
        | Command::WorkerDisconnected { worker }
        | Command::ExpireWorker { worker } => worker.to_string(),
        Command::Report { report, .. } => match &report.subject {
            Subject::Driver { driver, .. } => driver.to_string(),
            Subject::Executor { app, executor } => format!("{app}/{executor}"),
        },
        Command::RegisterApplication { request, .. } | Command::SubmitDriver { request, .. } => {
            request.to_string()
        }
        Command::UnregisterApplication { app, .. }
        | Command::ExpireApplication { app }
        | Command::RequestExecutors { app, .. }
        | Command::KillExecutors { app, .. } => app.to_string(),
        Command::Kill { id, .. } => id.clone(),
        Command::KillAllDrivers { request }
        | Command::ClearCompleted { request }
        | Command::DrainWorkers { request, .. }
        | Command::UndrainWorkers { request, .. } => {
            of_request(request.as_ref().map(|request| &request.id))
        }
        Command::Tick | Command::Initialize { .. } | Command::TakeOver { .. } => {
            "cluster".to_owned()
        }
    }
}
