//! Masters that come and go under running work, and a quorum that is lost for good: with real processes.

use std::{net::TcpListener, path::Path, process::Command};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Cluster, Process, expect_code, interrex, run, text, wait_for};

/// An address that nobody listens at.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

/// A master that is to join the cluster behind `masters`, and its address.
fn joiner(dir: &Path, id: &str, masters: &str) -> (Process, String) {
    let rpc = free();
    let mut command = interrex();
    command.args([
        "master",
        "--id",
        id,
        "--rest",
        "off",
        "--web",
        "127.0.0.1:0",
    ]);
    command.args(["--bind", &rpc, "--join", masters, "--data-dir"]);
    command.arg(dir.join(id));
    (Process::start(command, &dir.join(format!("{id}.log"))), rpc)
}

fn status(masters: &str) -> Option<Value> {
    let mut command = interrex();
    command.env("INTERREX_MASTERS", masters);
    let output = run(command.args(["cluster", "status", "-o", "json"]));
    serde_json::from_slice(&output.stdout).ok()
}

/// The masters with a vote, in order, once there is a leader and nothing is half way.
fn voters(masters: &str) -> Vec<String> {
    wait_for("a leader", || {
        let seen = status(masters)?;
        if seen["leader"] == "" || seen["change"] != "" {
            return None;
        }
        let all = seen["masters"].as_array()?.iter();
        let ids = all.filter(|m| m["role"] != "learner");
        Some(
            ids.map(|m| m["id"].as_str().expect("an id").to_owned())
                .collect(),
        )
    })
}

fn at(masters: &str, args: &[&str]) -> std::process::Output {
    let mut command = interrex();
    run(command.env("INTERREX_MASTERS", masters).args(args))
}

#[test]
fn every_master_is_replaced_under_running_work_without_a_restart_of_anybody_else() {
    let cluster = Cluster::start(&["--agents", "2"]);
    let old = cluster.addresses("rpc");
    let all_old = old.join(",");
    let driver = cluster.submit(&["--name", "long", "--", "sleep", "1000"]);
    cluster.wait_driver(&driver, "RUNNING");
    let mut app = cluster.command(&["run", "--executors", "2", "--", "sleep", "1000"]);
    app.stdin(std::process::Stdio::null());
    let app = Process::start(app, &cluster.dir().join("app.log"));
    let executors = |masters: &str| {
        let output = at(masters, &["list", "apps", "-o", "json"]);
        let apps: Value = serde_json::from_slice(&output.stdout).ok()?;
        let text = apps.to_string();
        text.contains("RUNNING").then_some(text)
    };
    wait_for("the application runs", || executors(&all_old));
    let agents = ["w1", "w2"].map(|id| cluster.pid(id));

    let mut known = old;
    let mut fresh = Vec::new();
    for (gone, new) in [("m1", "m4"), ("m2", "m5"), ("m3", "m6")] {
        let (process, rpc) = joiner(cluster.dir(), new, &known.join(","));
        let added = at(
            &known.join(","),
            &["cluster", "add", &format!("{new}={rpc}")],
        );
        expect_code(&added, 0);
        let said = text(&added);
        assert!(said.contains("votes now"), "{said}");
        fresh.push(process);
        known.push(rpc);
        let removed = at(&known.join(","), &["cluster", "remove", gone]);
        expect_code(&removed, 0);
        cluster.signal(gone, Signal::SIGKILL);
        known.remove(0);
        let submitted = at(&known.join(","), &["submit", "--wait", "--", "true"]);
        expect_code(&submitted, 0);
    }
    let masters = known.join(",");
    assert_eq!(voters(&masters), ["m4", "m5", "m6"]);
    assert_eq!(["w1", "w2"].map(|id| cluster.pid(id)), agents);
    let running = at(&masters, &["status", "-o", "json", &driver]);
    let seen: Value = serde_json::from_slice(&running.stdout).expect("JSON");
    assert_eq!(
        (&seen["driver"]["state"], &seen["driver"]["attempt"]),
        (&"RUNNING".into(), &1.into())
    );
    wait_for("the application runs on", || executors(&masters));
    drop(app);

    // An agent that is started again with the old list, of which nobody is left, finds the new masters.
    cluster.signal("w1", Signal::SIGTERM);
    wait_for("w1 ends", || cluster.pid("w1").is_none().then_some(()));
    let mut again = interrex();
    again.args(["agent", "--id", "w1", "--masters", &all_old, "--cores", "4"]);
    again.args(["--memory", "4GiB", "--web", "127.0.0.1:0", "--work-dir"]);
    again.arg(cluster.dir().join("data/w1"));
    let _again = Process::start(again, &cluster.dir().join("w1-again.log"));
    wait_for("w1 is back", || {
        let output = at(&masters, &["list", "workers", "-o", "json"]);
        let seen: Value = serde_json::from_slice(&output.stdout).ok()?;
        let workers = seen["workers"].as_array()?.clone();
        let it = workers.into_iter().find(|w| w["id"] == "w1")?;
        (it["state"] == "ALIVE").then_some(())
    });
}

#[test]
fn a_lost_quorum_is_recovered_by_one_command_and_grown_again() {
    let cluster = Cluster::start(&["--agents", "0"]);
    let rpc = cluster.addresses("rpc");
    let submitted: Vec<String> = (0..10).map(|_| cluster.submit(&["--", "true"])).collect();
    let (_, epoch) = cluster.leader();
    let data = cluster.dir().join("data");
    let recover = |yes: bool| {
        let mut command = interrex();
        command
            .args(["cluster", "recover", "--data-dir"])
            .arg(data.join("m1"));
        if yes {
            command.arg("--yes");
        }
        run(&mut command)
    };
    let busy = recover(true);
    expect_code(&busy, 1);
    assert!(text(&busy).contains("in use by pid"), "{}", text(&busy));
    let line = |id: &str| {
        let text = cluster_line(&cluster, id, &data);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {text}")]);
        command
    };
    let lines = ["m1", "m2", "m3"].map(line);
    cluster.signal("m1", Signal::SIGKILL);
    wait_for("m1 ends", || cluster.pid("m1").is_none().then_some(()));
    let alive = recover(true);
    expect_code(&alive, 1);
    assert!(
        text(&alive).contains("the cluster is alive"),
        "{}",
        text(&alive)
    );
    for id in ["m2", "m3"] {
        cluster.signal(id, Signal::SIGKILL);
        wait_for("it ends", || cluster.pid(id).is_none().then_some(()));
        std::fs::remove_dir_all(data.join(id)).expect("lost for good");
    }
    let looked = recover(false);
    expect_code(&looked, 0);
    assert!(
        text(&looked).contains("nothing was changed"),
        "{}",
        text(&looked)
    );
    let recovered = recover(true);
    expect_code(&recovered, 0);
    assert!(
        text(&recovered).contains("a cluster of one"),
        "{}",
        text(&recovered)
    );

    let _masters = grow_again(&cluster, &rpc, lines);
    let m1 = rpc.first().expect("m1").clone();
    assert_eq!(voters(&m1), ["m1", "m2", "m3"]);
    let seen = status(&m1).expect("a status");
    assert!(seen["epoch"].as_u64() > Some(epoch), "{seen}");
    for id in &submitted {
        let found = cluster.json(&["status", id]);
        assert_eq!(found["driver"]["id"], id.as_str(), "{found}");
    }
    expect_code(&cluster.run(&["submit", "--", "true"]), 0);
}

/// Starts the survivor `m1` and two fresh masters, and lets these in.
fn grow_again(cluster: &Cluster, rpc: &[String], lines: [Command; 3]) -> Vec<Process> {
    let log = |id: &str| cluster.dir().join(format!("{id}-again.log"));
    let m1 = rpc.first().expect("m1").clone();
    let [first, second, third] = lines;
    let mut masters = vec![Process::start(first, &log("m1"))];
    assert_eq!(voters(&m1), ["m1"]);
    for (id, address, command) in [("m2", &rpc[1], second), ("m3", &rpc[2], third)] {
        masters.push(Process::start(command, &log(id)));
        let added = wait_for("it can be added", || {
            let added = at(&m1, &["cluster", "add", &format!("{id}={address}")]);
            added.status.success().then_some(added)
        });
        assert!(text(&added).contains("votes now"), "{}", text(&added));
    }
    masters
}

/// How a master of this cluster is started again, as a line for a shell.
fn cluster_line(cluster: &Cluster, id: &str, data: &Path) -> String {
    let manifest = cluster.manifest();
    let masters = manifest["masters"].as_array().expect("a list");
    let field = |m: &Value, name: &str| m[name].as_str().expect("a string").to_owned();
    let peers: Vec<String> = masters
        .iter()
        .map(|m| format!("{}={}", field(m, "id"), field(m, "rpc")))
        .collect();
    let it = masters.iter().find(|m| m["id"] == id).expect("known");
    format!(
        "{} master --id {id} --data-dir {} --peers {} --rest {} --web {}",
        env!("CARGO_BIN_EXE_interrex"),
        data.join(id).display(),
        peers.join(","),
        field(it, "rest"),
        field(it, "web")
    )
}
