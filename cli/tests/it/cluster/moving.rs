//! A cluster moves: all its records go into new masters with another engine, by a snapshot; its agents and their jobs stay.

use std::{
    fs::File,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    expect_code, expect_refusal, interrex, processes_of, run, signal, text, wait_for,
};

/// Masters of the largest cluster here; their addresses stay while the masters come and go.
const MASTERS: usize = 3;

/// One running master or agent; killed when dropped.
struct Process {
    child: Child,
    log: PathBuf,
}

/// What all clusters of a test have in common: addresses, and an agent.
struct Place {
    dir: TempDir,
    addresses: Vec<String>,
}

/// The masters of one cluster.
struct Masters {
    running: Vec<Process>,
}

// === impl Process ===

impl Process {
    fn start(mut command: Command, log: PathBuf) -> Self {
        let out = File::create(&log).expect("a log file");
        let child = command
            .args(["--exit-with-parent", &std::process::id().to_string()])
            // Held open: its end is the end of this process.
            .stdin(Stdio::piped())
            .stdout(out.try_clone().expect("a file"))
            .stderr(out)
            .spawn()
            .expect("the binary starts");
        Self { child, log }
    }

    fn stop(mut self) {
        signal(self.child.id(), Signal::SIGTERM);
        wait_for("the process ends", || {
            self.child.try_wait().expect("a child of ours")
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(40)..];
            eprintln!("--- {}\n{}", self.log.display(), tail.join("\n"));
        }
    }
}

// === impl Place ===

impl Place {
    fn new() -> Self {
        let held: Vec<TcpListener> = (0..MASTERS)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        let address = |l: &TcpListener| l.local_addr().expect("bound").to_string();
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            addresses: held.iter().map(address).collect(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts `count` masters of a new cluster, called `name` in directories and logs.
    fn masters(&self, name: &str, engine: &str, count: usize) -> Masters {
        let peers: Vec<String> = (0..count)
            .map(|n| format!("m{n}={}", self.addresses[n]))
            .collect();
        let peers = peers.join(",");
        let start = |n: usize| {
            let mut command = interrex();
            command.args(["master", "--id", &format!("m{n}"), "--peers", &peers]);
            command.args(["--engine", engine, "--rest", "off", "--web", "127.0.0.1:0"]);
            command
                .arg("--data-dir")
                .arg(self.path(&format!("{name}-m{n}")));
            Process::start(command, self.path(&format!("{name}-m{n}.log")))
        };
        Masters {
            running: (0..count).map(start).collect(),
        }
    }

    fn agent(&self) -> Process {
        let mut command = interrex();
        command.args([
            "agent",
            "--id",
            "w1",
            "--masters",
            &self.addresses.join(","),
        ]);
        command.args(["--cores", "4", "--memory", "4GiB", "--web", "127.0.0.1:0"]);
        command.arg("--work-dir").arg(self.path("work"));
        Process::start(command, self.path("w1.log"))
    }

    fn run_at(&self, masters: &str, args: &[&str]) -> Output {
        run(interrex().env("INTERREX_MASTERS", masters).args(args))
    }

    fn run(&self, args: &[&str]) -> Output {
        self.run_at(&self.addresses.join(","), args)
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["-o", "json"]].concat());
        expect_code(&output, 0);
        serde_json::from_slice(&output.stdout).expect("JSON on stdout")
    }

    /// Submits a job under its id; whether it had been accepted before.
    fn submit(&self, id: &str, script: &str) -> bool {
        let args = [
            "submit",
            "--submission-id",
            id,
            "-o",
            "json",
            "--",
            "sh",
            "-c",
            script,
        ];
        let output = self.run(&args);
        expect_code(&output, 0);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
        answer["replayed"].as_bool().expect("a flag")
    }

    fn wait_state(&self, id: &str, state: &str) -> Value {
        wait_for(&format!("{id} is {state}"), || {
            let output = self.run(&["status", id, "-o", "json"]);
            let status: Value = serde_json::from_slice(&output.stdout).ok()?;
            (status["driver"]["state"] == state).then(|| status["driver"].clone())
        })
    }

    /// Waits until the agent serves the new leader, and sees the job there.
    fn wait_adopted(&self, id: &str) {
        wait_for("the agent is alive at the new leader", || {
            let output = self.run(&["list", "workers", "-o", "json"]);
            let said = String::from_utf8_lossy(&output.stdout);
            said.contains("ALIVE").then_some(())
        });
        let driver = self.wait_state(id, "RUNNING");
        assert_eq!(driver["attempt"], 1, "{driver}");
    }

    fn save(&self, name: &str) -> PathBuf {
        let file = self.path(name);
        // Any master: the last one in the list is asked.
        let args = ["snapshot", "save", file.to_str().expect("UTF-8")];
        expect_code(&self.run(&args), 0);
        file
    }

    fn restore(&self, file: &Path) -> Value {
        self.json(&["snapshot", "restore", file.to_str().expect("UTF-8")])
    }

    fn leader(&self) -> u64 {
        wait_for("a leader", || {
            let output = self.run(&["cluster", "status", "-o", "json"]);
            let seen: Value = serde_json::from_slice(&output.stdout).ok()?;
            seen["leader"].as_str().filter(|l| !l.is_empty())?;
            seen["epoch"].as_u64()
        })
    }
}

// === impl Masters ===

impl Masters {
    /// One after the other, so that those who are left elect another leader each time.
    fn stop(self) {
        self.running.into_iter().for_each(Process::stop);
    }
}

/// A job that says when it begins and ends, and runs until it is told to end.
fn long_job(place: &Place) -> (String, PathBuf, PathBuf) {
    let (told, end) = (place.path("told"), place.path("end"));
    let script = format!(
        "echo begun >> {0}; while [ ! -e {1} ]; do sleep 0.05; done; echo ended >> {0}",
        told.display(),
        end.display()
    );
    (script, told, end)
}

#[test]
fn a_cluster_moves_from_raft_to_sled_and_back_and_its_jobs_run_on() {
    let place = Place::new();
    let raft = place.masters("first", "raft", MASTERS);
    let agent = place.agent();
    let (script, told, end) = long_job(&place);
    assert!(!place.submit("long", &script));
    place.wait_state("long", "RUNNING");
    let first = place.leader();
    let file = place.save("first.snapshot");
    // Three more epochs that the agent sees, and the snapshot does not.
    raft.stop();

    let sled = place.masters("second", "sled", 1);
    let restored = place.restore(&file);
    assert!(
        restored["epoch"].as_u64().expect("an epoch") > first + 1000,
        "{restored}"
    );
    assert_eq!(place.restore(&file)["already"], true);
    place.wait_adopted("long");
    assert!(
        place.submit("long", &script),
        "the same request has one effect"
    );
    assert!(!place.submit("short", "exit 0"));
    place.wait_state("short", "FINISHED");
    let file = place.save("second.snapshot");
    sled.stop();

    let raft = place.masters("third", "raft", MASTERS);
    place.leader();
    let restored = place.restore(&file);
    let formerly = restored["formerly"].as_array().expect("a list");
    assert_eq!(formerly.len(), 2, "{restored}");
    place.wait_adopted("long");
    place.wait_state("short", "FINISHED");
    assert!(place.submit("long", &script), "and in the third cluster");
    File::create(&end).expect("a file");
    place.wait_state("long", "FINISHED");
    let told = std::fs::read_to_string(told).expect("the job has spoken");
    assert_eq!(told, "begun\nended\n", "it ran once, to its end");
    agent.stop();
    raft.stop();
    assert_eq!(processes_of(place.dir.path()), Vec::<String>::new());
}

#[test]
fn a_snapshot_file_is_whole_or_refused_with_what_is_wrong() {
    let place = Place::new();
    let masters = place.masters("only", "sled", 1);
    place.leader();
    assert!(!place.submit("queued", "exit 0"));
    let file = place.save("good.snapshot");
    let path = file.to_str().expect("UTF-8");
    // Not by accident over another one.
    expect_refusal(
        &place.run(&["snapshot", "save", path]),
        1,
        &["exists", "--force"],
    );
    expect_code(&place.run(&["snapshot", "save", path, "--force"]), 0);
    // Into a cluster that has work.
    expect_refusal(
        &place.run(&["snapshot", "restore", path]),
        5,
        &["a new cluster"],
    );
    masters.stop();
    inspects_what_was_saved(&place, path);
    refuses_what_is_damaged(&place, &file);
    leaves_nothing_half_written(&place);
}

/// Without any cluster.
fn inspects_what_was_saved(place: &Place, path: &str) {
    let report: Value = {
        let output = place.run(&["snapshot", "inspect", path, "--sample", "1", "-o", "json"]);
        expect_code(&output, 0);
        serde_json::from_slice(&output.stdout).expect("JSON on stdout")
    };
    assert_eq!(
        report["kinds"]["driver"]["states"]["SUBMITTED"], 1,
        "{report}"
    );
    assert_eq!(report["header"]["engine"], "sled");
    let output = place.run(&["snapshot", "inspect", path]);
    expect_code(&output, 0);
    assert!(text(&output).contains("SUBMITTED 1"), "{}", text(&output));
}

fn refuses_what_is_damaged(place: &Place, file: &Path) {
    let whole = std::fs::read(file).expect("the file");
    let bad = place.path("bad.snapshot");
    let bad_path = bad.to_str().expect("UTF-8");
    std::fs::write(&bad, &whole[..whole.len() / 2]).expect("written");
    for command in ["inspect", "restore"] {
        expect_refusal(
            &place.run(&["snapshot", command, bad_path]),
            1,
            &["bad.snapshot", "truncated", "bytes"],
        );
    }
    let mut flipped = whole;
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    std::fs::write(&bad, flipped).expect("written");
    expect_refusal(
        &place.run(&["snapshot", "inspect", bad_path]),
        1,
        &["bad.snapshot", "damaged", "before byte"],
    );
    expect_refusal(
        &place.run(&[
            "snapshot",
            "inspect",
            place.path("none").to_str().expect("UTF-8"),
        ]),
        1,
        &["none"],
    );
}

/// Nobody is there to save from.
fn leaves_nothing_half_written(place: &Place) {
    let unsaved = place.path("unsaved.snapshot");
    let args = [
        "snapshot",
        "save",
        unsaved.to_str().expect("UTF-8"),
        "--deadline",
        "1s",
    ];
    expect_refusal(&place.run(&args), 3, &["--stale-ok"]);
    let left: Vec<_> = std::fs::read_dir(place.dir.path())
        .expect("a directory")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("partial") || name.contains("unsaved"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}
