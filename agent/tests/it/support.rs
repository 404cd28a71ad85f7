//! What the tests share: waiting for conditions, looking at processes, a runner in a directory of its own.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    future::Future,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use interrex_agent::process::{
    Launch, ProcessEvent, WorkDirs, WorkKey,
    local::{LocalOptions, LocalRunner},
    proc,
    template::Site,
};
use interrex_proto::v1::CommandLine;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// How long anything may take before a test fails: generous, because machines are slow and busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The supervisor of this package.
pub(crate) fn supervisor() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_interrex-process-supervisor").into()]
}

/// Waits until `look` finds something.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for `future` with the deadline of all tests.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// Whether a process exists and is no zombie.
pub(crate) fn alive(pid: i32) -> bool {
    proc::stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Waits for a file that holds a pid.
pub(crate) async fn pid_in(path: &Path) -> i32 {
    eventually(&format!("a pid in {path:?}"), || {
        fs::read_to_string(path)
            .ok()?
            .strip_suffix('\n')?
            .parse()
            .ok()
    })
    .await
}

pub(crate) fn sh(script: &str) -> CommandLine {
    CommandLine {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: BTreeMap::new(),
    }
}

pub(crate) fn launch(key: WorkKey, command: CommandLine) -> Launch {
    Launch {
        key,
        name: String::new(),
        command,
        epoch: 5,
        cores: 2,
        memory_mib: 512,
        resources: BTreeMap::new(),
        masters: vec!["127.0.0.1:7077".to_owned()],
        resource_profile: 0,
        lease: None,
        trace: None,
    }
}

/// A runner in a directory of its own.
pub(crate) struct Bench {
    pub(crate) runner: LocalRunner,
    pub(crate) events: mpsc::Receiver<ProcessEvent>,
    pub(crate) directory: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let running_dir = directory.path().join(".running");
        fs::create_dir(&running_dir).unwrap();
        let (events_tx, events) = mpsc::channel(64);
        let options = LocalOptions {
            work_dirs: WorkDirs::new(directory.path().to_owned(), directory.path().join(".trash")),
            running_dir,
            supervisor: supervisor(),
            site: Site {
                spark: interrex_agent::spark::SparkHomes::default(),
                host: "h1".to_owned(),
                worker_url: "http://h1:8081".to_owned(),
            },
            orphan_grace: Duration::from_millis(300),
        };
        Self {
            runner: LocalRunner::new(options, events_tx),
            events,
            directory,
        }
    }

    pub(crate) async fn next(&mut self) -> ProcessEvent {
        soon("a process event", self.events.recv()).await.unwrap()
    }

    /// The next event, which says that the program runs.
    pub(crate) async fn started(&mut self) -> i32 {
        match self.next().await {
            ProcessEvent::Started { pid, .. } => pid,
            other => panic!("not started: {other:?}"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn record(&self, key: &WorkKey) -> PathBuf {
        interrex_agent::process::record::path_of(&self.path(".running"), key).unwrap()
    }
}
