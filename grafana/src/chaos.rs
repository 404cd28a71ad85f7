//! For runs that break things on purpose: was it available, did it heal, did anything happen twice?

use crate::{
    board::{Board, Row},
    panel::{Panel, Unit},
};

/// The board of chaos runs.
pub(crate) fn board() -> Board {
    Board {
        file: "chaos.json",
        uid: "interrex-chaos",
        title: "Interrex / Chaos runs",
        description: "A cluster under faults: who is up, who leads, what is answered, how it heals. With a scrape interval of one second.",
        from: "now-15m",
        rows: vec![faults(), promises(), healing()],
    }
}

fn faults() -> Row {
    Row {
        title: "What is broken",
        panels: vec![
            Panel::series("Faults", Unit::Count, "What a live run has done to the cluster, by kind. Empty unless one with `--metrics-addr` is scraped.")
                .increases("kind", "interrex_chaos_faults_total"),
            Panel::timeline(
                "Processes that answer",
                "One bar a master and an agent, by whether its scrape works.",
                &[("0", "down", "red"), ("1", "up", "green")],
            )
            .query("{{instance}}", r#"up{@,job=~"interrex-.*"}"#),
            Panel::timeline("Who leads", "At most one bar is green, but for a moment in which a deposed leader has not noticed.", &[
                ("0", "standby", "text"),
                ("1", "leads", "green"),
            ])
            .instances("interrex_is_leader"),
            Panel::series("Restarts", Unit::Count, "Processes whose start time has changed.")
                .query("{{instance}}", "changes(process_start_time_seconds{@}[$__rate_interval])"),
            Panel::series("Epoch", Unit::Count, "As each master and agent knows it. It never falls, on any of them.")
                .instances("interrex_epoch")
                .query("{{instance}} (agent)", "interrex_session_attached_epoch{@} > 0"),
            Panel::series("Slow disks and full ones", Unit::Count, "1: appends take too long. Handed over: leadership left because of it.")
                .query("{{instance}} slow", "interrex_raft_disk_slow{@}")
                .query("handed over", "sum(increase(interrex_raft_disk_hand_overs_total{@}[$__rate_interval]))"),
        ],
    }
}

fn promises() -> Row {
    Row {
        title: "What is promised",
        panels: vec![
            Panel::series("Leaders", Unit::Count, "Masters that say that they lead. 2 for longer than one scrape would be a fault.")
                .query("leaders", "sum(interrex_is_leader{@})")
                .limits(1.5, 2.0),
            Panel::series("Accepted submissions", Unit::PerSecond, "New ones, and retries that found their first try.")
                .query("{{result}}", r#"sum by (result) (rate(interrex_submissions_total{@,result=~"accepted|replayed"}[$__rate_interval]))"#),
            Panel::series("Submissions in doubt", Unit::PerSecond, "`unknown`: the client has to ask again, with the same id. `not_leader`: it asked a standby.")
                .query(
                    "{{result}}",
                    r#"sum by (result) (rate(interrex_submissions_total{@,result!~"accepted|replayed"}[$__rate_interval]))"#,
                ),
            Panel::series("Stale orders refused", Unit::Count, "The fence at work: orders of a deposed leader that agents did not obey.")
                .increases("kind", "interrex_stale_messages_total"),
            Panel::series("Cores booked and held", Unit::Count, "As the leader has booked them and as agents hold them. The two meet again after every fault.")
                .query("booked", r#"sum(interrex_cores{@,state="used"})"#)
                .query("held", r#"sum(interrex_agent_cores{@,state="used"})"#),
            Panel::series("Records that cannot be read", Unit::Count, "Must stay zero.")
                .query("quarantined", "sum(interrex_records_quarantined_total{@})")
                .limits(0.5, 1.0),
        ],
    }
}

fn healing() -> Row {
    Row {
        title: "How it heals",
        panels: vec![
            Panel::series("Time without a leader", Unit::Seconds, "Mean, by master. Empty while the leader stays.").query(
                "{{instance}}",
                "increase(interrex_election_duration_seconds_sum{@}[$__rate_interval]) / increase(interrex_election_duration_seconds_count{@}[$__rate_interval])",
            ),
            Panel::series("Elections won", Unit::Count, "Elections that each master has won.")
                .query("{{instance}}", "increase(interrex_elections_won_total{@}[$__rate_interval])"),
            Panel::series("Agents find the leader", Unit::Seconds, "Mean time from losing a leader to the next attachment. Empty while the leader stays.")
                .query(
                    "{{instance}}",
                    "increase(interrex_session_reattach_duration_seconds_sum{@}[$__rate_interval]) / increase(interrex_session_reattach_duration_seconds_count{@}[$__rate_interval])",
                ),
            Panel::series("Reports that wait", Unit::Count, "Rises while there is no leader, and falls to zero when there is one.")
                .instances("interrex_agent_outbox_depth"),
            Panel::series("Lag of masters that came back", Unit::Count, "Falls to zero when they have caught up.")
                .query("{{peer}}", "max by (peer) (interrex_raft_replication_lag_entries{@})"),
            Panel::stacked("Workers", Unit::Count, "All ALIVE again after every fault.")
                .summed("state", "interrex_workers"),
        ],
    }
}
