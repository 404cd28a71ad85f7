//! Every metric of a master that is not the store's own: names, help, and where they are set.
//!
//! Counters and histograms are set where things happen; gauges about the cluster are taken from the published
//! view at each scrape, which costs O(1) because the view keeps counts. Labels are bounded: never an id, a
//! user's text or a path.

mod refresh;
mod table;

use std::time::Duration;

use interrex_core::event::EventKind;
use interrex_proto::metric;
use metrics::{counter, gauge, histogram};

pub use self::{refresh::refresh, table::TABLE};

/// What a submission can come to.
const SUBMISSION_RESULTS: [&str; 8] = [
    "accepted",
    "replayed",
    "invalid",
    "conflict",
    "busy",
    "unknown",
    "not_leader",
    "failed",
];
/// What recovery can be at.
const RECOVERY_STATES: [&str; 5] = [
    "STANDBY",
    "RECOVERING",
    "COMPLETING_RECOVERY",
    "ALIVE",
    "RESTORING",
];
/// How workers can be.
const WORKER_STATES: [&str; 4] = ["ALIVE", "DECOMMISSIONED", "UNKNOWN", "DEAD"];

/// By which edge a submission came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// gRPC.
    Grpc,
    /// Spark's submission API.
    Rest,
}

/// A bounded queue, or a bounded number of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Requests for the leader's loop.
    Mailbox,
    /// Requests that wait in the leader's machine for room in a batch.
    Leader,
    /// Reads that wait for the word that this master leads.
    Reads,
    /// Heartbeats that wait to be acknowledged.
    Heartbeats,
    /// Orders to hand leadership over.
    HandOvers,
    /// Orders to restore a snapshot.
    Restores,
    /// Frames on their way to peers, over all sessions.
    SessionFrames,
    /// Sessions.
    Sessions,
    /// Clients that follow the event log.
    EventWatchers,
    /// Explanations that are being made.
    Explanations,
    /// Requests of the submission API.
    RestRequests,
    /// Connections to the submission API.
    RestConnections,
    /// Connections to health and metrics.
    WebConnections,
    /// Connections to the RPC port that have not said yet what they speak.
    NewConnections,
    /// Requests of one connection of a Spark driver that wait for their answers.
    SparkAnswers,
    /// Open pages that are kept up to date.
    PageViewers,
    /// Pages that are being made.
    Pages,
    /// Logs that are followed through this master's pages.
    PageLogs,
}

/// What woke the leader's loop up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Requests,
    Committed,
    Tick,
    Other,
}

/// Tells the recorder the help texts; once at the start, after it is installed.
pub fn describe() {
    metric::describe(TABLE.metrics);
    interrex_persistence::metrics::describe();
    metrics_process::Collector::default().describe();
}

/// A submission was answered. `result`: `accepted`, `replayed`, `invalid`, `conflict`, `busy`, `unknown`,
/// `not_leader` or `failed`.
pub fn submission(source: Source, result: &'static str, took: Duration) {
    let source = match source {
        Source::Grpc => "grpc",
        Source::Rest => "rest",
    };
    counter!("interrex_submissions_total", "source" => source, "result" => result).increment(1);
    histogram!("interrex_submission_duration_seconds", "source" => source)
        .record(took.as_secs_f64());
    if result == "replayed" {
        counter!("interrex_submission_replays_total").increment(1);
    }
}

/// An event is durable. There are some forty kinds.
pub(crate) fn event(kind: &EventKind) {
    counter!("interrex_events_total", "kind" => kind.to_string()).increment(1);
}

/// A registration was answered. `kind`: worker or app; `result`: `accepted`, `refused` or `not_leader`.
pub fn registration(kind: &'static str, result: &'static str) {
    counter!("interrex_registrations_total", "kind" => kind, "result" => result).increment(1);
}

/// Something that came over Spark's protocol was refused: `what` was wrong with it.
pub(crate) fn spark_refused(what: &'static str) {
    counter!("interrex_spark_refusals_total", "what" => what).increment(1);
}

/// A change was asked for over `edge` without a token that counts; `reason`: `missing` or `unknown`.
pub(crate) fn denied(edge: &'static str, reason: &'static str) {
    counter!("interrex_denied_total", "edge" => edge, "reason" => reason).increment(1);
}

/// The leader's loop turned this much later than it should have.
pub fn loop_lag(lag: Duration) {
    histogram!("interrex_event_loop_lag_seconds").record(lag.as_secs_f64());
}

/// This many wait in a bounded queue, and so many may.
pub fn queue(queue: Queue, depth: usize, limit: usize) {
    gauge!("interrex_queue_depth", "queue" => queue.name()).set(depth as f64);
    gauge!("interrex_queue_limit", "queue" => queue.name()).set(limit as f64);
}

/// A full queue refused a request.
pub fn refused(queue: Queue) {
    counter!("interrex_requests_refused_total", "queue" => queue.name()).increment(1);
}

/// The leader's loop has dealt with what it woke up for.
pub(crate) fn turned(turn: Turn, took: Duration) {
    histogram!("interrex_event_loop_turn_duration_seconds", "event" => turn.name()).record(took);
}

/// This master has heard of another leadership, after so long without one.
pub(crate) fn leader_seen(without: Option<Duration>) {
    counter!("interrex_leader_changes_total").increment(1);
    if let Some(without) = without {
        histogram!("interrex_election_duration_seconds").record(without);
    }
}

/// The leader asked whether it still leads. `result`: `confirmed`, `deposed` or `unanswered`.
pub(crate) fn leader_checked(result: &'static str) {
    counter!("interrex_leader_checks_total", "result" => result).increment(1);
}

/// So many records were read back. `result`: `kept` or `quarantined`.
pub(crate) fn recovered(kind: &'static str, result: &'static str, count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    counter!("interrex_recovery_records_total", "kind" => kind, "result" => result)
        .increment(count);
}

/// Every worker has reported or was given up, so long after this leader began to serve.
pub(crate) fn reconciled(after: Duration) {
    histogram!("interrex_reconciliation_duration_seconds").record(after);
}

/// A worker was heard of, after so long a silence.
pub(crate) fn heard_after(silence: Duration) {
    histogram!("interrex_worker_heartbeat_age_seconds").record(silence);
}

/// A driver or an application (`kind`) has its first process, so long after it was accepted.
pub(crate) fn first_process(kind: &'static str, waited: Duration) {
    histogram!("interrex_schedule_wait_seconds", "kind" => kind).record(waited);
}

/// A stream was closed. `reason`: `replaced` or `slow`.
pub(crate) fn session_closed(reason: &'static str) {
    counter!("interrex_sessions_closed_total", "reason" => reason).increment(1);
}

/// A commit with so many changes of records begins.
pub(crate) fn committing(mutations: usize) {
    histogram!("interrex_commit_batch_mutations").record(mutations as f64);
}

/// A commit ended a leadership. `reason`: `fenced`, `rejected`, `unknown` or `late`.
pub(crate) fn commit_failed(reason: &'static str) {
    counter!("interrex_commit_failures_total", "reason" => reason).increment(1);
}

/// So many reports or events changed nothing. `reason`: `stale`, `unknown`, `repeated` or `refused`.
pub(crate) fn ignored(reason: &'static str, count: u64) {
    counter!("interrex_events_ignored_total", "reason" => reason).increment(count);
}

/// A call of the control API was answered.
pub(crate) fn grpc_handled(method: &'static str, code: tonic::Code, took: Duration) {
    counter!("interrex_grpc_handled_total", "method" => method, "code" => code_name(code))
        .increment(1);
    histogram!("interrex_grpc_handling_seconds", "method" => method).record(took.as_secs_f64());
}

/// A request of the submission API was answered.
pub(crate) fn http_handled(endpoint: &'static str, status: http::StatusCode, took: Duration) {
    // A server answers with a dozen different statuses at most, so this label is bounded.
    let status = status.as_u16().to_string();
    counter!("interrex_http_handled_total", "endpoint" => endpoint, "status" => status)
        .increment(1);
    histogram!("interrex_http_handling_seconds", "endpoint" => endpoint).record(took.as_secs_f64());
}

// === impl Queue ===

impl Queue {
    /// Every name that [`name`](Self::name) gives.
    pub const NAMES: [&'static str; 18] = [
        Self::Mailbox.name(),
        Self::Leader.name(),
        Self::Reads.name(),
        Self::Heartbeats.name(),
        Self::HandOvers.name(),
        Self::Restores.name(),
        Self::SessionFrames.name(),
        Self::Sessions.name(),
        Self::EventWatchers.name(),
        Self::Explanations.name(),
        Self::RestRequests.name(),
        Self::RestConnections.name(),
        Self::WebConnections.name(),
        Self::NewConnections.name(),
        Self::SparkAnswers.name(),
        Self::PageViewers.name(),
        Self::Pages.name(),
        Self::PageLogs.name(),
    ];

    /// As the label has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mailbox => "mailbox",
            Self::Leader => "leader",
            Self::Reads => "reads",
            Self::Heartbeats => "heartbeats",
            Self::HandOvers => "hand_overs",
            Self::Restores => "restores",
            Self::SessionFrames => "session_frames",
            Self::Sessions => "sessions",
            Self::EventWatchers => "event_watchers",
            Self::Explanations => "explanations",
            Self::RestRequests => "rest_requests",
            Self::RestConnections => "rest_connections",
            Self::WebConnections => "web_connections",
            Self::NewConnections => "new_connections",
            Self::SparkAnswers => "spark_answers",
            Self::PageViewers => "page_viewers",
            Self::Pages => "pages",
            Self::PageLogs => "page_logs",
        }
    }
}

// === impl Turn ===

impl Turn {
    fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Committed => "committed",
            Self::Tick => "tick",
            Self::Other => "other",
        }
    }
}

/// gRPC's own name of a code.
fn code_name(code: tonic::Code) -> &'static str {
    use tonic::Code;
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use interrex_proto::metric::{BUCKETS, Kind};
    use metrics::Unit;

    use super::*;

    /// The sources of this crate, with what they name.
    fn named_in(folder: &std::path::Path, names: &mut std::collections::BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                named_in(&path, names);
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a source file");
            for text in source
                .split('"')
                .filter(|text| text.starts_with("interrex_"))
            {
                if text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
                    names.insert(text.to_owned());
                }
            }
        }
    }

    #[test]
    fn every_metric_that_is_set_is_described() {
        let mut names = std::collections::BTreeSet::new();
        named_in(
            &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
            &mut names,
        );
        assert!(names.len() > 20, "the sources were found: {names:?}");
        let described: Vec<_> = TABLE.metrics.iter().map(|metric| metric.name).collect();
        let missing: Vec<_> = names
            .iter()
            .filter(|name| !described.contains(&name.as_str()) && *name != "interrex_")
            .collect();
        assert_eq!(
            missing,
            Vec::<&String>::new(),
            "describe these in the table"
        );
    }

    #[test]
    fn every_histogram_comes_out_as_one_with_its_help() {
        let mut builder = metrics_exporter_prometheus::PrometheusBuilder::new();
        for (name, bounds) in BUCKETS {
            let names = metrics_exporter_prometheus::Matcher::Suffix((*name).to_owned());
            builder = builder
                .set_buckets_for_metric(names, bounds)
                .expect("bounds");
        }
        let recorder = builder.build_recorder();
        let prometheus = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            describe();
            for metric in TABLE.metrics {
                match metric.kind {
                    Kind::Counter => counter!(metric.name).increment(1),
                    Kind::Gauge => gauge!(metric.name).set(1.0),
                    Kind::Histogram => histogram!(metric.name).record(1.0),
                }
            }
        });
        let scraped = prometheus.render();
        for metric in TABLE.metrics {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            for line in [
                format!("# TYPE {} {kind}\n", metric.name),
                format!("# HELP {} {}\n", metric.name, metric.help),
            ] {
                assert!(scraped.contains(&line), "{line}in\n{scraped}");
            }
        }
        assert!(!scraped.contains("summary"), "{scraped}");
    }

    #[test]
    fn names_keep_the_rules_of_prometheus() {
        let mut seen = std::collections::BTreeSet::new();
        for metric in TABLE.metrics {
            assert!(metric.name.starts_with("interrex_"), "{}", metric.name);
            assert!(
                seen.insert(metric.name),
                "{} is described twice",
                metric.name
            );
            assert_eq!(
                metric.name.ends_with("_total"),
                metric.kind == Kind::Counter,
                "{}",
                metric.name
            );
            if metric.unit() == Unit::Seconds {
                assert!(metric.name.ends_with("_seconds"), "{}", metric.name);
            }
            if metric.unit() == Unit::Bytes {
                assert!(metric.name.ends_with("_bytes"), "{}", metric.name);
            }
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }
}
