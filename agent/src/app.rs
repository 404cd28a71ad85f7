//! The composition root: from options to a running agent.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, sync::Arc};

use interrex_client::session::{Session, SessionEvent, SessionHandle, SessionOptions};
use interrex_proto::{
    channel::ChannelOptions,
    v1::{ResourceAddresses, SparkDictionary, WorkReport, WorkerSpec},
};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    cleanup::{Cleaner, plan::Limits},
    error::AgentError,
    options::AgentOptions,
    outbox::{self, store::OutboxStore},
    process::{
        ProcessEvent, WorkDirs, WorkKey,
        local::{LocalOptions, LocalRunner},
        record::{self, AttemptRecord},
        template::Site,
    },
    spark::SparkHomes,
    state::{AgentState, StateDir},
    traces::Launches,
    web,
    worker::{
        Event, MachineOptions, WorkerMachine,
        pump::{self, Board, Pump},
        store::{self, Change},
    },
};

/// Starts agents.
#[derive(Debug)]
pub struct Agent;

/// A running agent. Dropping it leaves the agent running; [`RunningAgent::stopped`] waits for its end.
#[derive(Debug)]
pub struct RunningAgent {
    /// Where its web server listens.
    pub web_addr: SocketAddr,
    /// Its id for the masters.
    pub worker_id: String,
    pump: JoinHandle<()>,
    web: JoinHandle<()>,
}

/// What an earlier life has left in the work directory.
struct Leftovers {
    directory: StateDir,
    state: AgentState,
    /// The masters that a leader named; none at the first start.
    masters: Vec<String>,
    results: Vec<WorkReport>,
    attempts: Vec<(PathBuf, AttemptRecord)>,
}

// === impl Agent ===

impl Agent {
    /// Starts an agent inside the current tokio runtime. It runs until `shutdown` is cancelled: whatever becomes of
    /// the masters, it keeps its processes and keeps trying.
    ///
    /// # Errors
    /// [`AgentError`] names what has to be changed. Nothing is left running then.
    ///
    /// # Cancel safety
    /// A call dropped before it returns leaves nothing running.
    pub async fn start(
        options: AgentOptions,
        shutdown: CancellationToken,
    ) -> Result<RunningAgent, AgentError> {
        options.validate()?;
        let spark = read_spark(&options).await?;
        let leftovers = read_leftovers(&options).await?;
        let address = options.web;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| AgentError::Web { address, source })?;
        let web_addr = listener
            .local_addr()
            .map_err(|source| AgentError::Web { address, source })?;
        compose(options, spark, leftovers, (listener, web_addr), &shutdown)
    }
}

// === impl RunningAgent ===

impl RunningAgent {
    /// Waits until the agent has stopped: its processes are gone and reported, its servers closed. Cancel the token
    /// that it was started with to make that happen.
    pub async fn stopped(self) {
        for (name, task) in [("pump", self.pump), ("web", self.web)] {
            if let Err(error) = task.await {
                tracing::error!(name, %error, "a task of the agent did not end in order");
            }
        }
    }
}

async fn read_spark(options: &AgentOptions) -> Result<SparkHomes, AgentError> {
    let homes = options.spark_homes.clone();
    let read = tokio::task::spawn_blocking(move || SparkHomes::read(&homes));
    read.await.map_err(|error| AgentError::Leftovers {
        what: "the installations of Spark",
        source: std::io::Error::other(error),
    })?
}

async fn read_leftovers(options: &AgentOptions) -> Result<Leftovers, AgentError> {
    let (work_dir, id) = (options.work_dir.clone(), options.id.clone());
    let random = uuid::Uuid::new_v4().simple().to_string();
    let suffix: String = random.chars().take(8).collect();
    let default_id = format!("worker-{}-{suffix}", options.host);
    let read = tokio::task::spawn_blocking(move || {
        let directory = StateDir::open(&work_dir)?;
        let state = directory.begin(id.as_deref(), &default_id)?;
        let results = OutboxStore::new(directory.outbox_dir())
            .load()
            .map_err(|source| AgentError::Leftovers {
                what: "the results",
                source,
            })?;
        let mut attempts =
            record::list(&directory.running_dir()).map_err(|source| AgentError::Leftovers {
                what: "the attempts",
                source,
            })?;
        // A result is written only when nothing of its attempt is left.
        let reported: BTreeSet<WorkKey> = results
            .iter()
            .filter_map(|report| report.body.as_ref())
            .map(outbox::key_of)
            .collect();
        for (path, _) in attempts.extract_if(.., |(_, record)| reported.contains(&record.key)) {
            record::remove(&path).map_err(|source| AgentError::Leftovers {
                what: "the attempts",
                source,
            })?;
        }
        Ok(Leftovers {
            masters: directory.masters(),
            directory,
            state,
            results,
            attempts,
        })
    });
    read.await.map_err(|error| AgentError::Leftovers {
        what: "the state",
        source: std::io::Error::other(error),
    })?
}

fn say_started(options: &AgentOptions, worker_id: &str, results: usize, former: usize) {
    let AgentOptions {
        cores, memory_mib, ..
    } = options;
    tracing::info!(
        worker_id,
        cores,
        memory_mib,
        results,
        former,
        "agent started"
    );
}

/// Makes the parts, tells them of each other, and sets them going.
fn compose(
    options: AgentOptions,
    spark: SparkHomes,
    leftovers: Leftovers,
    (listener, web_addr): (TcpListener, SocketAddr),
    shutdown: &CancellationToken,
) -> Result<RunningAgent, AgentError> {
    let spec = worker_spec(&options, &spark, &leftovers.state, web_addr);
    let dictionaries = spark.learned().to_vec();
    let (session, session_events) = open_session(&options, &leftovers)?;
    let (events_tx, process_events) = mpsc::channel(pump::PROCESS_EVENTS_MAX);
    let (queries_tx, queries) = mpsc::channel(pump::QUERIES_MAX);
    let directory = &leftovers.directory;
    let work_dirs = WorkDirs::new(options.work_dir.clone(), directory.trash_dir());
    let runner = local_runner(
        &options,
        spark,
        (directory.running_dir(), work_dirs.clone()),
        &spec.web,
        events_tx,
    );
    let machine = machine(&options, (spec, dictionaries), &leftovers);
    let Leftovers {
        directory,
        state,
        masters: _,
        results,
        attempts,
    } = leftovers;
    let worker_id = state.worker_id.clone();
    say_started(&options, &state.worker_id, results.len(), attempts.len());
    for (path, attempt) in attempts {
        runner.resume(path, attempt);
    }
    let (changes, stored) = start_store(&directory);
    let board = Board::new(&machine);
    // The web server and the clean-up outlive the pump: health and logs are served until the last process is gone.
    let stopped = CancellationToken::new();
    let (disk, ended) = start_cleaner(options.work, work_dirs, &board, &stopped);
    let site = web::Site {
        queries: queries_tx,
        board: board.clone(),
        work_dir: options.work_dir,
        prometheus: options.prometheus,
        log: options.log,
        host: options.host,
        credentials: options.credentials,
    };
    let pump = Pump {
        launches: Launches::default(),
        machine,
        runner: Arc::new(runner),
        session,
        session_events,
        process_events,
        changes,
        stored,
        queries,
        board,
        disk,
        ended,
        state,
        state_dir: Arc::new(directory),
        kill_grace: options.kill_grace,
        shutdown: shutdown.clone(),
        began: Instant::now(),
    };
    let web = tokio::spawn(web::serve(listener, site, stopped.clone()));
    let pump = tokio::spawn(async move {
        let _stop_web = stopped.drop_guard();
        pump.run().await;
    });
    Ok(RunningAgent {
        web_addr,
        worker_id,
        pump,
        web,
    })
}

fn start_store(directory: &StateDir) -> (mpsc::Sender<Change>, mpsc::Receiver<Event>) {
    let (changes, changes_rx) = mpsc::channel(store::CHANGES_MAX);
    let (stored_tx, stored) = mpsc::channel(store::CHANGES_MAX);
    let outbox = OutboxStore::new(directory.outbox_dir());
    let running_dir = directory.running_dir();
    tokio::spawn(store::run(outbox, running_dir, changes_rx, stored_tx));
    (changes, stored)
}

/// What the clean-up says of the disk, and how it is told that work has ended.
fn start_cleaner(
    limits: Limits,
    work_dirs: WorkDirs,
    board: &Board,
    stopped: &CancellationToken,
) -> (watch::Receiver<Option<String>>, Arc<Notify>) {
    let (trouble, disk) = watch::channel(None);
    let ended = Arc::new(Notify::new());
    let cleaner = Cleaner {
        limits,
        work_dirs,
        board: board.clone(),
        ended: Arc::clone(&ended),
        trouble,
        stopped: stopped.clone(),
    };
    tokio::spawn(cleaner.run());
    (disk, ended)
}

fn open_session(
    options: &AgentOptions,
    leftovers: &Leftovers,
) -> Result<(SessionHandle, mpsc::Receiver<SessionEvent>), AgentError> {
    let session = SessionOptions {
        masters: options.masters.clone(),
        learnt: leftovers.masters.clone(),
        seen: leftovers.state.epoch,
        seed: u64::from(std::process::id()) ^ interrex_proto::clock::now_ms(),
        timings: options.session,
        channel: ChannelOptions {
            credentials: options.credentials.clone(),
            ..ChannelOptions::default()
        },
    };
    // Not the agent's own token: the last reports leave after that is cancelled.
    Ok(Session::spawn(session, CancellationToken::new())?)
}

fn local_runner(
    options: &AgentOptions,
    spark: SparkHomes,
    (running_dir, work_dirs): (PathBuf, WorkDirs),
    web: &str,
    events: mpsc::Sender<ProcessEvent>,
) -> LocalRunner {
    let local = LocalOptions {
        work_dirs,
        running_dir,
        supervisor: options.supervisor.clone(),
        site: Site {
            host: options.host.clone(),
            worker_url: format!("http://{web}"),
            spark,
        },
        orphan_grace: options.kill_grace,
    };
    LocalRunner::new(local, events)
}

fn machine(
    options: &AgentOptions,
    (spec, dictionaries): (WorkerSpec, Vec<SparkDictionary>),
    leftovers: &Leftovers,
) -> WorkerMachine {
    let Leftovers {
        state,
        results,
        attempts,
        masters,
        ..
    } = leftovers;
    let masters = if masters.is_empty() {
        &options.masters
    } else {
        masters
    };
    WorkerMachine::new(
        MachineOptions {
            spec,
            dictionaries,
            masters: masters.clone(),
            cluster_id: state.cluster_id.clone(),
            epoch: state.epoch,
            kill_grace: options.kill_grace,
            launch_wait: options.launch_wait(),
        },
        state.first_sequence(),
        results.clone(),
        attempts.iter().map(|(_, record)| record.clone()).collect(),
    )
}

fn worker_spec(
    options: &AgentOptions,
    spark: &SparkHomes,
    state: &AgentState,
    web: SocketAddr,
) -> WorkerSpec {
    let mut capabilities = options.capabilities.clone();
    capabilities.extend(spark.capabilities());
    capabilities.sort_unstable();
    capabilities.dedup();
    WorkerSpec {
        id: state.worker_id.clone(),
        host: options.host.clone(),
        web: advertised(&options.host, web),
        cores: options.cores,
        memory_mib: options.memory_mib,
        resources: options
            .resources
            .iter()
            .map(|(name, addresses)| ResourceAddresses {
                name: name.clone(),
                addresses: addresses.clone(),
            })
            .collect(),
        capabilities,
        incarnation: uuid::Uuid::new_v4().to_string(),
        work_dir_id: state.work_dir_id.clone(),
        spark: None,
    }
}

/// The address that others use: the bound one where it names an interface, else this machine's name.
fn advertised(host: &str, web: SocketAddr) -> String {
    if web.ip().is_unspecified() {
        format!("{host}:{}", web.port())
    } else {
        web.to_string()
    }
}
