//! `docs/metrics.md` is what the code says of its metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use interrex_proto::metric::{Kind, Label, Metric, Table};

/// Set to write the files that are made from code.
pub(super) const UPDATE: &str = "UPDATE_GENERATED";

const HEAD: &str = "\
# Metrics

<!-- Written from the tables in the code by `make docs`; a test holds the two together. -->

Masters serve these at `/metrics` of their web address (8080), agents of theirs (8081), in Prometheus' text format. Every
counter and histogram whose labels are known begins at zero with the process, so that a rate misses no first event.
Gauges about the cluster (workers, drivers, cores ...) are the leader's; on a standby they are 0, so that sums over
masters are right. Labels are bounded: never an id, a path or a user's text.

Dashboards, alerts and a scrape configuration are in [grafana/](../grafana/README.md).
";

const TAIL: &str = "
## Processes

Masters and agents also serve `process_cpu_seconds_total`, `process_resident_memory_bytes`,
`process_virtual_memory_bytes`, `process_open_fds`, `process_max_fds`, `process_threads` and
`process_start_time_seconds`, with the meaning that they have everywhere.
";

/// Every table of metrics, in the order of the page.
pub(super) fn tables() -> Vec<&'static Table> {
    let mut tables = vec![&interrex_control_plane::metrics::TABLE];
    tables.extend(interrex_persistence::metrics::tables());
    tables.push(&interrex_agent::metrics::TABLE);
    tables.push(&interrex_client::metrics::TABLE);
    tables.push(&interrex_proto::trace::TABLE);
    tables.push(&interrex_chaos::metrics::TABLE);
    tables
}

fn label(label: &Label) -> String {
    match label.values {
        [] => format!("`{}`", label.name),
        values => format!("`{}`: {}", label.name, values.join(", ")),
    }
}

fn row(metric: &Metric) -> String {
    let labels: Vec<String> = metric.labels.iter().map(label).collect();
    let when = metric
        .when
        .map_or_else(String::new, |when| format!(" Shown {when}."));
    let (name, kind, help) = (metric.name, metric.kind.name(), metric.help);
    format!(
        "| `{name}` | {kind} | {help}{when} | {} |\n",
        labels.join("; ")
    )
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for table in tables() {
        page.push_str(&format!(
            "\n## {}\n\n| metric | kind | meaning | labels |\n|---|---|---|---|\n",
            table.title
        ));
        table
            .metrics
            .iter()
            .for_each(|metric| page.push_str(&row(metric)));
    }
    page.push_str(TAIL);
    page
}

#[test]
fn the_page_of_metrics_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, page()).expect("docs are writable");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page(),
        "docs/metrics.md is not current: run `make docs`"
    );
}

#[test]
fn names_and_words_keep_the_rules() {
    let mut seen: BTreeMap<&str, (Kind, &str)> = BTreeMap::new();
    for metric in tables().into_iter().flat_map(|table| table.metrics) {
        let name = metric.name;
        assert!(name.starts_with("interrex_"), "{name}");
        assert_eq!(
            name.ends_with("_total"),
            metric.kind == Kind::Counter,
            "{name}"
        );
        assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
        assert!(
            metric.when.is_none_or(|when| !when.ends_with('.')),
            "{name}"
        );
        assert!(!metric.help.contains('|'), "{name} would break the table");
        // Masters and agents may have the same metric, but not of two kinds.
        let before = seen.insert(name, (metric.kind, metric.help));
        assert!(
            before.is_none_or(|(kind, _)| kind == metric.kind),
            "{name} is of two kinds"
        );
    }
}

/// What log filters name so.
const TARGETS: [&str; 4] = [
    "interrex_agent",
    "interrex_client",
    "interrex_control_plane",
    "interrex_persistence",
];

/// Words of a text that are names of ours.
fn names_in(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !word(c));
    let ours = words.filter(|name| name.starts_with("interrex_") && !TARGETS.contains(name));
    ours.map(ToOwned::to_owned).collect()
}

#[test]
fn pages_and_alerts_name_only_metrics_that_exist() {
    let known: BTreeSet<&str> = tables()
        .iter()
        .flat_map(|table| table.metrics)
        .map(|metric| metric.name)
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    let mut pages = vec![
        root.join("README.md"),
        root.join("grafana/prometheus/alerts.yml"),
    ];
    for folder in ["docs", "docs/runbooks"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("a folder");
        pages.extend(
            entries
                .map(|entry| entry.expect("an entry").path())
                .filter(|path| path.is_file()),
        );
    }
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let text = String::from_utf8_lossy(&std::fs::read(&page).expect("a page")).into_owned();
        for name in names_in(&text) {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|ending| name.strip_suffix(ending));
            if !known.contains(name.as_str()) && !base.is_some_and(|base| known.contains(base)) {
                wrong.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "no such metrics");
}
