//! The life of one attempt, seen from the agent: prepare, start the supervisor, pass orders on, hear the end.
//!
//! Ends only when the tree is gone. Every wait on the supervisor has a deadline; where it passes, or the supervisor
//! is gone without a word, the agent ends the tree itself ([`proc::sweep`]).

use std::{
    future::{Future, pending},
    io,
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use interrex_proto::v1::Exit;
use nix::sys::signal::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    clock,
    options::THIS_PROGRAM,
    process::{
        EndCause, Launch, ProcessEvent, WorkKey,
        local::{LocalOptions, blocking},
        proc,
        protocol::{Ending, Lease, MainProcess, Notice, Order, ProgramSpec},
        record::{self, AttemptRecord},
        resources, template,
        work_dirs::InUse,
    },
};

/// How long a supervisor may take until it says that the program runs, or why not.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// How long, beyond the grace, a supervisor may take to end a tree before it is taken for stuck.
const KILL_DEADLINE: Duration = Duration::from_secs(10);
/// How long a write to a supervisor may take before it is taken for stuck.
const WRITE_DEADLINE: Duration = Duration::from_secs(10);
/// How long, beyond a lease and its grace, a supervisor may take before the agent ends the tree in its place.
const LEASE_EXTRA: Duration = Duration::from_millis(500);
/// Between the first two sweeps of a tree that has lost its supervisor; doubled each time.
const SWEEP_MIN: Duration = Duration::from_millis(10);
/// The longest wait between two sweeps; a tree that lives so long needs somebody to look.
const SWEEP_MAX: Duration = Duration::from_secs(5);

/// What one attempt needs.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) options: Arc<LocalOptions>,
    pub(super) launch: Launch,
    pub(super) orders: mpsc::Receiver<Duration>,
    pub(super) leases: watch::Receiver<Option<Lease>>,
}

/// All that is made before a supervisor starts.
#[derive(Debug)]
struct Prepared {
    record_path: PathBuf,
    token: String,
    spec: ProgramSpec,
    /// Keeps the clean-up away from the directory.
    _in_use: InUse,
}

/// A started supervisor.
#[derive(Debug)]
struct Supervisor {
    child: Child,
    orders: ChildStdin,
    notices: Lines<BufReader<ChildStdout>>,
}

/// What was heard of the program so far, and what was ordered.
#[derive(Debug, Default)]
struct Progress {
    main: Option<MainProcess>,
    killed: bool,
    deadline: Option<Instant>,
    lease: Option<Lease>,
    lease_over: bool,
}

/// How the conversation with a supervisor ended.
#[derive(Debug)]
enum Last {
    Ended(Ending),
    NotStarted(String),
    /// Gone or stuck.
    Lost,
}

/// Runs one attempt and returns its last event; `started` is told when the program runs.
pub(super) async fn run<F: Future<Output = ()>>(
    attempt: Attempt,
    started: impl Fn(ProcessEvent) -> F,
) -> ProcessEvent {
    let Attempt {
        options,
        launch,
        mut orders,
        mut leases,
    } = attempt;
    let key = launch.key.clone();
    let prepared = {
        let options = Arc::clone(&options);
        blocking(move || prepare(&launch, &options)).await
    };
    let mut prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            return ProcessEvent::NotStarted {
                key,
                message: format!("preparing: {error}"),
            };
        }
    };
    if orders.try_recv().is_ok() {
        return ProcessEvent::Ended {
            key,
            exit: None,
            cause: EndCause::Order,
        };
    }
    let mut supervisor = match Supervisor::start(&options, &prepared) {
        Ok(supervisor) => supervisor,
        Err(error) => {
            return ProcessEvent::NotStarted {
                key,
                message: format!("its supervisor: {error}"),
            };
        }
    };
    // It may have been renewed while the directories were made.
    renew(&mut prepared.spec.lease, *leases.borrow_and_update());
    let mut progress = Progress {
        deadline: Some(Instant::now() + START_DEADLINE),
        lease: prepared.spec.lease,
        ..Progress::default()
    };
    let last = match supervisor.say(&prepared.spec).await {
        Ok(()) => {
            let running = |pid| {
                started(ProcessEvent::Started {
                    key: key.clone(),
                    pid,
                })
            };
            supervisor
                .attend(&mut progress, &mut orders, &mut leases, running)
                .await
        }
        Err(error) => {
            tracing::warn!(%key, %error, "a supervisor did not take its program");
            Last::Lost
        }
    };
    conclude(key, last, &mut supervisor, &progress, &prepared.token).await
}

/// Makes sure that nothing is left, and says how it ended.
async fn conclude(
    key: WorkKey,
    last: Last,
    supervisor: &mut Supervisor,
    progress: &Progress,
    token: &str,
) -> ProcessEvent {
    match last {
        Last::Ended(ending) => {
            supervisor.reap().await;
            ProcessEvent::Ended {
                key,
                exit: Some(exit_of(&ending)),
                cause: cause_of(&ending, EndCause::Order),
            }
        }
        // A supervisor that broke down after the start says so too; that one is lost.
        Last::NotStarted(message) if progress.main.is_none() => {
            supervisor.reap().await;
            sweep(token, progress.main).await;
            ProcessEvent::NotStarted { key, message }
        }
        Last::NotStarted(_) | Last::Lost => {
            tracing::warn!(%key, "a supervisor is gone without a word; ending what it left");
            supervisor.end().await;
            sweep(token, progress.main).await;
            let cause = if progress.lease_over {
                EndCause::LeaseOver
            } else if progress.killed {
                EndCause::Order
            } else {
                EndCause::SupervisorLost
            };
            ProcessEvent::Ended {
                key,
                exit: progress.main.map(|_| swept()),
                cause,
            }
        }
    }
}

/// How a program ended that did run, and that its supervisor said nothing of: never like one that was not started,
/// which masters may start again.
fn swept() -> Exit {
    Exit {
        code: None,
        signal: Some(Signal::SIGKILL as i32),
    }
}

/// How a process ended, in the words of the wire.
pub(super) fn exit_of(ending: &Ending) -> Exit {
    Exit {
        code: ending.code,
        signal: ending.signal,
    }
}

/// Why a process ended; `ordered` is what an order means to whoever asks.
pub(super) fn cause_of(ending: &Ending, ordered: EndCause) -> EndCause {
    if ending.lease_over {
        EndCause::LeaseOver
    } else if ending.ordered {
        ordered
    } else {
        EndCause::Itself
    }
}

fn renew(lease: &mut Option<Lease>, renewed: Option<Lease>) {
    if let (Some(lease), Some(renewed)) = (lease, renewed) {
        lease.until_ms = lease.until_ms.max(renewed.until_ms);
    }
}

/// Directories, record, environment. Blocking.
fn prepare(launch: &Launch, options: &LocalOptions) -> io::Result<Prepared> {
    let (in_use, directory) = options.work_dirs.make(launch.key.owner())?;
    let resources_file = resources::write(launch, &directory)?;
    let record_path = record::path_of(&options.running_dir, &launch.key)?;
    let token = uuid::Uuid::new_v4().to_string();
    let record = AttemptRecord {
        key: launch.key.clone(),
        token: token.clone(),
        cores: launch.cores,
        memory_mib: launch.memory_mib,
        started_at_ms: interrex_proto::clock::now_ms(),
        resources: launch.resources.clone(),
    };
    record::write(&record_path, &record)?;
    let rendered = template::render(
        launch,
        &options.site,
        &directory,
        resources_file.as_deref(),
        &token,
    );
    let spec = ProgramSpec {
        program: rendered.program,
        args: rendered.args,
        env: rendered.env.into_iter().collect(),
        stdout: directory.join("stdout"),
        stderr: directory.join("stderr"),
        directory,
        grace_ms: u64::try_from(options.orphan_grace.as_millis()).unwrap_or(u64::MAX),
        lease: launch.lease,
    };
    Ok(Prepared {
        record_path,
        token,
        spec,
        _in_use: in_use,
    })
}

/// Ends what is left of a tree, for as long as it takes: nobody may hear of an end that has not come.
async fn sweep(token: &str, main: Option<MainProcess>) {
    let mut wait = SWEEP_MIN;
    loop {
        let wanted = token.to_owned();
        let left = blocking(move || proc::sweep(&wanted, main)).await;
        match left {
            Ok(0) => return,
            Ok(left) if wait >= SWEEP_MAX => {
                tracing::error!(left, "what a lost supervisor left does not end on SIGKILL");
            }
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "cannot end what a lost supervisor left"),
        }
        sleep(wait).await;
        wait = (wait * 2).min(SWEEP_MAX);
    }
}

/// Waits until the supervisor should long have ended its tree for want of a renewal.
async fn lease_end(lease: Option<Lease>) {
    let Some(lease) = lease else {
        return pending().await;
    };
    let last = lease.until() + lease.grace() + LEASE_EXTRA;
    loop {
        let left = last.saturating_sub(clock::since_boot());
        if left.is_zero() {
            return;
        }
        // Sleeps do not count suspensions: a late look is only late.
        sleep(left).await;
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

// === impl Supervisor ===

impl Supervisor {
    fn start(options: &LocalOptions, prepared: &Prepared) -> io::Result<Self> {
        let (program, args) = options.supervisor.split_first().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the supervisor's command is empty",
            )
        })?;
        let mut command = Command::new(program);
        if program == THIS_PROGRAM {
            // For people who look at `ps`.
            command.arg0("interrex");
        }
        let mut child = command
            .args(args)
            .arg(&prepared.record_path)
            // Out of the terminal's group: Ctrl-C is for the agent, which then gives its orders.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("a pipe of the supervisor is missing");
        let orders = child.stdin.take().ok_or_else(missing)?;
        let notices = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        Ok(Self {
            child,
            orders,
            notices,
        })
    }

    /// Hears the supervisor out, passing orders on.
    async fn attend<F: Future<Output = ()>>(
        &mut self,
        progress: &mut Progress,
        orders: &mut mpsc::Receiver<Duration>,
        leases: &mut watch::Receiver<Option<Lease>>,
        started: impl Fn(i32) -> F,
    ) -> Last {
        let mut listening = true;
        loop {
            tokio::select! {
                line = self.notices.next_line() => {
                    let Ok(Some(line)) = line else { return Last::Lost };
                    match serde_json::from_str::<Notice>(&line) {
                        Ok(Notice::Started(main)) => {
                            progress.main = Some(main);
                            if !progress.killed {
                                progress.deadline = None;
                            }
                            started(main.pid).await;
                        }
                        Ok(Notice::NotStarted { message }) => return Last::NotStarted(message),
                        Ok(Notice::Ended(ending)) => return Last::Ended(ending),
                        Err(error) => tracing::warn!(%error, "a supervisor says what nobody understands"),
                    }
                }
                order = orders.recv(), if listening => match order {
                    Some(grace) => {
                        progress.killed = true;
                        progress.deadline = Some(Instant::now() + grace + KILL_DEADLINE);
                        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
                        if self.say(&Order::Term { grace_ms }).await.is_err() {
                            // It may be at its end already: its last words are still to be read.
                            tracing::debug!("a supervisor did not take an order");
                        }
                    }
                    None => listening = false,
                },
                // An error means that the runner is gone: nobody renews any more.
                Ok(()) = leases.changed(), if progress.lease.is_some() => {
                    renew(&mut progress.lease, *leases.borrow_and_update());
                    self.renew(progress.lease).await;
                }
                () = lease_end(progress.lease) => {
                    progress.lease_over = true;
                    return Last::Lost;
                }
                () = at(progress.deadline) => return Last::Lost,
            }
        }
    }

    async fn renew(&mut self, lease: Option<Lease>) {
        let Some(Lease { until_ms, .. }) = lease else {
            return;
        };
        if self.say(&Order::Renew { until_ms }).await.is_err() {
            tracing::debug!("a supervisor did not take a renewal");
        }
    }

    async fn say(&mut self, what: &impl serde::Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        let write = async {
            self.orders.write_all(&line).await?;
            self.orders.flush().await
        };
        timeout(WRITE_DEADLINE, write)
            .await
            .map_err(io::Error::from)?
    }

    /// Waits for a supervisor that has said its last word.
    async fn reap(&mut self) {
        if timeout(KILL_DEADLINE, self.child.wait()).await.is_err() {
            self.end().await;
        }
    }

    /// Ends a supervisor that is stuck or lost.
    async fn end(&mut self) {
        if let Err(error) = self.child.kill().await {
            tracing::warn!(%error, "a supervisor could not be ended");
        }
    }
}
