//! The alerts: their rules hold, each has a page, they see what is really there, and a killed leader fires the right ones.

use std::{collections::BTreeSet, path::Path, process::Command};

use nix::sys::signal::Signal;

use super::prometheus::{Prometheus, grafana, has_data, installed};
use crate::support::{Cluster, Process, expect_code, interrex, wait_for};

/// Selectors that no series of a healthy Raft cluster of this age has, and why.
const ABSENT: &[(&str, &str)] = &[
    (
        "interrex_snapshot_age_seconds",
        "20,000 entries come before the first snapshot",
    ),
    ("interrex_task_panics_total", "no task has panicked"),
];

/// Alerts whose whole expression has no value on such a cluster, and why.
const UNANSWERED: &[(&str, &str)] = &[("InterrexTaskPanicked", "no task has panicked")];

/// Those that go by who is there and who leads. Others may fire on a machine that is busy: slow commits, a late loop.
const LEADERSHIP: [&str; 5] = [
    "InterrexNoLeader",
    "InterrexTwoLeaders",
    "InterrexQuorumAtRisk",
    "InterrexMasterDown",
    "InterrexRecoveryStuck",
];

fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(grafana("prometheus"))
        .output()
        .expect("promtool");
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}:\n{said}");
}

#[test]
fn promtool_finds_nothing_wrong_with_the_rules_and_the_configuration() {
    if installed() {
        promtool(&["check", "rules", "--lint-fatal", "alerts.yml"]);
        promtool(&["check", "config", "prometheus.yml"]);
    }
}

#[test]
fn the_rules_fire_and_stay_silent_as_their_unit_tests_say() {
    if installed() {
        promtool(&["test", "rules", "alerts.test.yml"]);
    }
}

#[test]
fn every_alert_has_a_severity_words_a_page_and_a_unit_test() {
    let rules = std::fs::read_to_string(grafana("prometheus/alerts.yml")).expect("the alerts");
    let tests =
        std::fs::read_to_string(grafana("prometheus/alerts.test.yml")).expect("the unit tests");
    let mut pages = BTreeSet::new();
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().expect("a name").trim();
        assert!(name.starts_with("Interrex"), "{name}");
        assert!(
            rule.contains("severity: critical") || rule.contains("severity: warning"),
            "{name}"
        );
        for words in ["summary: ", "description: "] {
            assert!(rule.contains(words), "{name} has no {words}");
        }
        let page = format!("docs/runbooks/{name}.md");
        assert!(rule.contains(&format!("runbook_url: {page}")), "{name}");
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&page));
        let text = text.unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(
            text.starts_with(&format!("# {name}: ")) && text.contains("## Do"),
            "{page}"
        );
        assert!(tests.contains(name), "{name} has no unit test");
        pages.insert(format!("{name}.md"));
    }
    let found = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbooks"))
        .expect("the folder");
    let found: BTreeSet<String> = found
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, pages, "a page without an alert");
}

/// The metrics of an expression, each with the matchers that stand behind it.
fn selectors(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = expression;
    while let Some(start) = rest.find(word) {
        let from = rest.split_at(start).1;
        let end = from.find(|c| !word(c)).unwrap_or(from.len());
        let (name, behind) = from.split_at(end);
        rest = behind;
        if name == "up" || name.starts_with("interrex_") {
            let matchers = behind
                .starts_with('{')
                .then(|| behind.split_inclusive('}').next().unwrap_or_default());
            found.push(format!("{name}{}", matchers.unwrap_or_default()));
        }
    }
    found
}

/// An expression whose comparisons say 0 or 1 instead of nothing where they do not hold: it has a value where all of its
/// parts have one, and their labels fit each other.
fn with_every_comparison(expression: &str) -> String {
    let mut whole = format!(" {} ", expression.trim());
    for operator in [">=", "<=", "==", "!=", ">", "<"] {
        whole = whole.replace(&format!(" {operator} "), &format!(" {operator} bool "));
    }
    whole.trim().to_owned()
}

#[test]
fn a_comparison_is_made_to_say_what_it_compares() {
    assert_eq!(
        with_every_comparison("max by (x) (a and on (y) b == 1) < 1\nor c{d!=\"e\"} >= 2"),
        "max by (x) (a and on (y) b == bool 1) < bool 1\nor c{d!=\"e\"} >= bool 2"
    );
}

/// Nothing is started by hand that would outlive its cluster: these are killed with the test.
fn start_by_hand(cluster: &Cluster, command: &[String], name: &str) -> Process {
    let mut again = interrex();
    let mut arguments = command.iter().skip(1);
    while let Some(argument) = arguments.next() {
        // It would end at once: this test is not its parent.
        if argument == "--exit-with-parent" {
            arguments.next();
        } else {
            again.arg(argument);
        }
    }
    Process::start(again, &cluster.dir().join(format!("{name}.by-hand.log")))
}

fn command_line(pid: u32) -> Vec<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("it runs");
    line.trim_end_matches('\0')
        .split('\0')
        .map(ToOwned::to_owned)
        .collect()
}

/// Kills whoever leads; returns its name and how it was started.
fn kill_the_leader(cluster: &Cluster, leader: String) -> (String, Vec<String>) {
    let command = command_line(cluster.pid(&leader).expect("it runs"));
    cluster.signal(&leader, Signal::SIGKILL);
    (leader, command)
}

#[test]
fn a_killed_leader_fires_the_right_alerts_and_they_resolve() {
    if !installed() {
        return;
    }
    let cluster = Cluster::start(&[]);
    let prometheus = Prometheus::start(&cluster, "2s");
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
    every_alert_sees_something(&prometheus);
    let fires = |name: &str| {
        wait_for(&format!("{name} fires"), || {
            prometheus.firing().contains(&name.to_owned()).then_some(())
        })
    };
    let none = |what: &str| {
        wait_for(what, || {
            let firing = prometheus.firing();
            let any = LEADERSHIP
                .iter()
                .any(|name| firing.contains(&(*name).to_owned()));
            (!any).then_some(())
        });
    };
    none("a healthy cluster is silent");

    let (first, first_command) = kill_the_leader(&cluster, cluster.leader().0);
    fires("InterrexMasterDown");
    fires("InterrexQuorumAtRisk");
    let still = wait_for("another leads", || {
        Some(cluster.leader().0).filter(|leader| *leader != first)
    });
    assert!(
        !prometheus.firing().contains(&"InterrexNoLeader".to_owned()),
        "two masters are a quorum"
    );

    let (second, second_command) = kill_the_leader(&cluster, still);
    fires("InterrexNoLeader");

    let _first = start_by_hand(&cluster, &first_command, &first);
    let _second = start_by_hand(&cluster, &second_command, &second);
    none("every alert resolves");
    // Pending is no alarm: the last sample of the killed one stands until its next scrape.
    let twice = prometheus.range(r#"ALERTS{alertname="InterrexTwoLeaders",alertstate="firing"}"#);
    assert!(twice.is_empty(), "{twice:?}");
    expect_code(&cluster.run(&["submit", "--wait", "--", "true"]), 0);
}

/// An alert whose expression names what does not exist never fires.
fn every_alert_sees_something(prometheus: &Prometheus) {
    let rules = prometheus.rules();
    assert!(rules.len() > 12, "{} alerts", rules.len());
    for rule in rules {
        let (name, query) = (
            &rule["name"],
            rule["query"].as_str().expect("an expression"),
        );
        let unanswered = UNANSWERED.iter().any(|(alert, _)| name == alert);
        let whole = with_every_comparison(query);
        let answered = wait_for(&format!("{name}: {whole} has a value"), || {
            Some(has_data(&prometheus.instant(&whole))).filter(|found| *found || unanswered)
        });
        assert!(
            !(answered && unanswered),
            "{name} is not empty any more: {whole}"
        );
        let named = selectors(query);
        assert!(!named.is_empty(), "{name}: {query}");
        for selector in named {
            let absent = ABSENT.iter().any(|(part, _)| selector.starts_with(part));
            let ask =
                || Some(!prometheus.instant(&selector).is_empty()).filter(|found| *found || absent);
            let found = wait_for(&format!("{name}: {selector} exists"), ask);
            assert!(
                !(found && absent),
                "{name}: {selector} is not absent any more"
            );
        }
    }
}
