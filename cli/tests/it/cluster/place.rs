//! Masters and agents that a test starts and ends one by one, at addresses that stay: for clusters that come and go.

use std::{
    fs::File,
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Running, expect_code, interrex, run, signal, start, wait_for};

/// Masters of the largest cluster; their addresses stay while the masters come and go.
pub(super) const MASTERS: usize = 3;

/// One running master, agent or other program; killed when dropped.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

/// What all clusters of a test have in common: addresses, and a directory.
pub(super) struct Place {
    dir: TempDir,
    addresses: Vec<String>,
    webs: Vec<String>,
}

/// The masters of one cluster, by their numbers.
pub(super) struct Masters<'a> {
    place: &'a Place,
    name: &'static str,
    count: usize,
    options: Vec<String>,
    running: Vec<Option<Process>>,
}

// === impl Process ===

impl Process {
    /// Starts `command`; what it says goes to the end of `log`.
    pub(super) fn start(mut command: Command, log: PathBuf) -> Self {
        let out = File::options().create(true).append(true).open(&log);
        let out = out.expect("a log file");
        let child = command
            // Held open: its end is the end of this process.
            .stdin(Stdio::piped())
            .stdout(out.try_clone().expect("a file"))
            .stderr(out)
            .spawn()
            .expect("it starts");
        Self { child, log }
    }

    /// The same for this program, which ends when the test does.
    fn interrex(mut command: Command, log: PathBuf) -> Self {
        command.args(["--exit-with-parent", &std::process::id().to_string()]);
        Self::start(command, log)
    }

    pub(super) fn signal(&self, what: Signal) {
        signal(self.child.id(), what);
    }

    /// What it has ended with, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }

    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(super) fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        wait_for("the process ends", || self.ended());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            let log = self.said();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(40)..];
            eprintln!("--- {}\n{}", self.log.display(), tail.join("\n"));
        }
    }
}

// === impl Place ===

impl Place {
    pub(super) fn new() -> Self {
        let held: Vec<TcpListener> = (0..2 * MASTERS)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        let address = |l: &TcpListener| l.local_addr().expect("bound").to_string();
        let mut addresses: Vec<String> = held.iter().map(address).collect();
        let webs = addresses.split_off(MASTERS);
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            addresses,
            webs,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where master `n` answers over HTTP.
    pub(super) fn web(&self, n: usize) -> &str {
        &self.webs[n]
    }

    /// Starts `count` masters of a new cluster, called `name` in directories and logs.
    pub(super) fn masters(&self, name: &'static str, engine: &str, count: usize) -> Masters<'_> {
        self.masters_with(name, count, &["--engine", engine])
    }

    /// The same with these options.
    pub(super) fn masters_with(
        &self,
        name: &'static str,
        count: usize,
        options: &[&str],
    ) -> Masters<'_> {
        let mut masters = Masters {
            place: self,
            name,
            count,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            running: (0..count).map(|_| None).collect(),
        };
        (0..count).for_each(|n| masters.start(n));
        masters
    }

    pub(super) fn agent(&self) -> Process {
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
        Process::interrex(command, self.path("w1.log"))
    }

    /// A client command with every master.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = interrex();
        command
            .env("INTERREX_MASTERS", self.addresses.join(","))
            .args(args);
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> Output {
        run(&mut self.command(args))
    }

    pub(super) fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["-o", "json"]].concat());
        expect_code(&output, 0);
        serde_json::from_slice(&output.stdout).expect("JSON on stdout")
    }

    /// Begins to submit a job under its id, with all the patience of a test.
    pub(super) fn submitting(&self, id: &str, script: &str) -> Running {
        let own = ["submit", "--submission-id", id, "--deadline", "60s"];
        start(
            self.command(&own)
                .args(["-o", "json", "--", "sh", "-c", script]),
        )
    }

    /// Submits a job under its id; whether it had been accepted before.
    pub(super) fn submit(&self, id: &str, script: &str) -> bool {
        let output = self.submitting(id, script).finish();
        expect_code(&output, 0);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
        answer["replayed"].as_bool().expect("a flag")
    }

    pub(super) fn wait_state(&self, id: &str, state: &str) -> Value {
        wait_for(&format!("{id} is {state}"), || {
            let output = self.run(&["status", id, "-o", "json"]);
            let status: Value = serde_json::from_slice(&output.stdout).ok()?;
            (status["driver"]["state"] == state).then(|| status["driver"].clone())
        })
    }

    /// Waits until the agent serves the leader.
    pub(super) fn wait_alive(&self) {
        wait_for("the agent is alive at the leader", || {
            let output = self.run(&["list", "workers", "-o", "json"]);
            let said = String::from_utf8_lossy(&output.stdout);
            said.contains("ALIVE").then_some(())
        });
    }

    /// Waits until the agent serves the new leader, and sees the job there.
    pub(super) fn wait_adopted(&self, id: &str) {
        self.wait_alive();
        let driver = self.wait_state(id, "RUNNING");
        assert_eq!(driver["attempt"], 1, "{driver}");
    }

    pub(super) fn save(&self, name: &str) -> PathBuf {
        let file = self.path(name);
        // Any master: the last one in the list is asked.
        let args = ["snapshot", "save", file.to_str().expect("UTF-8")];
        expect_code(&self.run(&args), 0);
        file
    }

    pub(super) fn restore(&self, file: &Path) -> Value {
        self.json(&["snapshot", "restore", file.to_str().expect("UTF-8")])
    }

    /// The number of the master that leads, and its epoch.
    pub(super) fn leader(&self) -> (usize, u64) {
        wait_for("a leader", || {
            let output = self.run(&["cluster", "status", "-o", "json"]);
            let seen: Value = serde_json::from_slice(&output.stdout).ok()?;
            let id = seen["leader"].as_str()?.strip_prefix('m')?;
            Some((id.parse().ok()?, seen["epoch"].as_u64()?))
        })
    }

    /// A script that leaves a line with `id` in the file `ledger`, whenever it runs.
    pub(super) fn ledger_job(&self, id: &str) -> String {
        format!("echo {id} >> {}", self.path("ledger").display())
    }

    /// Waits until each of `ids` has ended well, and checks that each has run once.
    pub(super) fn expect_each_once(&self, ids: &[String]) {
        for id in ids {
            let driver = self.wait_state(id, "FINISHED");
            assert_eq!(driver["attempt"], 1, "{driver}");
        }
        let ledger = std::fs::read_to_string(self.path("ledger")).expect("jobs have run");
        let mut ran: Vec<&str> = ledger.lines().collect();
        ran.sort_unstable();
        let mut expected: Vec<&str> = ids.iter().map(String::as_str).collect();
        expected.sort_unstable();
        assert_eq!(ran, expected, "each job ran once");
    }
}

// === impl Masters ===

impl Masters<'_> {
    /// Starts master `n`, which does not run.
    pub(super) fn start(&mut self, n: usize) {
        self.start_with(n, |command| command);
    }

    /// The same with another environment or other options.
    pub(super) fn start_with(&mut self, n: usize, tune: impl Fn(&mut Command) -> &mut Command) {
        let peers: Vec<String> = (0..self.count)
            .map(|n| format!("m{n}={}", self.place.addresses[n]))
            .collect();
        let mut command = interrex();
        command.args([
            "master",
            "--id",
            &format!("m{n}"),
            "--peers",
            &peers.join(","),
        ]);
        command.args(["--rest", "off", "--web", self.place.web(n)]);
        command.args(&self.options);
        command.arg("--data-dir").arg(self.data_dir(n));
        tune(&mut command);
        let log = self.place.path(&format!("{}-m{n}.log", self.name));
        self.running[n] = Some(Process::interrex(command, log));
    }

    /// Masters that are started from now on have another value for this option.
    pub(super) fn set_option(&mut self, option: &str, value: &str) {
        let at = self.options.iter().position(|given| given == option);
        self.options[at.expect("it was given") + 1] = value.to_owned();
    }

    pub(super) fn data_dir(&self, n: usize) -> PathBuf {
        self.place.path(&format!("{}-m{n}", self.name))
    }

    /// What master `n` has said so far, in all its lives.
    pub(super) fn said(&self, n: usize) -> String {
        let log = self.place.path(&format!("{}-m{n}.log", self.name));
        std::fs::read_to_string(log).unwrap_or_default()
    }

    /// Has another master than now lead (or the only one, again) with these orders for its kill points; its number.
    pub(super) fn arm_next_leader(&mut self, orders: &str) -> usize {
        let (leader, _) = self.place.leader();
        let next = (leader + 1) % self.count;
        self.stop_one(next);
        self.start_with(next, |command| command.env("FAILPOINTS", orders));
        if self.count > 1 {
            self.hand_over_to(next);
        }
        next
    }

    /// Makes master `n` the leader, as soon as it can be.
    fn hand_over_to(&self, n: usize) {
        let to = format!("m{n}");
        wait_for(&format!("{to} leads"), || {
            let handed = self.place.run(&["cluster", "transfer-leader", &to]);
            (handed.status.code() == Some(0)).then_some(())
        });
    }

    pub(super) fn process(&mut self, n: usize) -> &mut Process {
        self.running[n].as_mut().expect("it was started")
    }

    /// SIGKILL, now.
    pub(super) fn kill(&mut self, n: usize) {
        drop(self.running[n].take());
    }

    /// The signal that master `n` has died by, if it has; then it runs no more.
    pub(super) fn died(&mut self, n: usize) -> Option<i32> {
        let status = self.process(n).ended()?;
        let died = status.signal();
        assert!(died.is_some(), "m{n} has ended with {status}");
        died
    }

    /// SIGTERM, and waits for the end.
    pub(super) fn stop_one(&mut self, n: usize) {
        if let Some(process) = self.running[n].take() {
            process.stop();
        }
    }

    /// One after the other, so that those who are left elect another leader each time.
    pub(super) fn stop(mut self) {
        (0..self.count).for_each(|n| self.stop_one(n));
    }
}
