//! What the timeline shows, before it is drawn: one lane for the leaders, one for each node and for each kind of fault.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    faults::FaultSpan,
    leaderships::Leadership,
    palette::{self, Paint},
};
use crate::{
    calls::{Call, Outcome},
    history::{History, Kind, Op, Record},
};

/// Bars that overlap stand in rows of their own, up to so many; more share the last one.
const ROWS_MAX: usize = 8;
/// Clients that have a lane of their own; more share one.
const CLIENTS_MAX: usize = 8;
/// Masters that have a lane.
const MASTERS_MAX: u32 = 15;
/// Reads that are shown; of more, only those that were not answered.
const READS_MAX: usize = 3_000;

/// Something that lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bar {
    /// From when, in microseconds.
    pub(super) from: u64,
    /// Until when.
    pub(super) to: u64,
    /// In which row of its lane.
    pub(super) row: usize,
    /// How it looks.
    pub(super) paint: Paint,
    /// What stands on it, if there is room.
    pub(super) label: String,
    /// What it says when it is pointed at.
    pub(super) says: String,
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tick {
    /// When, in microseconds.
    pub(super) at: u64,
    /// In which row of its lane.
    pub(super) row: usize,
    /// How it looks.
    pub(super) paint: Paint,
    /// What it says when it is pointed at.
    pub(super) says: String,
}

/// What is shown of one node, or of one kind of fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lane {
    /// Whose it is.
    pub(super) title: String,
    /// Among which it stands: `masters`.
    pub(super) group: &'static str,
    /// How many rows it has; 1 at least.
    pub(super) rows: usize,
    /// Behind everything, over all rows: how the node was.
    pub(super) states: Vec<Bar>,
    /// What lasts.
    pub(super) bars: Vec<Bar>,
    /// What happens.
    pub(super) ticks: Vec<Tick>,
}

/// Everything that lanes are made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) history: &'a History,
    pub(super) calls: &'a [Call<'a>],
    pub(super) faults: &'a [FaultSpan],
    pub(super) leaderships: &'a [Leadership],
    pub(super) end: u64,
}

// === impl Parts ===

impl Parts<'_> {
    /// All lanes, from the top.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        let masters = self.masters();
        let mut lanes = vec![self.leader_lane(&masters)];
        let of_masters = masters.iter().enumerate();
        lanes.extend(of_masters.map(|(n, master)| self.master_lane(n, master)));
        lanes.extend(
            self.agents()
                .into_iter()
                .map(|agent| self.agent_lane(agent)),
        );
        lanes.extend(self.client_lanes());
        lanes.extend(self.fault_lanes());
        lanes
    }

    /// Masters that led, each with the name of its colour.
    pub(super) fn legend(&self) -> Vec<(String, &'static str)> {
        let led = |master: &String| self.leaderships.iter().any(|lead| lead.master == *master);
        let all = self.masters().into_iter().enumerate();
        all.filter(|(_, master)| led(master))
            .map(|(n, master)| (master, palette::leader(n).name()))
            .collect()
    }

    fn masters(&self) -> Vec<String> {
        let led = self.leaderships.iter().map(|lead| lead.master.as_str());
        let hit = self.faults.iter().flat_map(|fault| fault.on.split(' '));
        let named = self.history.records().iter();
        let named = named.map(|record| record.process.as_str());
        let number = |name: &str| name.strip_prefix('m')?.parse::<u32>().ok();
        let known: BTreeSet<_> = led.chain(hit).chain(named).filter_map(number).collect();
        // One that never led and was never hit is known by those that are counted behind it.
        let last = known.last().copied().unwrap_or(0).min(MASTERS_MAX);
        (1..=last).map(|n| format!("m{n}")).collect()
    }

    fn agents(&self) -> Vec<String> {
        let records = self.history.records().iter();
        let records = records.filter(|record| matches!(record.op, Op::Offer | Op::Start));
        sorted(records.map(|record| record.process.as_str()))
    }

    fn leader_lane(&self, masters: &[String]) -> Lane {
        let mut lane = Lane::new("leader", "leader");
        let mut rows = Rows::default();
        for lead in self.leaderships {
            lane.bars.push(Bar {
                from: lead.from,
                to: lead.to,
                row: rows.place(lead.from, lead.to),
                paint: leader_paint(masters, &lead.master),
                label: format!("{} · {}", lead.master, lead.epoch),
                says: format!(
                    "{} leads in epoch {}, {}",
                    lead.master,
                    lead.epoch,
                    span(lead.from, lead.to)
                ),
            });
        }
        lane.rows = rows.count();
        lane
    }

    fn master_lane(&self, n: usize, master: &str) -> Lane {
        let mut lane = Lane::new(master, "masters");
        lane.states = self.states(master);
        let led = self.leaderships.iter();
        for lead in led.filter(|lead| lead.master == master) {
            lane.bars.push(Bar {
                from: lead.from,
                to: lead.to,
                row: 0,
                paint: palette::leader(n),
                label: format!("leads, {}", lead.epoch),
                says: format!(
                    "{master} leads in epoch {}, {}",
                    lead.epoch,
                    span(lead.from, lead.to)
                ),
            });
        }
        lane
    }

    fn agent_lane(&self, agent: String) -> Lane {
        let mut lane = Lane::new(&agent, "agents");
        lane.states = self.states(&agent);
        let mut running: BTreeMap<(&str, u32), &Record> = BTreeMap::new();
        let mut ran: Vec<(&Record, u64, Option<bool>)> = Vec::new();
        for record in self.history.records() {
            if record.process != agent {
                continue;
            }
            let key = (record.id.as_str(), record.attempt.unwrap_or(0));
            if record.op == Op::Start {
                running.insert(key, record);
            } else if record.op == Op::End
                && let Some(start) = running.remove(&key)
            {
                ran.push((start, record.time, Some(record.flag("success"))));
            }
        }
        ran.extend(running.into_values().map(|start| (start, self.end, None)));
        ran.sort_by_key(|(start, to, _)| (start.time, *to));
        let mut rows = Rows::default();
        for (start, to, success) in ran {
            lane.bars.push(Bar {
                from: start.time,
                to,
                row: rows.place(start.time, to),
                paint: process_paint(start, success),
                label: String::new(),
                says: process_says(start, to, success),
            });
        }
        lane.rows = rows.count();
        lane
    }

    /// Dead, stopped, cut off: from what hit it, and from when its process ran.
    fn states(&self, node: &str) -> Vec<Bar> {
        let mut states = self.broken(node);
        let mut down: Option<&Record> = None;
        for record in self.history.records() {
            if record.process != node {
                continue;
            }
            if record.op == Op::Down {
                down = down.or(Some(record));
            } else if record.op == Op::Up
                && let Some(since) = down.take()
            {
                states.push(away(since, record.time));
            }
        }
        states.extend(down.map(|since| away(since, self.end)));
        states
    }

    fn broken(&self, node: &str) -> Vec<Bar> {
        // A link that is cut says little of its ends.
        let hits = self
            .faults
            .iter()
            .filter(|fault| fault.hits(node) && !fault.on.contains(' '))
            .filter(|fault| fault.kills() || fault.stops() || fault.cuts());
        let bar = |fault: &FaultSpan| Bar {
            from: fault.from,
            to: fault.to,
            row: 0,
            paint: fault_paint(fault),
            label: String::new(),
            says: format!("{node}: {}, {}", fault.kind, span(fault.from, fault.to)),
        };
        hits.map(bar).collect()
    }

    fn client_lanes(&self) -> Vec<Lane> {
        let clients = sorted(self.calls.iter().map(|call| call.process));
        let shared = clients.len() > CLIENTS_MAX;
        let titles = if shared {
            vec![format!("{} clients", clients.len())]
        } else {
            clients
        };
        let mut lanes: Vec<_> = titles
            .iter()
            .map(|title| Lane::new(title, "clients"))
            .collect();
        let reads = self.calls.iter().filter(|call| call.op == Op::Status);
        let few_reads = reads.count() <= READS_MAX;
        for call in self.calls {
            let n = titles.iter().position(|title| title == call.process);
            let Some(lane) = lanes.get_mut(n.unwrap_or(0)) else {
                continue;
            };
            let read = call.op == Op::Status;
            if read && call.outcome == Outcome::Ok && !few_reads {
                continue;
            }
            lane.ticks.push(Tick {
                at: call.from,
                row: usize::from(read),
                paint: call_paint(call),
                says: call_says(call),
            });
            lane.rows = lane.rows.max(1 + usize::from(read));
        }
        lanes
    }

    fn fault_lanes(&self) -> Vec<Lane> {
        let kinds: BTreeSet<_> = self
            .faults
            .iter()
            .map(|fault| fault.kind.as_str())
            .collect();
        kinds
            .into_iter()
            .map(|kind| self.fault_lane(kind))
            .collect()
    }

    fn fault_lane(&self, kind: &str) -> Lane {
        let mut lane = Lane::new(kind, "faults");
        let mut rows = Rows::default();
        for fault in self.faults.iter().filter(|fault| fault.kind == kind) {
            let says = match fault.on.as_str() {
                "" => format!("{kind}, {}", span(fault.from, fault.to)),
                on => format!("{kind} on {on}, {}", span(fault.from, fault.to)),
            };
            let paint = fault_paint(fault);
            if fault.to > fault.from {
                lane.bars.push(Bar {
                    from: fault.from,
                    to: fault.to,
                    row: rows.place(fault.from, fault.to),
                    paint,
                    label: fault.on.clone(),
                    says,
                });
            } else {
                lane.ticks.push(Tick {
                    at: fault.from,
                    row: 0,
                    paint,
                    says,
                });
            }
        }
        lane.rows = rows.count();
        lane
    }
}

// === impl Lane ===

impl Lane {
    fn new(title: &str, group: &'static str) -> Self {
        Self {
            title: title.to_owned(),
            group,
            rows: 1,
            states: Vec::new(),
            bars: Vec::new(),
            ticks: Vec::new(),
        }
    }
}

/// Finds rows for bars, so that they do not cover each other.
#[derive(Debug, Default)]
struct Rows {
    free_at: Vec<u64>,
}

// === impl Rows ===

impl Rows {
    fn place(&mut self, from: u64, to: u64) -> usize {
        let free = self.free_at.iter().position(|at| *at <= from);
        let row = match free {
            Some(row) => row,
            None if self.free_at.len() < ROWS_MAX => {
                self.free_at.push(0);
                self.free_at.len() - 1
            }
            None => ROWS_MAX - 1,
        };
        self.free_at[row] = to.max(from + 1);
        row
    }

    fn count(&self) -> usize {
        self.free_at.len().max(1)
    }
}

/// In the order in which people count: m2 before m10.
fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let unique: BTreeSet<_> = names.map(|name| (name.len(), name)).collect();
    unique
        .into_iter()
        .filter(|(length, _)| *length > 0)
        .map(|(_, name)| name.to_owned())
        .collect()
}

/// A node without a process.
fn away(since: &Record, until: u64) -> Bar {
    let (from, node) = (since.time, &since.process);
    let how = since.text("how");
    Bar {
        from,
        to: until,
        row: 0,
        paint: palette::DOWN,
        label: String::new(),
        says: format!("{node}: no process, {} {how}", span(from, until)),
    }
}

fn leader_paint(masters: &[String], master: &str) -> Paint {
    let n = masters.iter().position(|known| known == master);
    palette::leader(n.unwrap_or(0))
}

fn fault_paint(fault: &FaultSpan) -> Paint {
    if fault.kills() {
        palette::DOWN
    } else if fault.stops() {
        palette::STOPPED
    } else if fault.cuts() {
        palette::CUT
    } else {
        palette::FAULT
    }
}

fn process_paint(start: &Record, success: Option<bool>) -> Paint {
    match success {
        Some(false) if !start.text("submission").is_empty() => palette::FAIL,
        Some(_) | None if start.text("submission").is_empty() => palette::EXECUTOR,
        Some(_) | None => palette::WORK,
    }
}

fn process_says(start: &Record, to: u64, success: Option<bool>) -> String {
    let how = match success {
        Some(true) => "ended with success",
        Some(false) => "ended without success",
        None => "still runs at the end",
    };
    let attempt = start.attempt.unwrap_or(0);
    let submission = match start.text("submission") {
        "" => String::new(),
        submission => format!(" ({submission})"),
    };
    let span = span(start.time, to);
    format!("{}, attempt {attempt}{submission}, {span}: {how}", start.id)
}

fn call_paint(call: &Call<'_>) -> Paint {
    match call.outcome {
        Outcome::Ok if call.op == Op::Status => palette::READ,
        Outcome::Ok => palette::OK,
        Outcome::Fail => palette::FAIL,
        Outcome::Unknown => palette::UNKNOWN,
    }
}

fn call_says(call: &Call<'_>) -> String {
    let (process, op, id) = (call.process, word(call.op), call.id);
    let asked = format!("{process}: {op} {id} at {}", seconds(call.from));
    let Some(to) = call.to else {
        return format!("{asked}, never answered");
    };
    let took = (to.saturating_sub(call.from)) as f64 / 1e3;
    let said = match call.last.text("state") {
        "" => call.last.text("reason"),
        state => state,
    };
    let outcome = match call.last.kind {
        Kind::Ok | Kind::Fail | Kind::Unknown => call.outcome.name(),
        Kind::Invoke | Kind::Info => "open",
    };
    format!("{asked}: {outcome} after {took:.1} ms {said}")
        .trim_end()
        .to_owned()
}

/// The name of an operation, as a history has it.
pub(super) fn word(op: Op) -> String {
    let name = serde_json::to_value(op).ok();
    let name = name.as_ref().and_then(serde_json::Value::as_str);
    name.unwrap_or_default().replace('_', " ")
}

/// A moment, for people.
pub(super) fn seconds(micros: u64) -> String {
    format!("{:.3} s", micros as f64 / 1e6)
}

fn span(from: u64, to: u64) -> String {
    let (from, to) = (from as f64 / 1e6, to as f64 / 1e6);
    format!("{from:.3} to {to:.3} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_overlap_stand_in_rows_and_rows_are_used_again() {
        let mut rows = Rows::default();
        let places: Vec<_> = [(0, 10), (5, 8), (8, 12), (10, 11)]
            .into_iter()
            .map(|(from, to)| rows.place(from, to))
            .collect();
        assert_eq!(places, [0, 1, 1, 0]);
        for _ in 0..100 {
            rows.place(20, 30);
        }
        assert_eq!(rows.count(), ROWS_MAX);
    }

    #[test]
    fn nodes_are_sorted_as_people_count() {
        let names = sorted(["m10", "m2", "m1", "m2", ""].into_iter());
        assert_eq!(names, ["m1", "m2", "m10"]);
    }
}
