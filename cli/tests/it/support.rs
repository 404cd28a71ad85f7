//! Helpers: run the binary, run a cluster, wait for a condition with a deadline.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    ops::{Deref, DerefMut},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::{sys::signal::Signal, unistd::Pid};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything in a test may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(20);
/// The line that says that `interrex dev` is ready.
const READY: &str = "Ctrl-C stops everything.";

/// Whole clusters run one at a time, also under a test runner with threads.
static ONE_CLUSTER: Mutex<()> = Mutex::new(());

/// A running `interrex dev`; dropping it kills it, and with it every process of its cluster.
pub(crate) struct Cluster {
    dev: Process,
    dir: TempDir,
    /// What dev printed until it was ready.
    pub(crate) greeting: String,
    _alone: MutexGuard<'static, ()>,
}

/// Waits until no other whole cluster of this test program runs, and keeps others from starting.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE_CLUSTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The binary under test.
pub(crate) fn interrex() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_interrex"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("INTERREX_") {
            command.env_remove(name);
        }
    }
    command
}

/// Waits until `condition` gives something.
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(
            Instant::now() < deadline,
            "after {DEADLINE:?} still not: {what}"
        );
        std::thread::sleep(POLL);
    }
}

/// A command that runs; its output is read on the way. Dropping it kills it.
pub(crate) struct Running {
    child: Process,
    readers: [JoinHandle<Vec<u8>>; 2],
    what: String,
}

/// A process that ends with its test, also with one that panics: dropping it kills it.
pub(crate) struct Process(Child);

impl Process {
    /// Starts `command`, with everything that it says in `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Self {
        let out = std::fs::File::create(log).expect("a log file");
        let both = out.try_clone().expect("a log file");
        let started = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(both)
            .spawn();
        Self(started.expect("it starts"))
    }

    /// Starts `command` as it is.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().expect("it starts"))
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The status and body of a GET at `address`; 0 where nobody answers.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    let asked = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    let answer = asked().unwrap_or_default();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    (status.unwrap_or(0), body.to_owned())
}

/// Starts `command`.
pub(crate) fn start(command: &mut Command) -> Running {
    let what = format!("{command:?}");
    let piped = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Process::spawn(piped);
    let stdout = reader(child.stdout.take().expect("a pipe"));
    let stderr = reader(child.stderr.take().expect("a pipe"));
    Running {
        child,
        readers: [stdout, stderr],
        what,
    }
}

fn reader(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        drop(pipe.read_to_end(&mut all));
        all
    })
}

/// Runs `command` to its end.
pub(crate) fn run(command: &mut Command) -> Output {
    start(command).finish()
}

impl Running {
    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_some()
    }

    /// Waits for the end; kills the process at the deadline.
    pub(crate) fn finish(self) -> Output {
        self.finish_within(DEADLINE)
    }

    /// The same, for what takes its time.
    pub(crate) fn finish_within(mut self, limit: Duration) -> Output {
        let deadline = Instant::now() + limit;
        let ended = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break Some(status);
            }
            if Instant::now() >= deadline {
                self.child.kill().expect("a child of ours");
                break None;
            }
            std::thread::sleep(POLL);
        };
        let status = ended.unwrap_or_else(|| self.child.wait().expect("a child of ours"));
        let [stdout, stderr] = self.readers.map(|r| r.join().expect("a reader"));
        let output = Output {
            status,
            stdout,
            stderr,
        };
        assert!(
            ended.is_some(),
            "{} does not end:\n{}",
            self.what,
            text(&output)
        );
        output
    }
}

/// Both outputs, for messages.
pub(crate) fn text(output: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Checks the exit code.
pub(crate) fn expect_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
}

/// Checks the exit code, and that stderr has every one of `words`.
pub(crate) fn expect_refusal(output: &Output, code: i32, words: &[&str]) {
    expect_code(output, code);
    let said = String::from_utf8_lossy(&output.stderr);
    for word in words {
        assert!(
            said.contains(word),
            "`{word}` is not said: {}",
            text(output)
        );
    }
    assert!(!said.contains("panicked"), "{}", text(output));
}

/// Sends a signal to the process `pid`.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a process id"));
    nix::sys::signal::kill(pid, signal).expect("the process exists");
}

/// Processes that have `dir` as, or above, their working directory, or name it in their command line.
pub(crate) fn processes_of(dir: &Path) -> Vec<String> {
    let name = dir.to_str().expect("UTF-8");
    let entries = std::fs::read_dir("/proc")
        .expect("a proc file system")
        .flatten();
    let numbered = entries.filter(|e| e.file_name().to_string_lossy().parse::<u32>().is_ok());
    let mut found = Vec::new();
    for process in numbered.map(|e| e.path()) {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let inside = std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
        // A process that is dead but not yet waited for has no command line.
        if !line.is_empty() && (line.contains(name) || inside) {
            found.push(format!("{}: {line}", process.display()));
        }
    }
    found
}

/// The wordcount example, built if it is not there.
pub(crate) fn wordcount() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_interrex")).with_file_name("wordcount");
    if !beside.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "-q", "-p", "wordcount"])
            .status();
        assert!(
            built.expect("cargo runs").success(),
            "wordcount does not build"
        );
    }
    beside
}

// === impl Cluster ===

impl Cluster {
    /// Three masters and two agents, and whatever else `options` of `interrex dev` say.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_where(options, &[])
    }

    /// The same, with these variables in the environment of dev and of all that it starts.
    pub(crate) fn start_where(options: &[&str], env: &[(&str, &Path)]) -> Self {
        let alone = alone();
        let dir = tempfile::tempdir().expect("a directory");
        let (dev, greeting) = Self::spawn(dir.path(), options, env);
        Self {
            dev,
            dir,
            greeting,
            _alone: alone,
        }
    }

    fn spawn(dir: &Path, options: &[&str], env: &[(&str, &Path)]) -> (Process, String) {
        let log = std::fs::File::create(dir.join("dev.stderr")).expect("a log file");
        let mut command = interrex();
        command
            .args(["dev", "--base-port", "0", "--data-dir"])
            .arg(dir.join("data"))
            .args(options)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut dev = Process::spawn(&mut command);
        let stdout = dev.stdout.take().expect("a pipe");
        let (lines_tx, lines) = mpsc::sync_channel(1024);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                drop(lines_tx.send(line));
            }
        });
        let mut greeting = String::new();
        while !greeting.contains(READY) {
            match lines.recv_timeout(DEADLINE) {
                Ok(line) => greeting.push_str(&format!("{line}\n")),
                Err(_) => {
                    let said = std::fs::read_to_string(dir.join("dev.stderr")).unwrap_or_default();
                    panic!("dev is not ready:\n{greeting}\n{said}");
                }
            }
        }
        (dev, greeting)
    }

    /// Starts dev again on the same data directory.
    pub(crate) fn start_again(&mut self, options: &[&str]) {
        let (dev, greeting) = Self::spawn(self.dir.path(), options, &[]);
        self.dev = dev;
        self.greeting = greeting;
    }

    /// The process id of dev.
    pub(crate) fn dev_pid(&self) -> u32 {
        self.dev.id()
    }

    /// Waits for the end of dev.
    pub(crate) fn wait_dev(&mut self) -> std::process::ExitStatus {
        wait_for("dev ends", || self.dev.try_wait().expect("a child of ours"))
    }

    /// The directory of this cluster.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What dev said on stderr.
    pub(crate) fn dev_said(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("dev.stderr")).unwrap_or_default()
    }

    /// What `cluster.json` says.
    pub(crate) fn manifest(&self) -> Value {
        let path = self.dir.path().join("data/cluster.json");
        serde_json::from_slice(&std::fs::read(path).expect("cluster.json")).expect("JSON")
    }

    fn entries(&self, kind: &str) -> Vec<Value> {
        self.manifest()[kind].as_array().expect("a list").clone()
    }

    /// Addresses of the masters: `rpc`, `rest` or `web`.
    pub(crate) fn addresses(&self, which: &str) -> Vec<String> {
        let masters = self.entries("masters");
        masters
            .iter()
            .map(|m| m[which].as_str().expect("an address").to_owned())
            .collect()
    }

    /// The process id of a master or an agent, while it runs.
    pub(crate) fn pid(&self, id: &str) -> Option<u32> {
        let all = self
            .entries("masters")
            .into_iter()
            .chain(self.entries("agents"));
        let pid = all
            .filter(|e| e["id"] == id)
            .map(|e| e["pid"].as_u64())
            .next()
            .expect("known");
        pid.map(|p| u32::try_from(p).expect("a process id"))
    }

    /// A client command with every master.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_at(&self.addresses("rpc").join(","), args)
    }

    /// A client command that knows only `masters`.
    pub(crate) fn command_at(&self, masters: &str, args: &[&str]) -> Command {
        let mut command = interrex();
        command.env("INTERREX_MASTERS", masters).args(args);
        command
    }

    /// Runs a client command.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        run(&mut self.command(args))
    }

    /// Runs a client command that must work, and returns its JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = run(self.command(args).args(["-o", "json"]));
        expect_code(&output, 0);
        serde_json::from_slice(&output.stdout).expect("JSON on stdout")
    }

    /// Submits a driver without waiting; returns its id.
    pub(crate) fn submit(&self, args: &[&str]) -> String {
        let mut all = vec!["submit", "-o", "json"];
        all.extend(args);
        let output = self.run(&all);
        expect_code(&output, 0);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
        answer["driver"]["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until the driver `id` is in `state`.
    pub(crate) fn wait_driver(&self, id: &str, state: &str) -> Value {
        wait_for(&format!("{id} is {state}"), || {
            let status = self.json(&["status", id]);
            (status["driver"]["state"] == state).then_some(status)
        })
    }

    /// Who leads, and in which epoch.
    pub(crate) fn leader(&self) -> (String, u64) {
        wait_for("a leader", || {
            let output = run(&mut self.command(&["cluster", "status", "-o", "json"]));
            let seen: Value = serde_json::from_slice(&output.stdout).ok()?;
            let leader = seen["leader"].as_str().filter(|l| !l.is_empty())?;
            Some((leader.to_owned(), seen["epoch"].as_u64()?))
        })
    }

    /// Sends a signal to a master or an agent.
    pub(crate) fn signal(&self, id: &str, what: Signal) {
        signal(self.pid(id).expect("it runs"), what);
    }
}

/// Sets a flag when it is dropped: a test that panics must not wait for ever for a thread that waits for the flag.
#[derive(Debug)]
pub(crate) struct AtTheEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.dev.kill());
        drop(self.dev.wait());
        if std::thread::panicking() {
            // What the processes said is all there is to find out why.
            for name in ["m1", "m2", "m3", "w1", "w2"] {
                let path = self.dir.path().join(format!("data/logs/{name}.log"));
                if let Ok(log) = std::fs::read_to_string(&path) {
                    let lines: Vec<&str> = log.lines().collect();
                    let tail = lines
                        .get(lines.len().saturating_sub(40)..)
                        .unwrap_or_default();
                    eprintln!("--- {name}\n{}", tail.join("\n"));
                }
            }
            eprintln!("--- dev\n{}", self.dev_said());
        }
    }
}
