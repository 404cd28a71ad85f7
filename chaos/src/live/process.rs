//! One process of a live run: started, signalled, its end noticed.
//!
//! A child has a process group of its own, so that Ctrl-C at the terminal reaches only the harness, which then ends the
//! run in order. It is tied to the thread that starts it (`--exit-with-parent`), and to the pipe on its stdin.

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use nix::{sys::signal::Signal, unistd::Pid};
use tokio::{
    process::{Child, ChildStdin, Command},
    time::timeout,
};

/// A process that was started. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: u32,
    /// Kept open here, and out of the child's hands: waiting for a child would close it, and that ends the process.
    _stdin: Option<ChildStdin>,
}

// === impl Process ===

impl Process {
    /// Starts `program` with a variable more in its environment, what it says appended to `log`. To be called on the main thread: the child dies with the thread
    /// that has started it.
    ///
    /// # Errors
    /// Where the log cannot be opened or the program cannot be started.
    pub(super) fn start(
        program: &Path,
        args: &[OsString],
        env: Option<(&str, &str)>,
        log: &Path,
    ) -> io::Result<Self> {
        let out = std::fs::File::options()
            .create(true)
            .append(true)
            .open(log)?;
        let mut child = Command::new(program)
            .args(args)
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child
            .id()
            .ok_or_else(|| io::Error::other("it has ended at once"))?;
        let stdin = child.stdin.take();
        Ok(Self {
            child,
            pid,
            _stdin: stdin,
        })
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it runs (a stopped one does).
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends `signal`; false where there is nobody to get it.
    pub(super) fn signal(&mut self, signal: Signal) -> bool {
        if !self.is_alive() {
            return false;
        }
        let Ok(pid) = i32::try_from(self.pid) else {
            return false;
        };
        // Not reaped yet (`is_alive` does that), so the number is still its own.
        nix::sys::signal::kill(Pid::from_raw(pid), signal).is_ok()
    }

    /// Waits for its end, at most this long; `None` where it goes on.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        timeout(limit, self.child.wait()).await.ok()?.ok()
    }
}

/// How a process has ended, in words.
pub(super) fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(number)) => Signal::try_from(number)
            .map_or_else(|_| format!("signal {number}"), |s| s.as_str().to_owned()),
        (None, None) => status.to_string(),
    }
}
