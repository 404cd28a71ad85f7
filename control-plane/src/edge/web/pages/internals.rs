//! One master from the inside, whoever leads: its role, how it sees the others, and what its store says.

use std::collections::BTreeMap;

use askama::Template;
use interrex_web::{
    format::{count, counted, span},
    frame::Frame,
    marks::{Link, Pill, Tone},
};

use super::overview;
use crate::{
    edge::{
        admin::STUCK_AFTER,
        cluster,
        web::{
            context::{Context, Who},
            serve::Made,
        },
    },
    metrics,
};

/// What the names of all metrics begin with.
const NAMESPACE: &str = "interrex_";
/// Metrics that are about consensus, the store and the loop, by how their names go on.
const GROUPS: [&str; 8] = [
    "raft_",
    "store_",
    "etcd_",
    "sled_",
    "queue_",
    "sessions",
    "elections_",
    "step_downs_",
];
/// Metrics that are listed.
const METRICS_SHOWN: usize = 200;

#[derive(Template)]
#[template(path = "internals.html")]
struct Internals {
    frame: Frame,
    who: Who,
    me: String,
    role: Pill,
    ready: Pill,
    checks: Vec<(Pill, &'static str, String)>,
    members: Vec<Member>,
    seen_by_leader: bool,
    viewers: String,
    metrics: Vec<MetricRow>,
}

/// A master as this one sees it.
struct Member {
    id: String,
    link: Link,
    role: Pill,
    rpc: String,
    rest: String,
    web: String,
    lag: String,
}

/// A metric's value.
struct MetricRow {
    name: String,
    /// What it is; only at the first of its series.
    help: String,
    labels: String,
    value: String,
}

pub(super) fn make(context: &Context) -> Made {
    let (site, status) = (&context.site, &context.status);
    let health = site.handle.admin().health();
    let silent = site.handle.since_last_turn();
    let turns = format!(
        "turned {} ago",
        span(u64::try_from(silent.as_millis()).unwrap_or(u64::MAX))
    );
    let leader = match &status.leader {
        Some(leader) => format!("{} leads in epoch {}", leader.id, status.epoch),
        None => "no leader is known".to_owned(),
    };
    let check = |holds: bool, name, words| {
        let pill = if holds {
            Pill::new("OK", Tone::Good)
        } else {
            Pill::new("NOT_OK", Tone::Bad)
        };
        (pill, name, words)
    };
    let checks = vec![
        check(status.leader.is_some(), "Leader", leader),
        check(health.ready, "Store", health.detail),
        check(silent < STUCK_AFTER, "Loop", turns),
    ];
    let ready = status.leader.is_some() && health.ready && silent < STUCK_AFTER;
    let cluster = cluster::describe(&site.handle);
    let members = cluster.masters.iter().map(|master| Member {
        link: Link::out(master.id.clone(), &master.web, "/internals"),
        role: overview::role(&master.role, master.healthy),
        rpc: master.rpc.clone(),
        rest: master.rest.clone(),
        web: master.web.clone(),
        lag: master.lag.map(count).unwrap_or_default(),
        id: master.id.clone(),
    });
    let page = Internals {
        who: context.who(),
        me: status.me.id.clone(),
        role: Pill::new(
            &status.role.name().to_uppercase(),
            Tone::of(&status.role.name().to_uppercase()),
        ),
        ready: if ready {
            Pill::of("READY")
        } else {
            Pill::new("NOT_READY", Tone::Bad)
        },
        checks,
        members: members.collect(),
        seen_by_leader: context.leads(),
        viewers: counted(site.live.viewers() as u64, "open page"),
        metrics: measured(context),
        frame: context.frame("/internals"),
    };
    Ok(page.render()?)
}

/// What the recorder has, as far as it is about consensus and the store: without the parts of histograms but their
/// counts and sums.
fn measured(context: &Context) -> Vec<MetricRow> {
    let Some(prometheus) = &context.site.prometheus else {
        return Vec::new();
    };
    metrics::refresh(&context.site.handle);
    rows(&prometheus.render())
}

/// The metrics of `text` that are meant, ordered by name; what one is is said at its first row.
fn rows(text: &str) -> Vec<MetricRow> {
    let is_meant = |line: &&str| {
        let name = line.strip_prefix(NAMESPACE).unwrap_or_default();
        GROUPS.iter().any(|group| name.starts_with(group))
    };
    let rows = text.lines().filter(is_meant).filter_map(row);
    let mut rows: Vec<MetricRow> = rows.filter(|row| !row.name.ends_with("_bucket")).collect();
    rows.sort_by(|a, b| (&a.name, &a.labels).cmp(&(&b.name, &b.labels)));
    rows.truncate(METRICS_SHOWN);
    let helps = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let mut helps: BTreeMap<&str, &str> = helps.collect();
    for row in &mut rows {
        let base = row.name.trim_end_matches("_count").trim_end_matches("_sum");
        let help = helps
            .remove(row.name.as_str())
            .or_else(|| helps.remove(base));
        row.help = help.unwrap_or_default().to_owned();
    }
    rows
}

fn row(line: &str) -> Option<MetricRow> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some(MetricRow {
        name: name.to_owned(),
        help: String::new(),
        labels: labels.trim_end_matches('}').replace(',', ", "),
        value: value
            .parse::<f64>()
            .map_or_else(|_| value.to_owned(), number),
    })
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..9e15).contains(&value) {
        return count(value as u64);
    }
    format!("{value:.6}")
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_recorder_writes_is_read_back_with_its_meaning() {
        let text = "# HELP X_raft_lag Entries behind.\n# TYPE X_raft_lag gauge\nX_raft_lag{peer=\"m3\"} 1234\n\
            X_raft_lag{peer=\"m2\",kind=\"a\"} 0\nX_other 1\n# HELP X_store_seconds How long.\n\
            X_store_seconds_bucket{le=\"1\"} 5\nX_store_seconds_sum 0.0125000\n";
        let rows = rows(&text.replace("X_", NAMESPACE));
        let seen = rows.iter().map(|row| {
            let name = row.name.strip_prefix(NAMESPACE).unwrap_or_default();
            (
                name,
                row.help.as_str(),
                row.labels.as_str(),
                row.value.as_str(),
            )
        });
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [
                (
                    "raft_lag",
                    "Entries behind.",
                    "peer=\"m2\", kind=\"a\"",
                    "0"
                ),
                ("raft_lag", "", "peer=\"m3\"", "1,234"),
                ("store_seconds_sum", "How long.", "", "0.0125"),
            ]
        );
    }
}
