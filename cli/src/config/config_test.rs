use clap::CommandFactory;

use super::*;
use crate::args::Cli;

fn file(text: &str) -> File {
    File {
        path: PathBuf::from("test.toml"),
        table: text.parse().unwrap(),
    }
}

fn refused(text: &str) -> String {
    file(text).apply(Cli::command()).unwrap_err().to_string()
}

fn value(text: &str, args: &[&str], id: &str) -> String {
    let command = file(text).apply(Cli::command()).unwrap();
    let matches = command.try_get_matches_from(args).unwrap();
    let (_, sub) = matches.subcommand().unwrap();
    let mut raw = sub.get_raw(id).unwrap();
    raw.next().unwrap().to_string_lossy().into_owned()
}

#[test]
fn a_file_is_below_flags_and_above_defaults() {
    let text = "[agent]\nmasters = \"a:1\"\nwork-dir = \"w\"\nmemory = \"3GiB\"\n";
    assert_eq!(value(text, &["interrex", "agent"], "memory"), "3GiB");
    assert_eq!(
        value(text, &["interrex", "agent", "--memory", "1GiB"], "memory"),
        "1GiB"
    );
}

#[test]
fn required_options_may_come_from_the_file_alone() {
    let text = "[master]\nid = \"m1\"\ndata_dir = \"d\"\n";
    assert_eq!(value(text, &["interrex", "master"], "id"), "m1");
}

#[test]
fn client_options_reach_every_client_command() {
    let text = "[client]\nmasters = \"a:1\"\noutput = \"json\"\n";
    assert_eq!(
        value(text, &["interrex", "status", "driver-1"], "output"),
        "json"
    );
    assert_eq!(
        value(text, &["interrex", "wait", "driver-1"], "masters"),
        "a:1"
    );
}

#[test]
fn an_unknown_key_is_named_with_its_file_and_the_nearest_option() {
    let said = refused("[agent]\ncorse = 4\n");
    for part in ["test.toml", "agent.corse", "`cores`"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(refused("[agnet]\ncores = 4\n").contains("did you mean `agent`?"));
    assert!(refused("log_fromat = \"json\"\n").contains("log-format"));
    assert!(refused("[client]\nmaster = \"a:1\"\n").contains("masters"));
}

#[test]
fn a_date_or_a_nested_list_is_no_value() {
    assert!(refused("[agent]\ncores = 2020-01-01\n").contains("a date"));
    assert!(refused("[agent]\nresource = [[1]]\n").contains("nested list"));
}

#[test]
fn the_config_option_is_found_before_clap_runs() {
    let args = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
    let found = |list: &[&str]| path_in(&args(list), Some("env.toml".into()));
    assert_eq!(found(&["x", "--config", "a"]), Some("a".into()));
    assert_eq!(found(&["x", "master", "--config=b"]), Some("b".into()));
    assert_eq!(
        found(&["x", "submit", "--", "--config", "c"]),
        Some("env.toml".into())
    );
    assert_eq!(path_in(&args(&["x"]), None), None);
}

#[test]
fn a_group_of_the_master_may_be_a_table() {
    let text =
        "[master]\nid = \"m1\"\ndata-dir = \"d\"\n[master.cluster]\nworker_timeout = \"7s\"\n";
    assert_eq!(value(text, &["interrex", "master"], "worker_timeout"), "7s");
    let text = "[master]\nid = \"m1\"\ndata-dir = \"d\"\n[master.rest]\nmax_body = \"2MiB\"\n";
    assert_eq!(
        value(text, &["interrex", "master"], "rest_max_body"),
        "2MiB"
    );
    assert!(refused("[master.cluster]\nworker_timeot = \"7s\"\n").contains("worker-timeout"));
}

#[test]
fn peers_may_be_a_table() {
    let text = "[master]\nid = \"m1\"\ndata-dir = \"d\"\npeers = { m1 = \"a:1\", m2 = \"b:2\" }\n";
    assert_eq!(value(text, &["interrex", "master"], "peers"), "m1=a:1");
}
