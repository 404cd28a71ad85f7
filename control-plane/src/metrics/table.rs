//! The table of every metric of a master that is not the store's own.

use interrex_proto::{
    metric::{Label, Metric, Table},
    v1::master_frame::Body,
};

use super::{Queue, SUBMISSION_RESULTS};

const RESULT: Label = Label::of("result", &SUBMISSION_RESULTS);
const SOURCE: Label = Label::of("source", &["grpc", "rest"]);
const QUEUE: &[Label] = &[Label::of("queue", &Queue::NAMES)];
const USED_OR_FREE: &[Label] = &[Label::of("state", &["used", "free"])];
const ENDPOINT: Label = Label::of(
    "endpoint",
    &[
        "create", "kill", "killall", "status", "clear", "readyz", "other",
    ],
);
const RECORD: Label = Label::of(
    "kind",
    &[
        "meta",
        "worker",
        "application",
        "driver",
        "executor",
        "request",
        "events",
        "set-aside",
        "unknown",
    ],
);

/// Everything that a master counts, beside its store.
pub const TABLE: Table = Table {
    title: "Masters",
    metrics: &[
        // Leadership.
        Metric::gauge("interrex_build_info", "Always 1; the labels say what was built.")
            .by(&[Label::open("version"), Label::open("commit"), Label::of("component", &["master"])]),
        Metric::gauge("interrex_server_role", "1 for the role that this master has, 0 for the others.")
            .by(&[Label::of("role", &["standby", "campaigning", "recovering", "leader"])]),
        Metric::gauge("interrex_has_leader", "1 while this master knows a leader."),
        Metric::gauge("interrex_is_leader", "1 while this master leads; the sum over masters must not stay above 1."),
        Metric::gauge("interrex_epoch", "The epoch that this master leads in, or the newest that it has heard of."),
        Metric::counter("interrex_leader_changes_total", "Leaders that this master has seen, the first one included."),
        Metric::histogram(
            "interrex_election_duration_seconds",
            "From the moment that this master knew no leader until it knew one again.",
        ),
        Metric::counter("interrex_elections_won_total", "Elections that this master has won."),
        Metric::counter("interrex_step_downs_total", "Leaderships of this master that ended, by reason.").by(&[Label::of(
            "reason",
            &[
                "fenced",
                "commit_rejected",
                "commit_unknown",
                "lost",
                "resigned",
                "not_opened",
                "newer_format",
                "foreign_store",
                "restoring",
                "panic",
            ],
        )]),
        Metric::counter(
            "interrex_leader_checks_total",
            "Times that the leader asked the quorum whether it still leads, for reads: confirmed, deposed or unanswered.",
        )
        .by(&[Label::of("result", &["confirmed", "deposed", "unanswered"])]),
        Metric::counter(
            "interrex_stale_epoch_answers_total",
            "Orders of this master that a peer refused because it has seen a newer epoch.",
        ),
        // Recovery.
        Metric::gauge("interrex_recovery_state", "1 for what this master's recovery is at, 0 for the others.")
            .by(&[Label::of("state", &super::RECOVERY_STATES)]),
        Metric::histogram(
            "interrex_recovery_duration_seconds",
            "From a won election to serving: opening the epoch and reading everything back.",
        ),
        Metric::histogram(
            "interrex_reconciliation_duration_seconds",
            "From serving until every worker that was known has reported or was given up.",
        ),
        Metric::counter("interrex_recovery_records_total", "Records read back by new leaders, kept or quarantined.")
            .by(&[RECORD, Label::of("result", &["kept", "quarantined"])]),
        Metric::counter(
            "interrex_records_quarantined_total",
            "Stored records that could not be read and were set aside.",
        )
        .by(&[RECORD]),
        // What the cluster holds.
        Metric::gauge("interrex_workers", "Workers by state, as the leader knows them; DECOMMISSIONED: being drained.")
            .by(&[Label::of("state", &super::WORKER_STATES)]),
        Metric::gauge("interrex_apps", "Applications by state, as the leader knows them.")
            .by(&[Label::of("state", &["WAITING", "RUNNING", "FINISHED", "FAILED", "KILLED"])]),
        Metric::gauge(
            "interrex_apps_without_progress",
            "Applications whose session is alive and whose program does not come for its events; Spark's drivers are never among them.",
        ),
        Metric::gauge("interrex_drivers", "Drivers by state, as the leader knows them.").by(&[Label::of(
            "state",
            &[
                "SUBMITTED",
                "LAUNCHING",
                "RUNNING",
                "RELAUNCHING",
                "FINISHED",
                "KILLED",
                "FAILED",
                "ERROR",
            ],
        )]),
        Metric::gauge("interrex_executors", "Executors that are still recorded, by state, as the leader knows them.")
            .by(&[Label::of(
                "state",
                &[
                    "LAUNCHING",
                    "RUNNING",
                    "KILLING",
                    "DECOMMISSIONED",
                    "KILLED",
                    "FAILED",
                    "LOST",
                    "EXITED",
                ],
            )]),
        Metric::gauge("interrex_cores", "Cores of workers that are alive, by state.").by(USED_OR_FREE),
        Metric::gauge("interrex_memory_bytes", "Memory of workers that are alive, by state.").by(USED_OR_FREE),
        Metric::gauge(
            "interrex_driver_share_cores",
            "Cores of drivers that need executors: used, and the most that they may have together.",
        )
        .by(&[Label::of("state", &["used", "max"])]),
        Metric::gauge(
            "interrex_waiting_oldest_seconds",
            "How long the driver or application that waits longest has waited; 0 while none does.",
        )
        .by(&[Label::of("kind", &["driver", "app"])]),
        Metric::histogram(
            "interrex_worker_heartbeat_age_seconds",
            "How long a worker had been silent when it was heard of again.",
        ),
        // Requests.
        Metric::counter("interrex_submissions_total", "Submissions answered by this master.").by(&[SOURCE, RESULT]),
        Metric::histogram(
            "interrex_submission_duration_seconds",
            "From a submission's arrival to its answer, which is durable.",
        )
        .by(&[SOURCE]),
        Metric::counter(
            "interrex_submission_replays_total",
            "Submissions that had been accepted before: retries that found their first try.",
        ),
        Metric::histogram(
            "interrex_schedule_wait_seconds",
            "From the acceptance of a driver or application to its first process.",
        )
        .by(&[Label::of("kind", &["driver", "app"])]),
        Metric::counter("interrex_registrations_total", "Registrations of workers and applications by result.").by(&[
            Label::of("kind", &["worker", "app", "spark_app", "spark_worker"]),
            Label::of("result", &["accepted", "refused", "outdated", "not_leader"]),
        ]),
        Metric::counter("interrex_events_total", "Entries of the event log that this master has committed.")
            .by(&[Label::open("kind")])
            .when("once it has committed one of the kind"),
        Metric::counter(
            "interrex_events_ignored_total",
            "Reports and events that changed nothing.",
        )
        .by(&[Label::of("reason", &["stale", "unknown", "repeated", "refused"])]),
        Metric::counter("interrex_http_handled_total", "Requests of the submission API by endpoint and status.")
            .by(&[ENDPOINT, Label::open("status")])
            .when("once there was one"),
        Metric::histogram("interrex_http_handling_seconds", "Time to answer a request of the submission API.")
            .by(&[ENDPOINT]),
        Metric::counter("interrex_grpc_handled_total", "Calls of the control API by method and code.")
            .by(&[Label::open("method"), Label::open("code")])
            .when("once there was one"),
        Metric::histogram(
            "interrex_grpc_handling_seconds",
            "Time to answer a call of the control API; Wait waits by design.",
        )
        .by(&[Label::open("method")])
        .when("once there was one"),
        // The loop and its queues.
        Metric::histogram("interrex_event_loop_lag_seconds", "How late the leader's loop turned."),
        Metric::histogram(
            "interrex_event_loop_turn_duration_seconds",
            "How long the leader's loop was busy with what it woke up for, decisions of the scheduler included.",
        )
        .by(&[Label::of("event", &["requests", "committed", "tick", "other"])]),
        Metric::gauge("interrex_loop_silence_seconds", "How long ago the master's loop last turned."),
        Metric::gauge("interrex_queue_depth", "What waits in, or holds a place of, a bounded queue.").by(QUEUE),
        Metric::gauge("interrex_queue_limit", "The most that may wait in, or hold a place of, a bounded queue.").by(QUEUE),
        Metric::counter(
            "interrex_requests_refused_total",
            "What was refused or dropped because a bounded queue was full.",
        )
        .by(QUEUE),
        Metric::histogram("interrex_commit_batch_mutations", "Changes of records in one commit."),
        Metric::counter("interrex_commit_failures_total", "Commits that ended a leadership, by what became of them.")
            .by(&[Label::of("reason", &["fenced", "rejected", "unknown", "late"])]),
        Metric::counter("interrex_task_panics_total", "Tasks of this master that panicked; somebody must look.")
            .by(&[Label::open("task")])
            .when("once one has panicked"),
        // Sessions.
        Metric::counter("interrex_sessions_closed_total", "Streams closed by this master, by reason.")
            .by(&[Label::of("reason", &["replaced", "slow"])]),
        Metric::counter(
            "interrex_effects_dropped_total",
            "Orders and notices without a session to send them to; they are derived again.",
        )
        .by(&[Label::of("kind", &Body::KINDS)]),
        Metric::counter(
            "interrex_frames_dropped_total",
            "Frames of peers that made no sense and were dropped.",
        ),
        Metric::counter(
            "interrex_spark_refusals_total",
            "What came to the RPC port as Spark's protocol, or as HTTP/1, and was refused, by what was wrong with it.",
        )
        .by(&[Label::open("what")])
        .when("once something was"),
        Metric::counter(
            "interrex_denied_total",
            "Changes asked for without a token that counts; missing: none was shown, unknown: it is nobody's.",
        )
        .by(&[
            Label::of("edge", &["grpc", "rest", "web"]),
            Label::of("reason", &["missing", "unknown"]),
        ])
        .when("once something was"),
        Metric::counter(
            "interrex_reregistrations_asked_total",
            "Workers asked for a full report; differs: a heartbeat showed that they run something else than is recorded.",
        )
        .by(&[Label::of("reason", &["not_registered", "no_report", "differs"])]),
    ],
};
