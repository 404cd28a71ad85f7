//! For whoever has been woken up: Raft, the store, calls, recovery, the leader's loop, sessions and agents.

use crate::{
    board::{Board, Row},
    panel::{Panel, Unit},
};

/// The internals.
pub(crate) fn board() -> Board {
    Board {
        file: "internals.json",
        uid: "interrex-internals",
        title: "Interrex / Internals",
        description: "Raft, store, calls, recovery, event loop, sessions and agents of a cluster.",
        from: "now-1h",
        rows: vec![
            raft(),
            disk(),
            store(),
            calls(),
            recovery(),
            event_loop(),
            sessions(),
            agents(),
            processes(),
        ],
    }
}

fn raft() -> Row {
    Row {
        title: "Raft",
        panels: vec![
            Panel::series("Term", Unit::Count, "Rises with every election that anybody tries. The same on all masters but for moments.")
                .instances("interrex_raft_term"),
            Panel::series(
                "Log",
                Unit::Count,
                "Newest entry in the log, on a quorum, and in the records. The three should lie on one line.",
            )
            .query("{{instance}} last", "interrex_raft_last_index{@}")
            .query("{{instance}} committed", "interrex_raft_committed_index{@}")
            .query("{{instance}} applied", "interrex_raft_applied_index{@}"),
            Panel::series(
                "Lag of peers",
                Unit::Count,
                "Entries that each peer is behind the leader. Growing without end: it is down, slow or cut off.",
            )
            .query("{{peer}}", "max by (peer) (interrex_raft_replication_lag_entries{@})"),
            Panel::series(
                "Quorum last heard",
                Unit::Seconds,
                "How long ago a quorum last confirmed the leader. It steps down at 0.3 s; stay far below.",
            )
            .instances("interrex_last_quorum_ack_age_seconds")
            .limits(0.15, 0.3),
            Panel::series("Heartbeat to peers", Unit::Seconds, "From a heartbeat until the peer has taken it.")
                .percentiles("interrex_raft_peer_rtt_seconds", "peer"),
            Panel::series("Voters", Unit::Count, "Masters that may vote, and how many may still be lost as the leader sees it.")
                .query("voters", "max(interrex_raft_voters{@})")
                .query("may be lost", "max(interrex_raft_failures_tolerated{@})"),
        ],
    }
}

fn disk() -> Row {
    Row {
        title: "Log and disk",
        panels: vec![
            Panel::series("Append", Unit::Seconds, "From handing entries to the log until they are on the disk.")
                .percentiles("interrex_raft_append_duration_seconds", "instance"),
            Panel::series(
                "Fsync",
                Unit::Seconds,
                "One write and fsync, which many appends share. Below 10 ms on an SSD; above 0.5 s leadership is at risk.",
            )
            .percentiles("interrex_raft_fsync_duration_seconds", "instance"),
            Panel::series("Fsyncs", Unit::PerSecond, "How often the log is synced; far fewer than commits under load.")
                .query("{{instance}}", "rate(interrex_raft_fsyncs_total{@}[$__rate_interval])"),
            Panel::series("Apply", Unit::Seconds, "Putting a group of entries into the records.")
                .percentiles("interrex_raft_apply_duration_seconds", "instance"),
            Panel::series("Log size", Unit::Bytes, "On the disk. Falls when a snapshot lets the log be cut.")
                .instances("interrex_raft_log_bytes"),
            Panel::series(
                "Entries since the snapshot",
                Unit::Count,
                "What a master that starts has to read again, beside the snapshot.",
            )
            .query("{{instance}}", "interrex_raft_last_index{@} - interrex_raft_snapshot_index{@}"),
            Panel::series("Age of the snapshot", Unit::Seconds, "Of the newest that raft took by itself. None is normal for a small log.")
                .instances("interrex_snapshot_age_seconds"),
            Panel::series("Snapshots", Unit::Seconds, "Mean time to write one, and to take one over from the leader. Empty while there is none.")
                .mean("write", "interrex_raft_snapshot_build_duration_seconds")
                .mean("take over", "interrex_raft_snapshot_install_duration_seconds"),
            Panel::series(
                "Trouble with disks",
                Unit::Count,
                "Disks that are slow (1), openings after an error, and leaderships handed over because of the disk.",
            )
            .query("{{instance}} slow", "interrex_raft_disk_slow{@}")
            .query("opened again", "sum(increase(interrex_raft_reopens_total{@}[$__rate_interval]))")
            .query("handed over", "sum(increase(interrex_raft_disk_hand_overs_total{@}[$__rate_interval]))"),
        ],
    }
}

fn store() -> Row {
    Row {
        title: "Store",
        panels: vec![
            Panel::series("Operations", Unit::Seconds, "Commits, confirmations for reads, and openings of epochs, whatever the engine.")
                .percentiles("interrex_store_op_duration_seconds", "op"),
            Panel::series("Rate", Unit::PerSecond, "Operations of the store a second.")
                .rates("op", "interrex_store_op_duration_seconds_count"),
            Panel::series("Changes in one commit", Unit::Count, "Group commit: the more clients at a time, the more share one write.")
                .mean("mean", "interrex_commit_batch_mutations"),
            Panel::series("Size", Unit::Bytes, "What the records take.").instances("interrex_store_size_bytes"),
            Panel::series("Failed commits", Unit::Count, "Each of them ended a leadership.")
                .increases("reason", "interrex_commit_failures_total"),
            Panel::series(
                "etcd lease",
                Unit::Seconds,
                "With the etcd engine only: how long the lease is good for, and how long a renewal takes.",
            )
            .query("{{instance}} left", "interrex_etcd_lease_left_seconds{@}")
            .query(
                "{{instance}} renewal p99",
                "histogram_quantile(0.99, sum by (le, instance) (rate(interrex_etcd_lease_renewal_seconds_bucket{@}[$__rate_interval])))",
            ),
        ],
    }
}

fn calls() -> Row {
    Row {
        title: "Calls",
        panels: vec![
            Panel::series("gRPC calls", Unit::PerSecond, "Calls of the control API by method.")
                .rates("method", "interrex_grpc_handled_total"),
            Panel::series("gRPC time", Unit::Seconds, "Time to answer; `Wait` and `WatchEvents` wait by design.")
                .percentiles("interrex_grpc_handling_seconds", "method"),
            Panel::series("gRPC codes", Unit::PerSecond, "How calls ended. UNAVAILABLE: asked a standby, which names the leader.")
                .rates("code", "interrex_grpc_handled_total"),
            Panel::series("REST requests", Unit::PerSecond, "Requests of Spark's submission API by endpoint and status.")
                .query("{{endpoint}} {{status}}", "sum by (endpoint, status) (rate(interrex_http_handled_total{@}[$__rate_interval]))"),
            Panel::series("REST time", Unit::Seconds, "Time to answer a request of the submission API.")
                .percentiles("interrex_http_handling_seconds", ""),
            Panel::series(
                "Checks of leadership",
                Unit::PerSecond,
                "Reads ask the quorum whether this master still leads. `unanswered` and `deposed` should be rare.",
            )
            .rates("result", "interrex_leader_checks_total"),
        ],
    }
}

fn recovery() -> Row {
    Row {
        title: "Recovery",
        panels: vec![
            Panel::timeline(
                "State",
                "What each master is at. ALIVE on the leader; STANDBY on the others.",
                &[
                    ("0", "STANDBY", "text"),
                    ("1", "RECOVERING", "orange"),
                    ("2", "COMPLETING_RECOVERY", "yellow"),
                    ("3", "ALIVE", "green"),
                    ("4", "RESTORING", "red"),
                ],
            )
            .query(
                "{{instance}}",
                r#"sum by (instance) (1 * interrex_recovery_state{@,state="RECOVERING"} or 2 * interrex_recovery_state{@,state="COMPLETING_RECOVERY"} or 3 * interrex_recovery_state{@,state="ALIVE"} or 4 * interrex_recovery_state{@,state="RESTORING"})"#,
            ),
            Panel::series("Elected to serving", Unit::Seconds, "Mean time to read everything back and serve. Empty while the leader stays.")
                .wide(6)
                .mean("mean", "interrex_recovery_duration_seconds"),
            Panel::series(
                "Serving to reconciled",
                Unit::Seconds,
                "Mean time until every known worker has reported or was given up. Work goes on meanwhile. Empty while the leader stays.",
            )
            .wide(6)
            .mean("mean", "interrex_reconciliation_duration_seconds"),
            Panel::series("Records read back", Unit::Count, "By new leaders, by kind; quarantined ones could not be read.")
                .wide(12)
                .query(
                    "{{kind}} {{result}}",
                    "sum by (kind, result) (increase(interrex_recovery_records_total{@}[$__rate_interval])) > 0 or on () vector(0)",
                ),
            Panel::series("Workers asked for a full report", Unit::Count, "By reason. `differs`: a heartbeat did not match what is recorded.")
                .wide(12)
                .increases("reason", "interrex_reregistrations_asked_total"),
        ],
    }
}

fn event_loop() -> Row {
    Row {
        title: "The leader's loop",
        panels: vec![
            Panel::series("Lag", Unit::Seconds, "How late the loop turned. It turns every 100 ms; above 0.5 s it is overloaded or the machine is.")
                .percentiles("interrex_event_loop_lag_seconds", "instance"),
            Panel::series("Turns", Unit::Seconds, "How long it was busy with what woke it up; the scheduler's decisions are in here.")
                .percentiles("interrex_event_loop_turn_duration_seconds", "event"),
            Panel::series("Busy", Unit::Ratio, "Share of its time that the loop was busy, by what for. At 1 it is the bottleneck.")
                .rates("event", "interrex_event_loop_turn_duration_seconds_sum"),
            Panel::series("Silence", Unit::Seconds, "How long ago each master's loop last turned; `/livez` fails at 10 s.")
                .instances("interrex_loop_silence_seconds")
                .limits(2.0, 10.0),
            Panel::series("Queues", Unit::Ratio, "How full each bounded queue of masters and agents is.")
                .query("{{queue}}", "max by (queue) (interrex_queue_depth{@} / (interrex_queue_limit{@} > 0))"),
            Panel::series("Reports that changed nothing", Unit::PerSecond, "Repeated and late ones are normal; `refused` and `unknown` should be rare.")
                .rates("reason", "interrex_events_ignored_total"),
        ],
    }
}

fn sessions() -> Row {
    Row {
        title: "Sessions",
        panels: vec![
            Panel::series("Sessions", Unit::Count, "Open streams of agents and applications, at every master: standbys have idle ones.")
                .query("{{instance}}", r#"interrex_queue_depth{@,queue="sessions"}"#),
            Panel::series("Registrations", Unit::PerSecond, "Of workers and applications, by result.")
                .query("{{kind}} {{result}}", "sum by (kind, result) (rate(interrex_registrations_total{@}[$__rate_interval]))"),
            Panel::series("Streams that masters closed", Unit::Count, "`slow`: the peer did not read; `replaced`: it came back on another one.")
                .increases("reason", "interrex_sessions_closed_total"),
            Panel::series("Orders without a receiver", Unit::PerSecond, "Derived again when the peer is back.")
                .query("{{kind}}", "sum by (kind) (rate(interrex_effects_dropped_total{@}[$__rate_interval])) > 0 or on () vector(0)"),
            Panel::series("Frames that made no sense", Unit::PerSecond, "Dropped. Normally none: another version, or something that is no agent.")
                .query("{{instance}}", "rate(interrex_frames_dropped_total{@}[$__rate_interval])"),
            Panel::series("Events", Unit::PerSecond, "Entries of the event log by kind: what happens in the cluster.")
                .rates("kind", "interrex_events_total"),
        ],
    }
}

fn agents() -> Row {
    Row {
        title: "Agents",
        panels: vec![
            Panel::stacked("Processes", Unit::Count, "By state. `waiting`: for room, or for an earlier attempt to end.")
                .summed("state", "interrex_agent_processes"),
            Panel::series("Launches", Unit::PerSecond, "Processes that were to be started, by what came of it.")
                .rates("result", "interrex_agent_launches_total"),
            Panel::series("Reports not acknowledged", Unit::Count, "Kept on the agent's disk until a master has them. Grows while there is no leader.")
                .instances("interrex_agent_outbox_depth"),
            Panel::series("Epoch that agents follow", Unit::Count, "All on one line, but for the moment of a failover; 0: attached to nobody.")
                .instances("interrex_session_attached_epoch"),
            Panel::series("Reattachments", Unit::Count, "Agents that found a leader again after losing one, and hints that they followed.")
                .query("reattached", "sum(increase(interrex_session_reattaches_total{@}[$__rate_interval]))")
                .query("hints followed", "sum(increase(interrex_session_redirects_followed_total{@}[$__rate_interval]))")
                .query("failovers seen", "max(increase(interrex_failovers_seen_total{@}[$__rate_interval]))"),
            Panel::series("Accepting work", Unit::Count, "1: yes. 0: the disk is too full.").instances("interrex_agent_accepting"),
            Panel::stacked("Cores", Unit::Count, "Offered by agents: used and free, as they see it themselves.")
                .summed("state", "interrex_agent_cores"),
            Panel::series("Work directories", Unit::Bytes, "What the directories of drivers and executors hold.")
                .instances("interrex_agent_work_bytes"),
            Panel::series("Ended for a lost lease", Unit::Count, "At-most-once attempts that were ended because no leader acknowledged their agent for too long.")
                .query("{{instance}}", "increase(interrex_agent_lease_ends_total{@}[$__rate_interval])"),
        ],
    }
}

fn processes() -> Row {
    Row {
        title: "Processes of masters and agents",
        panels: vec![
            Panel::series("CPU", Unit::Ratio, "Cores that each process uses.").query(
                "{{instance}}",
                "rate(process_cpu_seconds_total{@}[$__rate_interval])",
            ),
            Panel::series("Memory", Unit::Bytes, "Resident memory.")
                .instances("process_resident_memory_bytes"),
            Panel::series(
                "Open files",
                Unit::Ratio,
                "Of the most that the process may have.",
            )
            .query("{{instance}}", "process_open_fds{@} / process_max_fds{@}"),
        ],
    }
}
