//! What this crate counts. The exporter is the program's matter; labels are bounded and never ids.

use std::time::Duration;

/// Gauge: the epoch of the leader this process is attached to; 0 while it is attached to none.
pub const ATTACHED_EPOCH: &str = "interrex_session_attached_epoch";
/// Counter: how often a session was attached again after it had lost its leader.
pub const REATTACHES: &str = "interrex_session_reattaches_total";
/// Histogram, seconds: from the loss of the leader to the next attachment.
pub const REATTACH_DURATION: &str = "interrex_session_reattach_duration_seconds";
/// Counter: leader hints that were followed, by sessions and by calls.
pub const REDIRECTS_FOLLOWED: &str = "interrex_session_redirects_followed_total";
/// Counter, label `kind`: frames refused because a newer epoch was known.
pub const STALE_MESSAGES: &str = "interrex_stale_messages_total";
/// Counter: how often a larger epoch than the one known was seen.
pub const FAILOVERS_SEEN: &str = "interrex_failovers_seen_total";
/// Counter, label `outcome` (`ok`, `refused`, `retried`): attempts of control calls.
pub const CALL_ATTEMPTS: &str = "interrex_client_call_attempts_total";

/// Describes every metric to the installed recorder; calling it again does no harm.
pub fn describe() {
    metrics::describe_gauge!(
        ATTACHED_EPOCH,
        "Epoch of the leader this process is attached to, 0 if none"
    );
    metrics::describe_counter!(REATTACHES, "Attachments after the loss of a leader");
    metrics::describe_histogram!(
        REATTACH_DURATION,
        metrics::Unit::Seconds,
        "From the loss of the leader to the next attachment"
    );
    metrics::describe_counter!(REDIRECTS_FOLLOWED, "Leader hints followed");
    metrics::describe_counter!(
        STALE_MESSAGES,
        "Frames refused because a newer epoch was known"
    );
    metrics::describe_counter!(FAILOVERS_SEEN, "Changes to a larger epoch");
    metrics::describe_counter!(CALL_ATTEMPTS, "Attempts of control calls by outcome");
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
