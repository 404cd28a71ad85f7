//! Failovers: how long nobody led, and how long whoever asked meanwhile had to wait.

use std::fmt::Write;

use serde::Serialize;

use super::{
    faults::{FaultSpan, faults},
    leaderships::{Leadership, leaderships},
};
use crate::{
    calls::{Call, Outcome, calls},
    history::{History, Op},
};

/// A submission that begins this long after the election still counts as one that had to wait for it, in microseconds:
/// clients ask again every now and then.
const WAITED_WITHIN: u64 = 250_000;

/// A change of the leader.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failover {
    /// When the old leader was lost, in seconds since the start.
    pub at: f64,
    /// The fault that it was lost by; empty if it stepped down without one.
    pub fault: String,
    /// The old leader.
    pub from: String,
    /// The new one.
    pub to: String,
    /// The new one's epoch.
    pub epoch: u64,
    /// Seconds until the new one led.
    pub leader_after: f64,
    /// Seconds until a submission was acknowledged that waited for it; `None` if none did.
    pub acknowledged_after: Option<f64>,
}

/// All changes of the leader, in order of time; the first leader of a run is none.
#[must_use]
pub fn failovers(history: &History) -> Vec<Failover> {
    let end = history.records().last().map_or(0, |record| record.time);
    let faults = faults(history, end);
    let leaders = leaderships(history, &faults, end);
    let calls = calls(history);
    let submissions: Vec<_> = calls
        .iter()
        .filter(|call| call.op == Op::Submit && call.outcome == Outcome::Ok)
        .collect();
    leaders
        .windows(2)
        .map(|pair| failover(&pair[0], &pair[1], &faults, &submissions))
        .collect()
}

fn failover(
    old: &Leadership,
    new: &Leadership,
    faults: &[FaultSpan],
    submissions: &[&Call<'_>],
) -> Failover {
    // A leader that is stopped or cut off leads nobody, whatever it believes.
    let by = faults
        .iter()
        .filter(|fault| fault.hits(&old.master))
        .filter(|fault| (old.from..=new.from).contains(&fault.from))
        .filter(|fault| fault.to >= old.to.min(new.from))
        .min_by_key(|fault| fault.from);
    let lost = by.map_or(old.to, |fault| fault.from).min(new.from);
    let acknowledged = submissions
        .iter()
        .filter(|call| call.from <= new.from + WAITED_WITHIN)
        .filter_map(|call| call.to)
        .filter(|to| *to >= new.from)
        .min();
    Failover {
        at: seconds(lost),
        fault: by.map_or_else(String::new, |fault| fault.kind.clone()),
        from: old.master.clone(),
        to: new.master.clone(),
        epoch: new.epoch,
        leader_after: seconds(new.from - lost),
        acknowledged_after: acknowledged.map(|at| seconds(at - lost)),
    }
}

/// One line for each, with a header.
pub(super) fn csv(failovers: &[Failover]) -> String {
    let mut text = String::from("at,fault,from,to,epoch,leader_after,acknowledged_after\n");
    for failover in failovers {
        let Failover {
            at,
            fault,
            from,
            to,
            epoch,
            leader_after,
            acknowledged_after,
        } = failover;
        let acknowledged =
            acknowledged_after.map_or_else(String::new, |after| format!("{after:.6}"));
        // Writing to a string cannot fail.
        let _always = writeln!(
            text,
            "{at:.6},{fault},{from},{to},{epoch},{leader_after:.6},{acknowledged}"
        );
    }
    text
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Kind, Record, tests::record};

    fn history() -> History {
        let lead = |time, master: &str, epoch| Record {
            epoch: Some(epoch),
            ..record(time, master, Kind::Info, Op::Lead, "")
        };
        let mut history = History::default();
        history.push(lead(1_000_000, "m1", 1));
        history.push(Record {
            value: json!({"node": "m1", "phase": "begin"}),
            ..record(2_000_000, "nemesis", Kind::Info, Op::Fault, "kill")
        });
        history.push(record(2_100_000, "c1", Kind::Invoke, Op::Submit, "s1"));
        history.push(lead(2_400_000, "m2", 2));
        history.push(record(2_450_000, "c1", Kind::Ok, Op::Submit, "s1"));
        history
    }

    #[test]
    fn a_failover_lasts_from_the_fault_to_the_leader_and_to_the_answer() {
        let found = failovers(&history());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].fault, "kill");
        assert_eq!((found[0].from.as_str(), found[0].to.as_str()), ("m1", "m2"));
        assert!((found[0].leader_after - 0.4).abs() < 1e-9);
        assert_eq!(found[0].acknowledged_after, Some(0.45));
    }

    #[test]
    fn failovers_are_lines_behind_a_header() {
        let text = csv(&failovers(&history()));
        assert_eq!(
            text,
            "at,fault,from,to,epoch,leader_after,acknowledged_after\n\
             2.000000,kill,m1,m2,2,0.400000,0.450000\n"
        );
    }
}
