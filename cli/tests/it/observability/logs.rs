//! Logs for machines: one JSON object a line, with names that stay, at a level that can be changed.

use std::{fs, io::Read, net::TcpListener, path::Path};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Process, interrex, run, signal, wait_for};

/// Every line of a log, which has to be JSON.
fn lines(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    fs::File::open(path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .expect("a log");
    // The last line may still be written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

fn named(lines: &[Value], event: &str) -> Option<Value> {
    lines.iter().find(|line| line["event"] == event).cloned()
}

/// An address that nobody listens on.
fn free() -> String {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
    address.expect("a port").to_string()
}

#[test]
fn masters_and_agents_change_what_they_log_while_they_run() {
    let folder = tempfile::tempdir().expect("a directory");
    let log = |name: &str| folder.path().join(format!("{name}.log"));
    let (rpc, web, agent_web) = (free(), free(), free());
    let mut master = interrex();
    master.args(["--log-filter", "warn", "master", "--id", "m1"]);
    master.args(["--engine", "memory", "--rest", "off"]);
    master.args(["--bind", &rpc, "--web", &web]);
    let _master = Process::start(master, &log("m1"));
    let mut agent = interrex();
    agent.args(["agent", "--id", "w1", "--masters", &rpc]);
    agent
        .args(["--web", &agent_web, "--work-dir"])
        .arg(folder.path().join("w1"));
    let _agent = Process::start(agent, &log("w1"));
    wait_for("the agent has registered", || {
        named(&lines(&log("w1")), "attached")
    });
    assert!(
        named(&lines(&log("m1")), "leading").is_none(),
        "its filter is `warn`"
    );

    let level = |args: &[&str]| {
        let mut command = interrex();
        command
            .args(["debug", "log-level", "-o", "json"])
            .args(args);
        let output = run(command.env("INTERREX_MASTERS", &rpc));
        let answers: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let filters = answers.as_array().expect("a list").iter();
        let filters: Vec<_> = filters
            .map(|a| (a["id"].clone(), a["filter"].clone()))
            .collect();
        (output.status.code(), filters)
    };
    let of = |id: &str, filter: &str| (Value::from(id), Value::from(filter));
    assert_eq!(level(&[]), (Some(0), vec![of("m1", "warn")]));
    assert_eq!(
        level(&["--agents", "debug"]),
        (Some(0), vec![of("m1", "debug"), of("w1", "debug")])
    );
    for name in ["m1", "w1"] {
        let changed = wait_for("it says what it logs", || {
            named(&lines(&log(name)), "log_filter_changed")
        });
        assert_eq!(changed["filter"], "debug", "{changed}");
        wait_for("it says more than before", || {
            let mut lines = lines(&log(name)).into_iter();
            lines.any(|line| line["level"] == "DEBUG").then_some(())
        });
    }
    let one = level(&["--addr", &agent_web, "--reset"]);
    assert_eq!(one, (Some(0), vec![of(&agent_web, "info")]));
    assert_eq!(level(&[]), (Some(0), vec![of("m1", "debug")]));
    let (code, bad) = level(&["info,=nonsense="]);
    assert_eq!(
        (code, bad),
        (Some(1), vec![(Value::from("m1"), Value::Null)])
    );
}

#[test]
fn a_master_that_nobody_watches_logs_json_and_changes_its_filter_at_sighup() {
    let folder = tempfile::tempdir().expect("a directory");
    let (config, log) = (
        folder.path().join("interrex.toml"),
        folder.path().join("log"),
    );
    fs::write(&config, "log-filter = \"info\"\n").expect("a file");
    let rpc = free();
    let mut command = interrex();
    command.arg("--config").arg(&config);
    command.args([
        "master",
        "--id",
        "m1",
        "--engine",
        "memory",
        "--rest",
        "off",
        "--bind",
        &rpc,
        "--web",
        &free(),
    ]);
    let master = Process::start(command, &log);

    let elected = wait_for("it leads", || named(&lines(&log), "leading"));
    assert_eq!(elected["level"], "INFO", "{elected}");
    assert!(
        elected["epoch"].is_u64() && elected["timestamp"].is_string(),
        "{elected}"
    );
    assert!(named(&lines(&log), "leader_elected").is_some());
    assert!(lines(&log).iter().all(|line| line["level"] != "DEBUG"));

    fs::write(&config, "log-filter = 7\n").expect("a file");
    signal(master.id(), Signal::SIGHUP);
    let refused = wait_for("it says that nothing is changed", || {
        named(&lines(&log), "reload_failed")
    });
    assert!(
        refused["error"]
            .as_str()
            .is_some_and(|e| e.contains("log-filter")),
        "{refused}"
    );

    fs::write(&config, "log-filter = \"trace\"\n").expect("a file");
    signal(master.id(), Signal::SIGHUP);
    let changed = wait_for("it has another filter", || {
        named(&lines(&log), "log_filter_changed")
    });
    assert_eq!(changed["filter"], "trace", "{changed}");
    wait_for("it says more than before", || {
        // Somebody has to come: an idle master has nothing to tell.
        let mut asked = interrex();
        drop(run(asked.args(["cluster", "status", "--masters", &rpc])));
        let more = |line: &Value| line["level"] == "DEBUG" || line["level"] == "TRACE";
        lines(&log).iter().any(more).then_some(())
    });
}
