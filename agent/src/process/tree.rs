//! The supervisor's loop: watches the main process, obeys orders, and leaves nothing of the tree alive.
//!
//! One thread does everything: it alone waits for children, so a child that it has seen is a child (alive or
//! zombie) until it says otherwise. The main process is waited for last, which keeps its group's number ours.

use std::{
    collections::BTreeSet,
    io,
    os::{fd::AsFd, unix::process::ExitStatusExt},
    process::Child,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal, kill, killpg},
        signalfd::{SfdFlags, SignalFd},
        wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    },
    unistd::Pid,
};

use crate::{
    clock,
    process::{
        proc,
        protocol::{Ending, Lease, Order},
        supervisor::AgentPipe,
    },
};

/// How often a terminating tree is looked at for newly orphaned processes.
const TERM_SCAN: Duration = Duration::from_millis(100);
/// How soon a tree under SIGKILL is looked at again: each round may orphan the next generation.
const KILL_SCAN_MIN: Duration = Duration::from_millis(2);
/// How seldom, where something does not end (a process in the kernel's hands, say); each round doubles the wait.
const KILL_SCAN_MAX: Duration = Duration::from_millis(250);
/// The longest sleep while there is a lease: sleeps do not count the time in which the machine is suspended.
const LEASE_LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The program runs and nobody wants it to end.
    Running,
    /// SIGTERM was sent; SIGKILL follows at the deadline.
    Terminating { deadline: Instant },
    /// The main process ended, or the grace is over: everything left is killed.
    Killing,
}

#[derive(Debug)]
struct Tree {
    main: Pid,
    me: i32,
    phase: Phase,
    /// Whether the main process was still alive when the first order came.
    ordered: bool,
    lease: Option<Lease>,
    /// Whether the end began because the lease was over.
    lease_over: bool,
    /// Children that have had their SIGTERM.
    asked: BTreeSet<i32>,
    /// The wait before the next round of SIGKILL.
    kill_scan: Duration,
}

/// What woke the loop.
#[derive(Debug, Default)]
struct Woken {
    agent: bool,
    signals: bool,
}

/// Watches the tree of `child` until nothing of it is left.
pub(super) fn watch(
    mut child: Child,
    agent: &mut AgentPipe,
    orphan_grace_ms: u64,
    lease: Option<Lease>,
) -> io::Result<Ending> {
    let main = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let mut tree = Tree {
        main,
        me: nix::unistd::getpid().as_raw(),
        phase: Phase::Running,
        ordered: false,
        lease,
        lease_over: false,
        asked: BTreeSet::new(),
        kill_scan: KILL_SCAN_MIN,
    };
    // After the start: the program must not inherit the mask. A child that ended before is seen by the first look.
    let signals = block_signals()?;
    let mut agent_gone = false;
    while !tree.advance()? {
        let woken = wait(agent, agent_gone, &signals, tree.patience())?;
        // Before any order is read: a renewal that comes too late gives nothing.
        tree.heed_lease()?;
        if woken.signals && drain(&signals)? {
            tree.terminate(orphan_grace_ms)?;
        }
        if woken.agent {
            match agent.read_orders() {
                Ok(Some(orders)) => {
                    for order in orders {
                        match order {
                            Order::Term { grace_ms } => tree.terminate(grace_ms)?,
                            Order::Renew { until_ms } => tree.renew(until_ms),
                        }
                    }
                }
                Ok(None) | Err(_) => {
                    agent_gone = true;
                    tree.terminate(orphan_grace_ms)?;
                }
            }
        }
    }
    // std's own status, because it also knows real-time signals.
    let status = child.wait()?;
    Ok(Ending {
        code: status.code(),
        signal: status.signal(),
        ordered: tree.ordered,
        lease_over: tree.lease_over,
    })
}

/// Signals arrive as a file: SIGCHLD to look at the children, the others to end the tree as an order would.
fn block_signals() -> io::Result<SignalFd> {
    let mut mask = SigSet::empty();
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ] {
        mask.add(signal);
    }
    mask.thread_block()?;
    Ok(SignalFd::with_flags(
        &mask,
        SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC,
    )?)
}

/// Reads every waiting signal; true where one asked the supervisor to end.
fn drain(signals: &SignalFd) -> io::Result<bool> {
    let mut asked = false;
    while let Some(info) = signals.read_signal()? {
        asked |= i32::try_from(info.ssi_signo).ok() != Some(Signal::SIGCHLD as i32);
    }
    Ok(asked)
}

fn wait(
    agent: &AgentPipe,
    agent_gone: bool,
    signals: &SignalFd,
    patience: Option<Duration>,
) -> io::Result<Woken> {
    let timeout = patience.map_or(PollTimeout::NONE, |patience| {
        PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX)
    });
    let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    if !agent_gone {
        fds.push(PollFd::new(agent.orders_fd(), PollFlags::POLLIN));
    }
    match poll(&mut fds, timeout) {
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(Woken::default()),
        Err(errno) => return Err(errno.into()),
    }
    let ready = |index: usize| fds.get(index).and_then(PollFd::any).unwrap_or(false);
    Ok(Woken {
        signals: ready(0),
        agent: ready(1),
    })
}

// === impl Tree ===

impl Tree {
    /// One round; true when nothing but the main process's zombie is left.
    fn advance(&mut self) -> io::Result<bool> {
        let main_ended = self.main_ended()?;
        if main_ended && self.phase == Phase::Running {
            self.phase = Phase::Killing;
        }
        if let Phase::Terminating { deadline } = self.phase
            && Instant::now() >= deadline
        {
            self.phase = Phase::Killing;
        }
        let others = self.reap_others()?;
        match self.phase {
            Phase::Running => return Ok(false),
            Phase::Terminating { .. } => self.ask_new(&others)?,
            Phase::Killing => self.kill_all(&others)?,
        }
        Ok(main_ended && others.is_empty())
    }

    /// How long the loop may sleep; `None`: until something happens.
    fn patience(&self) -> Option<Duration> {
        match self.phase {
            Phase::Running => self.lease.map(|lease| {
                let left = lease.until().saturating_sub(clock::since_boot());
                // Not zero: what is left is less than what poll(2) can wait for.
                left.clamp(Duration::from_millis(1), LEASE_LOOK)
            }),
            Phase::Terminating { deadline } => Some(
                deadline
                    .saturating_duration_since(Instant::now())
                    .min(TERM_SCAN),
            ),
            Phase::Killing => Some(self.kill_scan),
        }
    }

    /// Looks without reaping.
    fn main_ended(&self) -> io::Result<bool> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.main), flags) {
            Ok(WaitStatus::StillAlive) => Ok(false),
            // EINVAL: it ended by a signal that nix has no name for.
            Ok(_) | Err(Errno::EINVAL) => Ok(true),
            Err(Errno::EINTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Reaps every other child that has ended, and returns those that live.
    fn reap_others(&mut self) -> io::Result<Vec<i32>> {
        let mut alive = Vec::new();
        for process in proc::children_of(self.me)? {
            if process.pid == self.main.as_raw() {
                continue;
            }
            match waitpid(Pid::from_raw(process.pid), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => alive.push(process.pid),
                // Ended, or no child of ours: either way its number is no longer ours.
                Ok(_) | Err(_) => {
                    self.asked.remove(&process.pid);
                }
            }
        }
        Ok(alive)
    }

    fn terminate(&mut self, grace_ms: u64) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_millis(grace_ms);
        match self.phase {
            Phase::Running => {
                // An end that happened before the order is the program's own.
                if self.main_ended()? {
                    return Ok(());
                }
                self.ordered = true;
                self.phase = Phase::Terminating { deadline };
                self.signal_group(Signal::SIGTERM)
            }
            // A second order can only hurry.
            Phase::Terminating { deadline: current } => {
                self.phase = Phase::Terminating {
                    deadline: current.min(deadline),
                };
                Ok(())
            }
            Phase::Killing => Ok(()),
        }
    }

    /// Begins the end, or hurries it, where the lease is over.
    fn heed_lease(&mut self) -> io::Result<()> {
        let Some(lease) = self.lease.filter(|it| it.until() <= clock::since_boot()) else {
            return Ok(());
        };
        self.lease = None;
        let ran = self.phase == Phase::Running;
        self.terminate(lease.grace_ms)?;
        self.lease_over = ran && self.ordered;
        Ok(())
    }

    fn renew(&mut self, until_ms: u64) {
        if let Some(lease) = &mut self.lease {
            lease.until_ms = lease.until_ms.max(until_ms);
        }
    }

    /// SIGTERM to children outside the group: processes that left it and lost their parent since.
    fn ask_new(&mut self, others: &[i32]) -> io::Result<()> {
        for pid in others {
            if self.asked.insert(*pid) {
                signal(*pid, Signal::SIGTERM)?;
            }
        }
        Ok(())
    }

    fn kill_all(&mut self, others: &[i32]) -> io::Result<()> {
        self.kill_scan = (self.kill_scan * 2).min(KILL_SCAN_MAX);
        self.signal_group(Signal::SIGKILL)?;
        others
            .iter()
            .try_for_each(|pid| signal(*pid, Signal::SIGKILL))
    }

    fn signal_group(&self, what: Signal) -> io::Result<()> {
        match killpg(self.main, what) {
            // EPERM: what is left of the group has changed its user; its members are met as children.
            Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn signal(pid: i32, what: Signal) -> io::Result<()> {
    match kill(Pid::from_raw(pid), what) {
        Ok(()) | Err(Errno::ESRCH | Errno::EPERM) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
