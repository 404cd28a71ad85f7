//! Linearizable reads, judged by stateright's tester: for each submission there is an order of all its requests, as they
//! overlapped, in which every answer is what one copy of it would have said.
//!
//! The search for such an order can take for ever, so it is bounded twice. A history is cut where no request about the
//! submission is under way: what one copy knows there is the latest that was read, so the parts can be judged one after
//! the other. And a search that has tried too much is given up: the verdict is open then, never good. [`super::reads`]
//! judges the same with a rule that needs no search, and misses what overlaps.

use std::{cell::Cell, collections::BTreeMap, rc::Rc};

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use super::{
    Violation,
    reads::{Progress, progress},
    violation,
};
use crate::{
    calls::{Call, Outcome, calls},
    history::{History, Op},
};

/// Steps of one search.
const STEPS_MAX: u64 = 5_000;
/// Requests in one part; more are not searched.
const REQUESTS_MAX: usize = 48;

/// What somebody asks about a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Submit,
    Read,
}

/// What the answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Accepted,
    Shows(Option<Progress>),
}

/// One copy of a submission. It goes on by itself, forward only.
#[derive(Debug, Clone, Default)]
struct OneCopy {
    known: bool,
    at: Option<Progress>,
    steps: Rc<Cell<u64>>,
}

/// A request about the submission.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    call: &'a Call<'a>,
    /// `None`: nobody knows whether it was done.
    said: Option<Said>,
}

/// Whether an order exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Order,
    NoOrder,
    GivenUp,
}

type Tester = LinearizabilityTester<usize, OneCopy>;

pub(super) fn check(history: &History) -> Vec<Violation> {
    let calls = calls(history);
    let mut found = Vec::new();
    for (id, requests) in by_submission(&calls) {
        for (part, before) in parts(&requests) {
            if search(&part, &before) == Found::NoOrder {
                found.push(blame(id, &part, &before));
            }
        }
    }
    found
}

/// How many parts could not be judged.
pub(super) fn undecided(history: &History) -> Option<String> {
    let calls = calls(history);
    let submissions = by_submission(&calls);
    let all = submissions.values().flat_map(|requests| parts(requests));
    let open = all.filter(|(part, before)| search(part, before) == Found::GivenUp);
    let open = open.count();
    (open > 0).then(|| format!("{open} stretches have too many requests at the same time"))
}

fn by_submission<'a>(calls: &'a [Call<'a>]) -> BTreeMap<&'a str, Vec<Request<'a>>> {
    let mut all: BTreeMap<&str, Vec<Request<'_>>> = BTreeMap::new();
    for call in calls {
        let said = match (call.op, call.outcome) {
            (Op::Submit, Outcome::Ok) => Some(Said::Accepted),
            (Op::Submit, Outcome::Unknown) => None,
            (Op::Status, Outcome::Ok) => Some(Said::Shows(progress(call.last))),
            // Nothing was done, or nothing was learnt.
            (_, _) => continue,
        };
        all.entry(call.id).or_default().push(Request { call, said });
    }
    all
}

/// Stretches of requests that overlap, each with what one copy knows before it.
fn parts<'a>(requests: &[Request<'a>]) -> Vec<(Vec<Request<'a>>, OneCopy)> {
    let mut parts = Vec::new();
    let mut before = OneCopy::default();
    // Submissions that may have been done, and may still be.
    let mut perhaps: Vec<Request<'a>> = Vec::new();
    let mut part: Vec<Request<'a>> = Vec::new();
    let mut until = 0;
    for request in requests {
        if request.said.is_none() {
            perhaps.push(*request);
            continue;
        }
        if request.call.from > until && !part.is_empty() {
            close(&mut parts, &mut part, &mut before, &mut perhaps);
        }
        part.push(*request);
        until = until.max(request.call.to.unwrap_or(request.call.from));
    }
    if !part.is_empty() {
        close(&mut parts, &mut part, &mut before, &mut perhaps);
    }
    parts
}

fn close<'a>(
    parts: &mut Vec<(Vec<Request<'a>>, OneCopy)>,
    part: &mut Vec<Request<'a>>,
    before: &mut OneCopy,
    perhaps: &mut Vec<Request<'a>>,
) {
    let mut after = before.clone();
    for request in part.iter() {
        match request.said {
            Some(Said::Accepted) => after.known = true,
            Some(Said::Shows(shown)) => {
                after.known |= shown.is_some();
                after.at = after.at.max(shown);
            }
            None => {}
        }
    }
    let mut whole = perhaps.clone();
    whole.append(part);
    parts.push((whole, std::mem::replace(before, after)));
    if before.known {
        perhaps.clear();
    }
}

/// Beginnings and ends in the order in which they happened; at the same instant, beginnings first.
fn moments(part: &[Request<'_>]) -> Vec<(u64, bool, usize)> {
    let mut moments = Vec::new();
    for (n, request) in part.iter().enumerate() {
        moments.push((request.call.from, false, n));
        if let (Some(to), Some(_)) = (request.call.to, request.said) {
            moments.push((to, true, n));
        }
    }
    moments.sort_unstable();
    moments
}

fn search(part: &[Request<'_>], before: &OneCopy) -> Found {
    if part.len() > REQUESTS_MAX {
        return Found::GivenUp;
    }
    let steps = Rc::new(Cell::new(0));
    let mut tester = tester(before, &steps);
    for (_, ends, n) in moments(part) {
        if !tell(&mut tester, part, ends, n) {
            return Found::GivenUp;
        }
    }
    if tester.is_consistent() {
        Found::Order
    } else if steps.get() >= STEPS_MAX {
        Found::GivenUp
    } else {
        Found::NoOrder
    }
}

/// The first answer with which there is no order any more.
fn blame(id: &str, part: &[Request<'_>], before: &OneCopy) -> Violation {
    let steps = Rc::new(Cell::new(0));
    let mut tester = tester(before, &steps);
    let mut last = (0, 0);
    for (time, ends, n) in moments(part) {
        steps.set(0);
        last = (time, n);
        if !tell(&mut tester, part, ends, n) || (ends && !tester.is_consistent()) {
            break;
        }
    }
    let (time, n) = last;
    let call = part.get(n).map(|request| request.call);
    let said = call.map_or_else(String::new, |call| {
        let attempt = call.last.attempt.unwrap_or(0);
        let state = call.last.text("state");
        format!("{} reads {state} (attempt {attempt})", call.process)
    });
    let message = format!("{said}: no order of the requests explains all answers");
    violation("linearizable", time, id, message)
}

fn tester(before: &OneCopy, steps: &Rc<Cell<u64>>) -> Tester {
    LinearizabilityTester::new(OneCopy {
        steps: Rc::clone(steps),
        ..before.clone()
    })
}

/// Each request is a thread of its own: order between them is by time alone.
fn tell(tester: &mut Tester, part: &[Request<'_>], ends: bool, n: usize) -> bool {
    let Some(request) = part.get(n) else {
        return false;
    };
    let told = match (ends, request.said) {
        (true, Some(said)) => tester.on_return(n, said),
        (true, None) => return true,
        (false, _) if request.call.op == Op::Submit => tester.on_invoke(n, Ask::Submit),
        (false, _) => tester.on_invoke(n, Ask::Read),
    };
    told.is_ok()
}

// === impl OneCopy ===

impl SequentialSpec for OneCopy {
    type Op = Ask;
    type Ret = Said;

    fn invoke(&mut self, op: &Ask) -> Said {
        match op {
            Ask::Submit => {
                self.known = true;
                Said::Accepted
            }
            Ask::Read => Said::Shows(self.at),
        }
    }

    fn is_valid_step(&mut self, op: &Ask, said: &Said) -> bool {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() >= STEPS_MAX {
            return false;
        }
        match (op, said) {
            (Ask::Submit, Said::Accepted) => {
                self.known = true;
                true
            }
            (Ask::Read, Said::Shows(None)) => !self.known,
            (Ask::Read, Said::Shows(shown)) => {
                let forward = self.known && *shown >= self.at;
                self.at = *shown;
                forward
            }
            (Ask::Submit, Said::Shows(_)) | (Ask::Read, Said::Accepted) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::history::{Kind, Record, tests::record};

    /// Requests about one submission: who, from, to, and what a read shows; `None`: a submission.
    fn history(requests: &[(&str, u64, u64, Option<&str>)]) -> History {
        let mut records = Vec::new();
        for (who, from, to, shows) in requests {
            let op = if shows.is_some() {
                Op::Status
            } else {
                Op::Submit
            };
            records.push(record(*from, who, Kind::Invoke, op, "s1"));
            records.push(Record {
                attempt: Some(1),
                value: json!({"state": shows.unwrap_or("SUBMITTED")}),
                ..record(*to, who, Kind::Ok, op, "s1")
            });
        }
        records.sort_by_key(|record| (record.time, record.kind != Kind::Invoke));
        let mut history = History::default();
        records.into_iter().for_each(|record| history.push(record));
        history
    }

    #[test]
    fn a_read_that_goes_back_is_found_and_named() {
        let history = history(&[
            ("c1", 1, 2, None),
            ("c1", 3, 4, Some("FINISHED")),
            ("c2", 5, 6, Some("RUNNING")),
            ("c2", 7, 8, Some("FINISHED")),
        ]);
        let found = check(&history);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].time, 6);
        assert!(
            found[0].message.starts_with("c2 reads RUNNING"),
            "{found:?}"
        );
    }

    #[test]
    fn reads_that_overlap_may_show_either_but_not_cross() {
        let fine = history(&[
            ("c1", 1, 2, None),
            ("c1", 3, 10, Some("FINISHED")),
            ("c2", 4, 9, Some("RUNNING")),
        ]);
        assert_eq!(check(&fine), []);
        // c3 began after c2 had seen the end, though c1's long read overlaps both.
        let crossed = history(&[
            ("c1", 1, 2, None),
            ("c1", 3, 20, Some("RUNNING")),
            ("c2", 4, 5, Some("FINISHED")),
            ("c3", 6, 7, Some("RUNNING")),
        ]);
        assert_eq!(check(&crossed).len(), 1);
    }

    #[test]
    fn a_submission_is_there_from_its_acknowledgement_on_and_not_before_it_was_made() {
        let lost = history(&[("c1", 1, 2, None), ("c2", 3, 4, Some("NOT_FOUND"))]);
        assert_eq!(check(&lost).len(), 1);
        let early = history(&[("c2", 1, 2, Some("RUNNING")), ("c1", 3, 4, None)]);
        assert_eq!(check(&early).len(), 1);
        let meanwhile = history(&[("c1", 1, 9, None), ("c2", 2, 3, Some("NOT_FOUND"))]);
        assert_eq!(check(&meanwhile), []);
    }

    #[test]
    fn a_submission_without_an_answer_may_have_been_done_or_not() {
        for state in ["NOT_FOUND", "RUNNING"] {
            let mut history = history(&[("c2", 30, 40, Some(state))]);
            let mut unknown = History::default();
            unknown.push(record(1, "c1", Kind::Invoke, Op::Submit, "s1"));
            unknown.push(record(20, "c1", Kind::Unknown, Op::Submit, "s1"));
            for record in history.records() {
                unknown.push(record.clone());
            }
            history = unknown;
            assert_eq!(check(&history), [], "{state}");
        }
        // Once seen, it stays.
        let mut seen = history(&[
            ("c2", 30, 40, Some("RUNNING")),
            ("c2", 50, 60, Some("NOT_FOUND")),
        ]);
        seen.push(record(70, "c1", Kind::Invoke, Op::Submit, "s1"));
        assert_eq!(check(&seen).len(), 2, "{:?}", check(&seen));
    }

    #[test]
    fn too_many_requests_at_once_leave_the_verdict_open() {
        let mut requests: Vec<_> = vec![("c0", 1, 2, None)];
        let names: Vec<_> = (1..40).map(|n| format!("c{n}")).collect();
        for name in &names {
            requests.push((name, 3, 1_000, Some("RUNNING")));
        }
        requests.push(("c90", 4, 5, Some("FINISHED")));
        requests.push(("c91", 6, 7, Some("RUNNING")));
        let history = history(&requests);
        assert_eq!(check(&history), []);
        assert!(undecided(&history).is_some_and(|why| why.starts_with("1 stretches")));
    }
}
