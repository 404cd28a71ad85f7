//! What this crate counts. The exporter is the program's matter; labels are bounded and never ids.

use std::time::Duration;

use interrex_proto::{
    metric::{self, Label, Metric, Table},
    v1::master_frame::Body,
};

/// The epoch of the leader this process is attached to.
pub const ATTACHED_EPOCH: &str = "interrex_session_attached_epoch";
/// How often a session was attached again after it had lost its leader.
pub const REATTACHES: &str = "interrex_session_reattaches_total";
/// From the loss of the leader to the next attachment.
pub const REATTACH_DURATION: &str = "interrex_session_reattach_duration_seconds";
/// Leader hints that were followed, by sessions and by calls.
pub const REDIRECTS_FOLLOWED: &str = "interrex_session_redirects_followed_total";
/// Frames refused because a newer epoch was known.
pub const STALE_MESSAGES: &str = "interrex_stale_messages_total";
/// How often a larger epoch than the one known was seen.
pub const FAILOVERS_SEEN: &str = "interrex_failovers_seen_total";
/// What full queues refused.
pub const REFUSED: &str = "interrex_session_requests_refused_total";
/// Attempts of control calls.
pub const CALL_ATTEMPTS: &str = "interrex_client_call_attempts_total";

/// Everything that a session or a submission client counts.
pub const TABLE: Table = Table {
    title: "Sessions with the masters (agents, and applications that use the client library)",
    metrics: &[
        Metric::gauge(ATTACHED_EPOCH, "Epoch of the leader that this process is attached to; 0 while there is none."),
        Metric::counter(REATTACHES, "Attachments after the loss of a leader."),
        Metric::histogram(REATTACH_DURATION, "From the loss of the leader to the next attachment."),
        Metric::counter(REDIRECTS_FOLLOWED, "Hints about the leader that were followed."),
        Metric::counter(
            STALE_MESSAGES,
            "Messages of an older epoch or attempt that were refused: a deposed leader still spoke.",
        )
        .by(&[Label::of("kind", &Body::KINDS)]),
        Metric::counter(FAILOVERS_SEEN, "Changes to a larger epoch."),
        Metric::counter(REFUSED, "What was refused because a bounded queue of this session was full; it is tried again.")
            .by(&[Label::of("queue", &["mailbox", "stream"])]),
        Metric::counter(CALL_ATTEMPTS, "Attempts of control calls.")
            .by(&[Label::of("outcome", &["ok", "refused", "retried"])])
            .when("in programs that make such calls, once one was made"),
    ],
};

/// Describes every metric to the installed recorder; calling it again does no harm.
pub fn describe() {
    metric::describe(TABLE.metrics);
    // Attached to nobody yet.
    detached();
}

pub(crate) fn attached(epoch: u64, detached_for: Option<Duration>) {
    // Epochs are small (terms) or at most etcd revisions: far below the 2^53 that a float keeps exactly.
    metrics::gauge!(ATTACHED_EPOCH).set(epoch as f64);
    if let Some(gap) = detached_for {
        metrics::counter!(REATTACHES).increment(1);
        metrics::histogram!(REATTACH_DURATION).record(gap.as_secs_f64());
    }
}

pub(crate) fn detached() {
    metrics::gauge!(ATTACHED_EPOCH).set(0.0);
}

pub(crate) fn stale_message(kind: &'static str) {
    metrics::counter!(STALE_MESSAGES, "kind" => kind).increment(1);
}

pub(crate) fn redirect_followed() {
    metrics::counter!(REDIRECTS_FOLLOWED).increment(1);
}

pub(crate) fn failover_seen() {
    metrics::counter!(FAILOVERS_SEEN).increment(1);
}

pub(crate) fn call_attempt(outcome: &'static str) {
    metrics::counter!(CALL_ATTEMPTS, "outcome" => outcome).increment(1);
}

/// `queue`: `mailbox` or `stream`.
pub(crate) fn refused(queue: &'static str) {
    metrics::counter!(REFUSED, "queue" => queue).increment(1);
}
