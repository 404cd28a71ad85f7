//! The supervisor: a small process between the agent and one program, so that nothing outlives its order.
//!
//! The agent starts it as `interrex process-supervisor RECORD` (the same binary, a hidden subcommand), hands it a
//! [`ProgramSpec`] over its stdin, and keeps the write end of that pipe for orders. However the agent dies, SIGKILL
//! included, the kernel closes the pipe; the supervisor reads the end of it and ends the whole tree.
//!
//! **Why not `PR_SET_PDEATHSIG`.** That signal fires when the *thread* that forked ends, and a runtime's threads come
//! and go; it reaches only the direct child and is not inherited, so grandchildren survive; it is cleared by set-uid
//! programs; setting it needs code between fork and exec, which is unsafe Rust; and it can only be one signal, with no
//! grace. The supervisor is a child subreaper instead: whatever the program's tree orphans, also after `setsid`,
//! becomes the supervisor's child, and is found and ended. It costs one idle, single-threaded process an attempt.
//!
//! **Pids.** The supervisor signals only children that it has not yet waited for, and the process group of the main
//! process, which it waits for last: none of these numbers can be reused while it uses them.
//!
//! The supervisor holds a lock on the attempt's record file as long as it lives. An agent that starts in the same
//! work directory waits for the lock before it says that the attempt is over, and removes the record under the lock;
//! a supervisor that comes too late for its record starts nothing.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::{fd::AsFd, unix::fs::MetadataExt, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use nix::sys::prctl;
use serde::Serialize;

use crate::{
    clock,
    process::{
        proc,
        protocol::{LINE_BYTES_MAX, MainProcess, Notice, Order, ProgramSpec},
        record, tree,
    },
};

/// Why a supervisor did not get as far as a running program.
#[derive(Debug, thiserror::Error)]
enum SupervisorError {
    #[error("usage: process-supervisor RECORD (started by the agent, never by hand)")]
    Usage,
    #[error("the attempt's record {path:?} is not there to be claimed: {source}")]
    Record { path: PathBuf, source: io::Error },
    #[error("the agent was gone before it said what to run")]
    AgentGone,
    #[error("the agent's line is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    #[error("the agent's program description cannot be read: {0}")]
    Spec(serde_json::Error),
    #[error("its lease was over before it could be started")]
    LeaseOver,
    #[error("output file {path:?}: {source}")]
    Output { path: PathBuf, source: io::Error },
    #[error("program {program:?} could not be started: {source}")]
    Start { program: String, source: io::Error },
    #[error("{what}: {source}")]
    System {
        what: &'static str,
        source: io::Error,
    },
}

/// The agent's end of the supervisor's pipes.
///
/// Raw files rather than `std::io::stdin()`: that one reads ahead into a buffer that poll(2) cannot see.
#[derive(Debug)]
pub(super) struct AgentPipe {
    orders: File,
    notices: File,
    pending: Vec<u8>,
}

/// Runs one supervisor to its end. `args` are those after the subcommand: the path of the attempt's record.
///
/// Synchronous, single-threaded, without a runtime.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Ok(mut agent) = AgentPipe::open() else {
        return ExitCode::FAILURE;
    };
    match supervise(args, &mut agent) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            agent.tell(&Notice::NotStarted {
                message: error.to_string(),
            });
            ExitCode::FAILURE
        }
    }
}

fn supervise(
    args: impl IntoIterator<Item = OsString>,
    agent: &mut AgentPipe,
) -> Result<(), SupervisorError> {
    let path = args
        .into_iter()
        .next()
        .map(PathBuf::from)
        .ok_or(SupervisorError::Usage)?;
    // Held to the end of this process; the kernel gives it back however that comes.
    let _claimed = claim(&path)?;
    let line = agent.first_line()?;
    let spec: ProgramSpec = serde_json::from_slice(&line).map_err(SupervisorError::Spec)?;
    prctl::set_child_subreaper(true).map_err(|errno| SupervisorError::System {
        what: "becoming a subreaper",
        source: errno.into(),
    })?;
    if spec
        .lease
        .is_some_and(|lease| lease.until() <= clock::since_boot())
    {
        return Err(SupervisorError::LeaseOver);
    }
    let child = start(&spec)?;
    let pid = i32::try_from(child.id()).unwrap_or(i32::MAX);
    // The child is not waited for yet, so the number is surely its own.
    let start_ticks = proc::stat(pid).map_or(0, |stat| stat.start_ticks);
    agent.tell(&Notice::Started(MainProcess { pid, start_ticks }));
    let ending = tree::watch(child, agent, spec.grace_ms, spec.lease).map_err(|source| {
        SupervisorError::System {
            what: "watching the program",
            source,
        }
    })?;
    // On disk first: the agent may be gone, and its next life asks how this ended. A full disk only costs that.
    drop(record::write_ending(&path, &ending));
    agent.tell(&Notice::Ended(ending));
    Ok(())
}

/// Locks the record and checks that it is still the one at its path.
fn claim(path: &Path) -> Result<File, SupervisorError> {
    let wrap = |source| SupervisorError::Record {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(wrap)?;
    file.try_lock().map_err(|error| wrap(error.into()))?;
    let (claimed, current) = (
        file.metadata().map_err(wrap)?,
        path.metadata().map_err(wrap)?,
    );
    if (claimed.dev(), claimed.ino()) != (current.dev(), current.ino()) {
        return Err(wrap(io::ErrorKind::NotFound.into()));
    }
    Ok(file)
}

fn start(spec: &ProgramSpec) -> Result<Child, SupervisorError> {
    let open = |path: &Path| {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|source| SupervisorError::Output {
                path: path.to_owned(),
                source,
            })
    };
    Command::new(&spec.program)
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&spec.directory)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(open(&spec.stdout)?)
        .stderr(open(&spec.stderr)?)
        .spawn()
        .map_err(|source| SupervisorError::Start {
            program: spec.program.clone(),
            source,
        })
}

// === impl AgentPipe ===

impl AgentPipe {
    fn open() -> io::Result<Self> {
        Ok(Self {
            orders: File::from(io::stdin().as_fd().try_clone_to_owned()?),
            notices: File::from(io::stdout().as_fd().try_clone_to_owned()?),
            pending: Vec::new(),
        })
    }

    /// The pipe that poll(2) watches.
    pub(super) fn orders_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.orders.as_fd()
    }

    /// Tells the agent something. An agent that is gone hears nothing, and its end of the pipe says so elsewhere.
    pub(super) fn tell(&mut self, notice: &impl Serialize) {
        if let Ok(mut line) = serde_json::to_vec(notice) {
            line.push(b'\n');
            drop(self.notices.write_all(&line));
        }
    }

    fn first_line(&mut self) -> Result<Vec<u8>, SupervisorError> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(line);
            }
            if self.pending.len() > LINE_BYTES_MAX {
                return Err(SupervisorError::TooLong);
            }
            if !self.fill().unwrap_or(false) {
                return Err(SupervisorError::AgentGone);
            }
        }
    }

    /// Reads what poll(2) has announced. `Ok(None)`: the agent is gone. Lines that are no order are ignored.
    pub(super) fn read_orders(&mut self) -> io::Result<Option<Vec<Order>>> {
        if !self.fill()? || self.pending.len() > LINE_BYTES_MAX {
            return Ok(None);
        }
        let mut orders = Vec::new();
        while let Some(line) = self.take_line() {
            orders.extend(serde_json::from_slice::<Order>(&line));
        }
        Ok(Some(orders))
    }

    /// One read; false at the end of the pipe.
    fn fill(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.orders.read(&mut chunk) {
                Ok(0) => return Ok(false),
                Ok(length) => {
                    self.pending
                        .extend_from_slice(chunk.get(..length).unwrap_or_default());
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let end = self.pending.iter().position(|byte| *byte == b'\n')?;
        let rest = self.pending.split_off(end + 1);
        Some(std::mem::replace(&mut self.pending, rest))
    }
}
