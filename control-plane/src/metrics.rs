//! Every metric of a master that is not the store's own: names, help, and where they are set.
//!
//! Counters and histograms are set where things happen; gauges about the cluster are taken from the published
//! view at each scrape, which costs O(1) because the view keeps counts. Labels are bounded: never an id, a
//! user's text or a path.

use std::time::Duration;

use interrex_core::{
    event::EventKind,
    state::{app::ApplicationState, driver::DriverState},
};
use metrics::{Unit, counter, gauge, histogram};

use crate::runtime::{
    handle::{MasterHandle, Role},
    view::Counts,
};

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// A distribution.
    Histogram,
}

/// A metric of this crate.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name as Prometheus shows it.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its base unit.
    pub unit: Option<Unit>,
    /// For operators.
    pub help: &'static str,
}

/// By which edge a submission came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// gRPC.
    Grpc,
    /// Spark's submission API.
    Rest,
}

macro_rules! metric {
    ($kind:ident $name:literal, $help:literal) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            unit: None,
            help: $help,
        }
    };
    ($kind:ident $name:literal, $unit:ident, $help:literal) => {
        Metric {
            name: $name,
            kind: Kind::$kind,
            unit: Some(Unit::$unit),
            help: $help,
        }
    };
}

/// All metrics of this crate; those of the store and of sessions' transport are described by their crates.
pub const METRICS: &[Metric] = &[
    metric!(Gauge "interrex_build_info", "Always 1; the labels say what was built."),
    metric!(Gauge "interrex_server_role", "1 for the role that this master has, 0 for the others."),
    metric!(Gauge "interrex_has_leader", "1 while this master knows a leader."),
    metric!(Gauge "interrex_is_leader", "1 while this master leads; the sum over masters must not exceed 1."),
    metric!(Gauge "interrex_epoch", "The epoch that this master leads in, or the newest that it has heard of."),
    metric!(Gauge "interrex_workers", "Workers by state, as the leader knows them; DECOMMISSIONED: being drained."),
    metric!(Gauge "interrex_apps", "Applications by state, as the leader knows them."),
    metric!(Gauge "interrex_drivers", "Drivers by state, as the leader knows them."),
    metric!(Gauge "interrex_cores", "Cores of workers that are alive, by state: used or free."),
    metric!(Gauge "interrex_memory_bytes", Bytes, "Memory of workers that are alive, by state: used or free."),
    metric!(Counter "interrex_submissions_total", "Submissions answered by this master as the leader."),
    metric!(Histogram "interrex_submission_duration_seconds", Seconds, "From a submission's arrival to its answer, which is durable."),
    metric!(Counter "interrex_submission_replays_total", "Submissions that had been accepted before: retries that found their first try."),
    metric!(Counter "interrex_registrations_total", "Registrations of workers and applications by result."),
    metric!(Counter "interrex_events_total", "Entries of the event log that this master has committed, by kind."),
    metric!(Histogram "interrex_event_loop_lag_seconds", Seconds, "How late the leader's loop turned."),
    metric!(Gauge "interrex_queue_depth", "Requests that wait in a bounded queue of this master."),
    metric!(Counter "interrex_requests_refused_total", "Requests refused because a queue was full."),
    metric!(Counter "interrex_elections_won_total", "Elections that this master has won."),
    metric!(Counter "interrex_step_downs_total", "Leaderships of this master that ended, by reason."),
    metric!(Histogram "interrex_recovery_duration_seconds", Seconds, "From a won election to serving: opening the epoch and reading everything back."),
    metric!(Counter "interrex_records_quarantined_total", "Stored records that could not be read and were set aside, by kind."),
    metric!(Histogram "interrex_commit_batch_mutations", "Changes of records in one commit."),
    metric!(Gauge "interrex_sessions", "Streams of agents and applications that are open."),
    metric!(Counter "interrex_sessions_refused_total", "Streams refused because too many are open."),
    metric!(Counter "interrex_sessions_closed_total", "Streams closed by this master, by reason."),
    metric!(Counter "interrex_stale_epoch_answers_total", "Orders of this master that a peer refused because it has seen a newer epoch."),
    metric!(Counter "interrex_effects_dropped_total", "Orders and notices without a session to send them to; they are derived again."),
    metric!(Counter "interrex_heartbeat_acks_dropped_total", "Heartbeats that were heard and not acknowledged, because too many waited."),
    metric!(Counter "interrex_frames_dropped_total", "Frames of peers that were dropped; what they report is sent again."),
    metric!(Counter "interrex_spark_refusals_total", "What came over Spark's protocol and was refused, by what was wrong with it."),
    metric!(Counter "interrex_reregistrations_asked_total", "Workers asked for a full report, by reason; differs: a heartbeat showed that they run something else than is recorded."),
    metric!(Counter "interrex_events_ignored_total", "Reports and events that changed nothing, by reason: stale, unknown, repeated or refused."),
    metric!(Counter "interrex_task_panics_total", "Tasks of this master that panicked; somebody must look."),
    metric!(Gauge "interrex_loop_silence_seconds", Seconds, "How long ago the master's loop last turned."),
    metric!(Counter "interrex_http_handled_total", "Requests of the submission API by endpoint and status."),
    metric!(Histogram "interrex_http_handling_seconds", Seconds, "Time to answer a request of the submission API."),
    metric!(Counter "interrex_grpc_handled_total", "Calls of the control API by method and code."),
    metric!(Histogram "interrex_grpc_handling_seconds", Seconds, "Time to answer a call of the control API; Wait waits by design."),
];

/// Bounds of the buckets of every histogram, by how its name ends; for whoever installs the recorder. A histogram
/// without them would come out as a summary, which cannot be added up over masters.
pub const BUCKETS: &[(&str, &[f64])] = &[("_seconds", &SECONDS), ("_mutations", &MUTATIONS)];

/// From a local fsync to a slow start.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// From a single change to a full batch.
const MUTATIONS: [f64; 12] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0,
];

const MIB: f64 = 1_048_576.0;

/// Tells the recorder the help texts; once at the start, after it is installed.
pub fn describe() {
    for metric in METRICS {
        let unit = metric.unit.unwrap_or(Unit::Count);
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, unit, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, unit, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, unit, metric.help),
        }
    }
    interrex_persistence::metrics::describe();
    metrics_process::Collector::default().describe();
}

/// Sets every gauge from the handle and its view; at each scrape.
pub fn refresh(handle: &MasterHandle) {
    let status = handle.status();
    gauge!("interrex_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    for role in [
        Role::Standby,
        Role::Campaigning,
        Role::Recovering,
        Role::Leading,
    ] {
        gauge!("interrex_server_role", "role" => role.name()).set(one_if(status.role == role));
    }
    let leads = status
        .leader
        .as_ref()
        .is_some_and(|leader| leader.id == status.me.id);
    gauge!("interrex_has_leader").set(one_if(status.leader.is_some()));
    gauge!("interrex_is_leader").set(one_if(leads));
    gauge!("interrex_epoch").set(float(status.epoch.0));
    gauge!("interrex_loop_silence_seconds").set(handle.since_last_turn().as_secs_f64());
    // Only a leader has a view; on a standby every count is 0, so that sums over masters are right.
    counts(handle.view().counts());
    metrics_process::Collector::default().collect();
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

/// The leader's loop turned this much later than it should have.
pub fn loop_lag(lag: Duration) {
    histogram!("interrex_event_loop_lag_seconds").record(lag.as_secs_f64());
}

/// This many wait in a bounded queue.
pub fn queue_depth(queue: &'static str, depth: usize) {
    gauge!("interrex_queue_depth", "queue" => queue)
        .set(float(u64::try_from(depth).unwrap_or(u64::MAX)));
}

/// A full queue refused a request.
pub fn refused(queue: &'static str) {
    counter!("interrex_requests_refused_total", "queue" => queue).increment(1);
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

fn counts(counts: &Counts) {
    for state in ["ALIVE", "DECOMMISSIONED", "UNKNOWN", "DEAD"] {
        let count = counts.workers.get(state).copied().unwrap_or_default();
        gauge!("interrex_workers", "state" => state).set(float(count));
    }
    for state in [
        ApplicationState::Waiting,
        ApplicationState::Running,
        ApplicationState::Finished,
        ApplicationState::Failed,
        ApplicationState::Killed,
    ] {
        let count = counts.apps.get(&state).copied().unwrap_or_default();
        gauge!("interrex_apps", "state" => state.name()).set(float(count));
    }
    for state in [
        DriverState::Submitted,
        DriverState::Launching,
        DriverState::Running,
        DriverState::Relaunching,
        DriverState::Finished,
        DriverState::Killed,
        DriverState::Failed,
        DriverState::Error,
    ] {
        let count = counts.drivers.get(&state).copied().unwrap_or_default();
        gauge!("interrex_drivers", "state" => state.name()).set(float(count));
    }
    let free = |offered: u64, used: u64| float(offered.saturating_sub(used));
    gauge!("interrex_cores", "state" => "used").set(float(counts.cores_used));
    gauge!("interrex_cores", "state" => "free").set(free(counts.cores_offered, counts.cores_used));
    let (offered, used) = (counts.memory_mib_offered, counts.memory_mib_used);
    gauge!("interrex_memory_bytes", "state" => "used").set(float(used) * MIB);
    gauge!("interrex_memory_bytes", "state" => "free").set(free(offered, used) * MIB);
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

fn one_if(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

/// Gauges are floating-point numbers; counts are far below 2^53.
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
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
        let described: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
        let missing: Vec<_> = names
            .iter()
            .filter(|name| !described.contains(&name.as_str()) && *name != "interrex_")
            .collect();
        assert_eq!(missing, Vec::<&String>::new(), "describe these in METRICS");
    }

    #[test]
    fn every_histogram_comes_out_as_one_with_its_help() {
        let mut builder = metrics_exporter_prometheus::PrometheusBuilder::new();
        for (suffix, bounds) in BUCKETS {
            let names = metrics_exporter_prometheus::Matcher::Suffix((*suffix).to_owned());
            builder = builder
                .set_buckets_for_metric(names, bounds)
                .expect("bounds");
        }
        let recorder = builder.build_recorder();
        let prometheus = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            describe();
            for metric in METRICS {
                match metric.kind {
                    Kind::Counter => counter!(metric.name).increment(1),
                    Kind::Gauge => gauge!(metric.name).set(1.0),
                    Kind::Histogram => histogram!(metric.name).record(1.0),
                }
            }
        });
        let scraped = prometheus.render();
        for metric in METRICS {
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
        for metric in METRICS {
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
            if metric.unit == Some(Unit::Seconds) {
                assert!(metric.name.ends_with("_seconds"), "{}", metric.name);
            }
            if metric.unit == Some(Unit::Bytes) {
                assert!(metric.name.ends_with("_bytes"), "{}", metric.name);
            }
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }
}
