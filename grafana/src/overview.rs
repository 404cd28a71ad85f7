//! For the wall: does the cluster have a leader, does it take work, does work run, is there room?

use crate::{
    board::{Board, Row},
    panel::{Panel, Unit},
};

/// The overview.
pub(crate) fn board() -> Board {
    Board {
        file: "overview.json",
        uid: "interrex-overview",
        title: "Interrex / Overview",
        description: "Leadership, jobs, latency, capacity and errors of a cluster.",
        from: "now-1h",
        rows: vec![leadership(), jobs(), latency(), capacity(), errors()],
    }
}

fn leadership() -> Row {
    Row {
        title: "Leadership",
        panels: vec![
            Panel::name(
                "Leader",
                "Who leads. None: nothing is accepted until one is elected, which takes about half a second; what runs goes on.",
            )
            .query("{{instance}}", "interrex_is_leader{@} == 1"),
            Panel::number(
                "Masters that know a leader",
                Unit::Count,
                "Normally all masters. Fewer: some cannot hear the leader.",
            )
            .query("masters", "sum(interrex_has_leader{@})")
            .limits(2.0, 1.0),
            Panel::number(
                "Failures tolerated",
                Unit::Count,
                "How many more masters may be lost before nothing can be stored (Raft). 1 of 3 and 2 of 5 are normal; at 0 the next loss stops the cluster.",
            )
            .query("masters", "max(interrex_raft_failures_tolerated{@})")
            .limits(1.0, 0.0),
            Panel::number("Epoch", Unit::Count, "The number of the leadership. It rises with every new leader and never falls.")
                .query("epoch", "max(interrex_epoch{@})"),
            Panel::number(
                "Leader changes (1 h)",
                Unit::Count,
                "Leaderships seen in the last hour. Some after a restart or a transfer are normal; more than four in a quarter of an hour are not.",
            )
            .query("changes", "max(increase(interrex_leader_changes_total{@}[1h]))")
            .limits(4.0, 10.0),
            Panel::timeline(
                "Who leads",
                "One bar a master. At every moment one of them should be green.",
                &[("0", "standby", "text"), ("1", "leads", "green")],
            )
            .instances("interrex_is_leader"),
            Panel::series(
                "Time without a leader",
                Unit::Seconds,
                "How long masters knew no leader before they knew one again, per change. About half a second after a crash, some tens of milliseconds when leadership is handed over. Empty while the leader stays.",
            )
            .wide(12)
            .mean("mean", "interrex_election_duration_seconds"),
        ],
    }
}

fn jobs() -> Row {
    Row {
        title: "Jobs",
        panels: vec![
            Panel::stacked("Drivers", Unit::Count, "Drivers that are not over, by state. SUBMITTED: they wait for room.")
                .query(
                    "{{state}}",
                    r#"sum by (state) (interrex_drivers{@,state=~"SUBMITTED|LAUNCHING|RUNNING|RELAUNCHING"})"#,
                ),
            Panel::stacked("Applications", Unit::Count, "Applications that are not over, by state. WAITING: no executor yet.")
                .query("{{state}}", r#"sum by (state) (interrex_apps{@,state=~"WAITING|RUNNING"})"#),
            Panel::stacked("Executors", Unit::Count, "Executors that are recorded, by state.")
                .summed("state", "interrex_executors"),
            Panel::series(
                "Submissions",
                Unit::PerSecond,
                "Answered submissions by result. `replayed` are retries that found their first try: normal around a failover.",
            )
            .rates("result", "interrex_submissions_total"),
            Panel::series("Submissions by way in", Unit::PerSecond, "gRPC (`interrex submit`) and REST (`spark-submit`).")
                .rates("source", "interrex_submissions_total"),
            Panel::series(
                "Longest wait now",
                Unit::Seconds,
                "How long the oldest waiting driver and application have waited. Rising with a slope of one: something never fits; ask `interrex explain ID`.",
            )
            .query("{{kind}}", "max by (kind) (interrex_waiting_oldest_seconds{@})"),
        ],
    }
}

fn latency() -> Row {
    Row {
        title: "Latency",
        panels: vec![
            Panel::series(
                "Submission",
                Unit::Seconds,
                "From a submission's arrival to its durable answer. A few milliseconds on a quiet cluster.",
            )
            .percentiles("interrex_submission_duration_seconds", ""),
            Panel::series("Commit", Unit::Seconds, "One write to the store until a quorum has it. Every answer waits for one.")
                .percentiles(r#"interrex_store_op_duration_seconds{@,op="commit"}"#, ""),
            Panel::series(
                "Acceptance to first process",
                Unit::Seconds,
                "How long drivers and applications waited until something of them ran: queueing and launching.",
            )
            .percentiles("interrex_schedule_wait_seconds", "kind"),
            Panel::series("Launch", Unit::Seconds, "On the agents: from the decision to start a process until it runs.")
                .percentiles("interrex_agent_launch_duration_seconds", ""),
            Panel::series(
                "Silence of workers",
                Unit::Seconds,
                "How long workers had been silent when they were heard of again; after the worker timeout (20 s by default) they count as dead.",
            )
            .percentiles("interrex_worker_heartbeat_age_seconds", ""),
            Panel::series(
                "Reattachment",
                Unit::Seconds,
                "How long agents took to find the next leader after losing one. Empty while the leader stays.",
            )
            .percentiles("interrex_session_reattach_duration_seconds", ""),
        ],
    }
}

fn capacity() -> Row {
    Row {
        title: "Capacity",
        panels: vec![
            Panel::stacked(
                "Workers",
                Unit::Count,
                "Workers by state. DECOMMISSIONED: being drained. UNKNOWN: not heard of since the last failover.",
            )
            .summed("state", "interrex_workers"),
            Panel::stacked("Cores", Unit::Count, "Cores of living workers: used and free.")
                .summed("state", "interrex_cores"),
            Panel::stacked("Memory", Unit::Bytes, "Memory of living workers: used and free.")
                .summed("state", "interrex_memory_bytes"),
            Panel::series(
                "Share of drivers that need executors",
                Unit::Count,
                "Cores that such drivers hold, and the most they may hold together, so that their applications keep room.",
            )
            .summed("state", "interrex_driver_share_cores"),
            Panel::series("Agents' disks", Unit::Bytes, "What is left where work directories are. An agent takes no work when it runs short.")
                .instances("interrex_agent_disk_free_bytes"),
            Panel::series("Masters' disks", Unit::Bytes, "What is left on the disks of the data directories (Raft).")
                .instances("interrex_raft_disk_free_bytes"),
        ],
    }
}

fn errors() -> Row {
    Row {
        title: "Errors",
        panels: vec![
            Panel::series(
                "Refused by full queues",
                Unit::PerSecond,
                "Requests that were turned away because a bounded queue was full; callers try again. Normally nothing.",
            )
            .query("{{queue}}", "sum by (queue) (rate(interrex_requests_refused_total{@}[$__rate_interval])) > 0 or on () vector(0)"),
            Panel::series(
                "Leaderships that ended",
                Unit::Count,
                "By reason. `resigned` is a restart or a transfer; `fenced`, `lost` and `commit_unknown` are failovers.",
            )
            .query("{{reason}}", "sum by (reason) (increase(interrex_step_downs_total{@}[$__rate_interval])) > 0 or on () vector(0)"),
            Panel::series(
                "Stale messages refused",
                Unit::Count,
                "Messages of a deposed leader that agents refused, and refusals that masters heard of. The fence works; often means that masters pause.",
            )
            .query("refused by agents", "sum(increase(interrex_stale_messages_total{@}[$__rate_interval]))")
            .query("told to masters", "sum(increase(interrex_stale_epoch_answers_total{@}[$__rate_interval]))"),
            Panel::series("Failed calls", Unit::PerSecond, "Calls of the control API that did not end in OK, by code.")
                .query(
                    "{{code}}",
                    r#"sum by (code) (rate(interrex_grpc_handled_total{@,code!="OK"}[$__rate_interval])) or on () vector(0)"#,
                ),
            Panel::series("Launches that failed", Unit::Count, "Processes that agents could not start: a missing program, no rights, no room.")
                .query("{{instance}}", r#"increase(interrex_agent_launches_total{@,result="failed"}[$__rate_interval])"#),
            Panel::series(
                "Trouble inside",
                Unit::Count,
                "Records that could not be read, and tasks that panicked. Anything but zero is a reason to look at the log.",
            )
            .query("quarantined records", "sum(increase(interrex_records_quarantined_total{@}[$__rate_interval]))")
            .query("panics", "sum(interrex_task_panics_total{@}) or on () vector(0)"),
        ],
    }
}
