//! `report.html`: everything on one page, which loads nothing.

use std::collections::BTreeMap;

use askama::Template;

use super::{
    Failover, LogFile, ReportError, RunFacts, Spread, Summary,
    charts::{self, duration},
    faults::{FaultSpan, faults},
    lanes::{Parts, word},
    leaderships::leaderships,
    making, palette,
    summary::CheckSummary,
    timeline::{self, Drawn},
};
use crate::{
    calls::calls,
    checks::{Judgement, Verdict, Violation},
    history::{History, Op, Record},
};

/// Records that are shown of what led to something broken: about the same thing, and what happened just before.
const TRACE_ABOUT_MAX: usize = 14;
const TRACE_BEFORE_MAX: usize = 14;
/// How much of the value of a record is shown.
const VALUE_CHARS_MAX: usize = 160;

/// A figure in large letters.
#[derive(Debug)]
struct Card {
    name: &'static str,
    value: String,
    note: String,
    tone: &'static str,
}

/// A line of the table of faults.
#[derive(Debug)]
struct FaultLine {
    kind: String,
    count: u64,
    seconds: String,
    required: bool,
}

/// What happened before something broken showed.
#[derive(Debug)]
struct Trace {
    check: String,
    at: String,
    id: String,
    message: String,
    lines: Vec<TraceLine>,
}

#[derive(Debug)]
struct TraceLine {
    at: String,
    who: String,
    what: String,
    id: String,
    value: String,
    here: bool,
}

#[derive(Debug, Template)]
#[template(path = "report.html")]
struct Page<'a> {
    summary: &'a Summary,
    verdict: &'static str,
    means: &'static str,
    facts: &'a RunFacts,
    logs: &'a [LogFile],
    cards: Vec<Card>,
    checks: &'a [CheckSummary],
    timeline: Drawn,
    masters: Vec<(String, &'static str)>,
    latency: String,
    throughput: String,
    until_leader: Option<String>,
    until_answer: Option<String>,
    failovers: &'a [Failover],
    faults: Vec<FaultLine>,
    traces: Vec<Trace>,
    css: String,
}

/// The page.
pub(super) fn html(
    run: &RunFacts,
    history: &History,
    judgement: &Judgement,
    summary: &Summary,
    failovers: &[Failover],
) -> Result<String, ReportError> {
    let end = history.records().last().map_or(0, |record| record.time);
    let calls = calls(history);
    let spans = faults(history, end);
    let leaderships = leaderships(history, &spans, end);
    let parts = Parts {
        history,
        calls: &calls,
        faults: &spans,
        leaderships: &leaderships,
        end,
    };
    let firsts: Vec<&Violation> = judgement
        .checks
        .iter()
        .filter_map(|check| check.violations.first())
        .collect();
    let seconds = (end as f64 / 1e6).max(0.001);
    let gaps = charts::gaps(failovers);
    let until_leader: Vec<_> = failovers.iter().map(|f| f.leader_after).collect();
    let until_answer: Vec<_> = failovers
        .iter()
        .filter_map(|failover| failover.acknowledged_after)
        .collect();
    let page = Page {
        summary,
        verdict: verdict_name(summary.verdict),
        means: verdict_means(summary),
        facts: run,
        logs: &run.logs,
        cards: cards(summary),
        checks: &summary.checks,
        timeline: timeline::draw(&parts.lanes(), &firsts, history.calm_at(), end)?,
        masters: parts.legend(),
        latency: charts::latency(&calls, &gaps, seconds)?,
        throughput: charts::throughput(&calls, &gaps, seconds)?,
        until_leader: charts::distribution(&until_leader, palette::WORK)?,
        until_answer: charts::distribution(&until_answer, palette::OK)?,
        failovers,
        faults: fault_lines(&spans, run),
        traces: firsts.iter().map(|first| trace(history, first)).collect(),
        css: palette::css(),
    };
    page.render()
        .map_err(|error| error.to_string())
        .map_err(making("the page"))
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "valid",
        Verdict::Invalid => "invalid",
        Verdict::Unknown => "unknown",
    }
}

fn verdict_means(summary: &Summary) -> &'static str {
    match summary.verdict {
        Verdict::Valid => "Every property holds, and everything that was to be tried was tried.",
        Verdict::Invalid => "At least one property does not hold.",
        Verdict::Unknown if summary.missing.is_empty() => {
            "Nothing is broken, but not every property could be judged."
        }
        Verdict::Unknown => "Nothing is broken, but a fault that was to be tried never happened.",
    }
}

fn cards(summary: &Summary) -> Vec<Card> {
    let submissions = summary.requests.submissions;
    let bad = |count: usize| if count > 0 { "bad" } else { "good" };
    let median = |spread: Option<Spread>| {
        spread.map_or_else(|| "–".to_owned(), |spread| duration(spread.p50))
    };
    let tail = |spread: Option<Spread>| {
        spread.map_or_else(
            || "none was measured".to_owned(),
            |s| format!("p99 {}, worst {}", duration(s.p99), duration(s.max)),
        )
    };
    let faults: u64 = summary.faults.values().sum();
    vec![
        Card {
            name: "acknowledged",
            value: submissions.ok.to_string(),
            note: format!(
                "of {} submissions; {} refused, {} unknown",
                submissions.total(),
                submissions.fail,
                submissions.unknown
            ),
            tone: "",
        },
        Card {
            name: "lost",
            value: summary.lost.to_string(),
            note: "acknowledged, and unknown at the end".to_owned(),
            tone: bad(summary.lost),
        },
        Card {
            name: "doubled",
            value: summary.doubled.to_string(),
            note: "ran twice, or had two effects".to_owned(),
            tone: bad(summary.doubled),
        },
        Card {
            name: "faults",
            value: faults.to_string(),
            note: format!("of {} kinds", summary.faults.len()),
            tone: "",
        },
        Card {
            name: "until a new leader",
            value: median(summary.failover_seconds),
            note: tail(summary.failover_seconds),
            tone: "",
        },
        Card {
            name: "to acknowledge",
            value: median(summary.requests.submission_seconds),
            note: tail(summary.requests.submission_seconds),
            tone: "",
        },
    ]
}

fn fault_lines(spans: &[FaultSpan], run: &RunFacts) -> Vec<FaultLine> {
    let mut kinds: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for required in &run.required {
        kinds.entry(required).or_default();
    }
    for span in spans {
        let (count, lasted) = kinds.entry(&span.kind).or_default();
        *count += 1;
        *lasted += span.to - span.from;
    }
    let line = |(kind, (count, lasted)): (&str, (u64, u64))| FaultLine {
        kind: kind.to_owned(),
        count,
        seconds: duration(lasted as f64 / 1e6),
        required: run.required.iter().any(|required| required == kind),
    };
    kinds.into_iter().map(line).collect()
}

fn trace(history: &History, violation: &Violation) -> Trace {
    let records = history.records();
    let until = records.partition_point(|record| record.time <= violation.time);
    let about = |record: &Record| {
        let id = violation.id.as_str();
        !id.is_empty()
            && (record.id == id || record.process == id || record.text("submission") == id)
    };
    // What followers get is told of many times over.
    let says_much = |n: &usize| records[*n].op != Op::Event;
    let newest = || (0..until).rev();
    let mut shown: Vec<usize> = newest()
        .filter(|n| about(&records[*n]))
        .take(TRACE_ABOUT_MAX)
        .chain(newest().filter(says_much).take(TRACE_BEFORE_MAX))
        .collect();
    shown.sort_unstable();
    shown.dedup();
    Trace {
        check: violation.check.to_owned(),
        at: at(violation.time),
        id: violation.id.clone(),
        message: violation.message.clone(),
        lines: shown
            .into_iter()
            .map(|n| line(&records[n], about(&records[n])))
            .collect(),
    }
}

fn line(record: &Record, here: bool) -> TraceLine {
    let kind = serde_json::to_value(record.kind).ok();
    let kind = kind.as_ref().and_then(serde_json::Value::as_str);
    let mut value = String::new();
    if let Some(epoch) = record.epoch {
        value += &format!("epoch {epoch} ");
    }
    if let Some(attempt) = record.attempt {
        value += &format!("attempt {attempt} ");
    }
    if !record.value.is_null() {
        value.extend(record.value.to_string().chars().take(VALUE_CHARS_MAX));
    }
    TraceLine {
        at: at(record.time),
        who: record.process.clone(),
        what: format!("{} {}", word(record.op), kind.unwrap_or_default()),
        id: record.id.clone(),
        value,
        here,
    }
}

fn at(micros: u64) -> String {
    format!("{:.6}", micros as f64 / 1e6)
}
