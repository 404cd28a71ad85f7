//! One process of a local cluster.
//!
//! A child has a process group of its own, so that Ctrl-C at the terminal reaches only its parent, which
//! stops the cluster in order. It ends with its parent (see `crate::parent`): the pipe on its stdin is kept
//! open here and never written to.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io::BufRead,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use nix::{sys::signal::Signal, unistd::Pid};
use tokio::{
    process::{ChildStdin, Command},
    sync::mpsc,
};

use crate::exit::Failure;

/// The variable that says how masters and agents log.
const LOG_FORMAT: &str = "INTERREX_LOG_FORMAT";

/// Lines of a child's log shown when it ends unexpectedly.
const TAIL_LINES: usize = 15;

/// A process that was started; dropping it closes its stdin, which ends it.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Arc<Mutex<Option<u32>>>,
    _stdin: Option<ChildStdin>,
}

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Exited {
    /// Which.
    pub(crate) id: String,
    /// Its process id while it lived.
    pub(crate) pid: u32,
    /// How; `None` when the system would not say.
    pub(crate) status: Option<ExitStatus>,
}

// === impl Child ===

impl Child {
    /// Starts `program` with `args`, its output appended to `log`. Must be called on the main thread: the
    /// child dies with the thread that started it. Its end is sent to `exits`.
    ///
    /// # Errors
    /// When the log cannot be opened or the program cannot be started.
    pub(crate) fn spawn(
        id: &str,
        program: &Path,
        args: Vec<OsString>,
        log: &Path,
        exits: mpsc::Sender<Exited>,
    ) -> Result<Self, Failure> {
        let doing = format!("starting {id}");
        let open = std::fs::File::options().create(true).append(true).open(log);
        let out = open.map_err(|e| Failure::io(&format!("log file {}", log.display()), &e))?;
        let err = out.try_clone().map_err(|e| Failure::io(&doing, &e))?;
        let mut command = Command::new(program);
        if std::env::var_os(LOG_FORMAT).is_none() {
            // A file, but one that people read.
            command.env(LOG_FORMAT, "text");
        }
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| Failure::io(&doing, &e))?;
        let Some(number) = child.id() else {
            return Err(Failure::failed(format!("{doing}: it has no process id")));
        };
        let stdin = child.stdin.take();
        let pid = Arc::new(Mutex::new(Some(number)));
        let (shared, id) = (Arc::clone(&pid), id.to_owned());
        tokio::spawn(async move {
            let status = child.wait().await.ok();
            *shared.lock().unwrap_or_else(PoisonError::into_inner) = None;
            // Nobody listens any more when the cluster itself is gone.
            drop(
                exits
                    .send(Exited {
                        id,
                        pid: number,
                        status,
                    })
                    .await,
            );
        });
        Ok(Self { pid, _stdin: stdin })
    }

    /// The process id, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        *self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a signal to the process, if it still runs.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.pid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = pid.and_then(|p| i32::try_from(p).ok()) {
            // It may end at this very moment; then the signal has no receiver and no purpose.
            nix::sys::signal::kill(Pid::from_raw(pid), signal).unwrap_or_default();
        }
    }
}

// === impl Exited ===

impl Exited {
    /// How it ended, in words.
    pub(crate) fn how(&self) -> String {
        use std::os::unix::process::ExitStatusExt;
        let Some(status) = self.status else {
            return "in an unknown way".to_owned();
        };
        match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(number)) => Signal::try_from(number)
                .map_or_else(|_| format!("signal {number}"), |s| s.as_str().to_owned()),
            (None, None) => status.to_string(),
        }
    }
}

/// The last lines of a log, indented, for a message.
pub(crate) fn tail(log: &Path) -> String {
    let Ok(file) = std::fs::File::open(log) else {
        return String::new();
    };
    let mut last = VecDeque::with_capacity(TAIL_LINES);
    for line in std::io::BufReader::new(file).lines().map_while(Result::ok) {
        if last.len() == TAIL_LINES {
            last.pop_front();
        }
        last.push_back(format!("    {line}"));
    }
    Vec::from(last).join("\n")
}
