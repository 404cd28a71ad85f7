//! `interrex master`: options, start, orderly end.

mod etcd;
mod tuning;

use std::{collections::BTreeMap, path::PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use interrex_control_plane::{
    access::Access,
    app::{Listeners, Master, MasterOptions},
    options::MasterConfig,
};
pub(crate) use interrex_persistence::options::EngineKind;
use interrex_persistence::{
    backend::Backend,
    election::MasterInfo,
    error::OpenError,
    etcd::{EtcdOptions, open as open_etcd},
    kill_point, memory,
    raft::{self, RaftOptions},
    sled::{self, SledOptions},
};

use self::{etcd::EtcdArgs, tuning::Tuning};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    agent::{needs_insecure, resolve},
    exit::{Done, Exit, Failure, chain},
    logging, metrics, open_files, reload,
    shutdown::Shutdown,
    units::{Listen, is_loopback, parse_address, parse_listen},
};

const EXAMPLES: &str = "\
Examples:
  interrex master --id m1 --data-dir /var/lib/interrex/m1
  interrex master --id m1 --data-dir D --peers m1=127.0.0.1:7077,m2=127.0.0.1:7078,m3=127.0.0.1:7079
  interrex master --id m1 --data-dir D --peers m1=a:7077,m2=b:7077,m3=c:7077 \\
      --bind 0.0.0.0:7077 --insecure
  interrex master --id m4 --data-dir D --bind 10.0.0.4:7077 --insecure --join a:7077,b:7077,c:7077
  interrex master --id m1 --data-dir D --engine etcd --etcd-endpoints e1:2379,e2:2379,e3:2379

The same --peers on every master that forms a cluster; on etcd masters find each other without. One that comes later is \
started with --join, and let in with `interrex cluster add ID=ADDR`; once it is a member, --join means nothing any more. \
SIGTERM hands leadership over and stops; a second signal stops at once.";

/// Options of `interrex master`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MasterArgs {
    /// This master's id, such as m1
    #[arg(long, env = "INTERREX_MASTER_ID")]
    pub(crate) id: String,
    /// Where records are kept; belongs to this master for ever. Not needed by the engine `memory`
    #[arg(long, env = "INTERREX_MASTER_DATA_DIR", value_name = "D")]
    data_dir: Option<PathBuf>,
    /// Every master, this one included; this one alone if not given
    #[arg(
        long,
        env = "INTERREX_MASTER_PEERS",
        value_name = "ID=ADDR,...",
        value_delimiter = ','
    )]
    #[arg(value_parser = parse_peer)]
    peers: Vec<(String, String)>,
    /// Masters of a cluster to join: this one waits until `interrex cluster add` lets it in
    #[arg(
        long,
        env = "INTERREX_MASTER_JOIN",
        value_name = "A,B,C",
        value_delimiter = ',',
        value_parser = parse_address
    )]
    join: Vec<String>,
    /// Where to listen for RPC; this master's address in --peers, or 127.0.0.1:7077, if not given
    #[arg(long, env = "INTERREX_MASTER_BIND", value_name = "ADDR", value_parser = parse_address)]
    bind: Option<String>,
    /// The name under which others reach this master, without port; from --peers if not given
    #[arg(long, env = "INTERREX_MASTER_ADVERTISE", value_name = "HOST")]
    advertise: Option<String>,
    /// Where Spark's submission REST API is served; `off` for nowhere
    #[arg(long, env = "INTERREX_MASTER_REST", value_name = "ADDR|off")]
    #[arg(default_value = "127.0.0.1:6066", value_parser = parse_listen)]
    rest: Listen,
    /// Where pages, health and metrics are served
    #[arg(long, env = "INTERREX_MASTER_WEB", value_name = "ADDR")]
    #[arg(default_value = "127.0.0.1:8080", value_parser = parse_address)]
    web: String,
    /// How records are kept: `raft` replicates them; `etcd` keeps them in an etcd; `sled` and `memory` are for one
    /// master
    #[arg(long, env = "INTERREX_MASTER_ENGINE", default_value = "raft")]
    #[arg(value_parser = engine_parser())]
    engine: EngineKind,
    /// Spark's settings, as in `spark-defaults.conf`: what they say about a standalone cluster becomes the default of the
    /// options here
    #[arg(long, env = "INTERREX_MASTER_SPARK_DEFAULTS", value_name = "FILE")]
    // Read before the command line is: config/spark_defaults.rs.
    spark_defaults: Option<PathBuf>,
    /// Serve on addresses that others can reach, without encryption or passwords
    #[arg(long, env = "INTERREX_MASTER_INSECURE")]
    insecure: bool,
    /// A file with the name and token of each caller that may change something, one a line, the masters' own first;
    /// without it anybody may
    #[arg(long, env = "INTERREX_MASTER_TOKENS", value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Serve Spark's RPC, which has no place for a token, although there are --tokens
    #[arg(long, env = "INTERREX_MASTER_SPARK_WITHOUT_TOKEN", requires = "tokens")]
    spark_without_token: bool,
    /// Ask Spark's drivers and submission clients of an unknown build what its classes look like; each question is an error
    /// in their log. For installations that agents offer as --spark-home NAME=DIR
    #[arg(long, env = "INTERREX_MASTER_SPARK_PROBE")]
    spark_probe: bool,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    tuning: Tuning,
}

/// The engines that can be chosen, for the command line.
pub(crate) fn engine_parser() -> impl TypedValueParser<Value = EngineKind> {
    PossibleValuesParser::new(EngineKind::ALL.map(EngineKind::name))
        .try_map(|name| name.parse::<EngineKind>())
}

fn parse_peer(text: &str) -> Result<(String, String), String> {
    let form = "write ID=HOST:PORT such as m1=127.0.0.1:7077";
    match text.split_once('=') {
        Some((id, address)) if !id.is_empty() => Ok((id.to_owned(), parse_address(address)?)),
        _ => Err(form.to_owned()),
    }
}

// === impl MasterArgs ===

impl MasterArgs {
    /// The configuration that these options stand for.
    ///
    /// # Errors
    /// Everything that can be found wrong without touching the machine, as a usage failure.
    fn config(&self) -> Result<MasterConfig, Failure> {
        let peers = self.peers()?;
        let own = peers.get(&self.id);
        let mut config = MasterConfig {
            id: self.id.clone(),
            data_dir: self.data_dir.clone().unwrap_or_default(),
            engine: self.engine,
            insecure: self.insecure,
            tokens: self.tokens.clone(),
            spark_without_token: self.spark_without_token,
            spark_probe: self.spark_probe,
            ..MasterConfig::default()
        };
        let default_rpc = config.server.rpc.to_string();
        let rpc = self.bind.as_ref().or(own).unwrap_or(&default_rpc);
        self.check_reachable("--bind", rpc)?;
        self.check_reachable("--web", &self.web)?;
        config.server.rpc = resolve("--bind", rpc)?;
        config.server.web = resolve("--web", &self.web)?;
        match &self.rest {
            Listen::Off => config.server.rest_enabled = false,
            Listen::On(address) => {
                self.check_reachable("--rest", address)?;
                config.server.rest = resolve("--rest", address)?;
            }
        }
        // Others dial what --peers says: that name is advertised wherever it differs from what is bound.
        let by_peers = own.filter(|o| **o != config.server.rpc.to_string());
        config.server.advertise_host = self
            .advertise
            .clone()
            .or_else(|| by_peers.and_then(|o| host_of(o)));
        config.peers = peers;
        config.join.clone_from(&self.join);
        if self.engine != EngineKind::Etcd
            && let Some(option) = self.etcd.given()
        {
            return Err(Failure::usage(format!(
                "{option} is for --engine etcd; the engine is {}",
                self.engine
            )));
        }
        self.etcd.apply(&mut config);
        self.tuning.apply(&mut config);
        config
            .validate()
            .map_err(|e| Failure::usage(format!("master options:\n{e}")))?;
        Ok(config)
    }

    fn peers(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut peers = BTreeMap::new();
        for (id, address) in &self.peers {
            if let Some(other) = peers.insert(id.clone(), address.clone()) {
                return Err(Failure::usage(format!(
                    "--peers names `{id}` twice: {other} and {address}"
                )));
            }
        }
        if !peers.is_empty() && !peers.contains_key(&self.id) {
            let known: Vec<&str> = peers.keys().map(String::as_str).collect();
            return Err(Failure::usage(format!(
                "--peers must contain this master, `{}`; it names {}",
                self.id,
                known.join(", ")
            )));
        }
        Ok(peers)
    }

    fn check_reachable(&self, option: &str, address: &str) -> Result<(), Failure> {
        if self.insecure || is_loopback(address) {
            return Ok(());
        }
        resolve(option, address)?;
        Err(needs_insecure(option, address))
    }
}

fn host_of(address: &str) -> Option<String> {
    let (host, _) = address.rsplit_once(':')?;
    Some(
        host.trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned(),
    )
}

/// Opens the engine that `config` names, for the master that is reached at `me`.
async fn open(
    config: &MasterConfig,
    me: MasterInfo,
    access: &Access,
) -> Result<Backend, OpenError> {
    match config.engine {
        EngineKind::Memory => Ok(memory::open(me)),
        EngineKind::Sled => {
            sled::open(SledOptions {
                data_dir: config.data_dir.clone(),
                me,
            })
            .await
        }
        EngineKind::Raft => {
            let mut options = raft_options(config, me);
            options.credentials = access.own().clone();
            raft::open(options).await
        }
        EngineKind::Etcd => {
            open_etcd(EtcdOptions {
                data_dir: config.data_dir.clone(),
                me,
                settings: config.etcd.settings(),
            })
            .await
        }
    }
}

/// Who may change something: read now, and again at each SIGHUP.
fn access(config: &MasterConfig) -> Result<Access, Failure> {
    let Some(file) = config.tokens.clone() else {
        return Ok(Access::default());
    };
    let access = Access::read(&file).map_err(|e| Failure::usage(chain(&e)))?;
    let access = access.with_open_spark(config.spark_without_token);
    let shared = access.clone();
    reload::also("tokens", move || {
        shared.read_again(&file).map_err(|e| e.to_string())
    });
    Ok(access)
}

fn raft_options(config: &MasterConfig, me: MasterInfo) -> RaftOptions {
    let mut peers = config.peers.clone();
    peers
        .entry(config.id.clone())
        .or_insert_with(|| me.rpc.clone());
    let mut options = RaftOptions::new(me, peers, &config.data_dir);
    options.join.clone_from(&config.join);
    options.timing = config.raft.timing();
    options.disk = config.raft.disk();
    options
}

/// Finds what is wrong with the options of the engine before a port is opened. Without `--peers` there is nothing
/// to compare, and the port may not be known yet.
fn check_engine(config: &MasterConfig) -> Result<(), OpenError> {
    match config.engine {
        EngineKind::Raft if !config.peers.is_empty() => {
            raft_options(config, config.server.advertised(&config.id)).validate()
        }
        EngineKind::Etcd => config.etcd.settings().check(),
        EngineKind::Raft | EngineKind::Sled | EngineKind::Memory => Ok(()),
    }
}

fn refused(error: &OpenError) -> Failure {
    let exit = match error {
        OpenError::Option { .. } => Exit::Usage,
        OpenError::InUse { .. }
        | OpenError::Foreign { .. }
        | OpenError::Io { .. }
        | OpenError::Corrupt { .. } => Exit::Failed,
    };
    Failure::new(exit, chain(error))
}

/// A write beyond the limit of file sizes (`RLIMIT_FSIZE`) fails, as on a full disk, instead of ending the process: a
/// handler stays installed for its life.
fn file_size_limit_is_an_error() -> Result<(), Failure> {
    let kind = SignalKind::from_raw(nix::sys::signal::Signal::SIGXFSZ as i32);
    signal(kind)
        .map(drop)
        .map_err(|e| Failure::failed(format!("installing a signal handler: {e}")))
}

/// Runs `interrex master` until it is asked to stop.
pub(crate) async fn run(args: MasterArgs) -> Done {
    let config = args.config()?;
    check_engine(&config).map_err(|e| refused(&e))?;
    kill_point::arm(std::env::var("FAILPOINTS").ok().as_deref())
        .map_err(|e| Failure::usage(e.to_string()))?;
    let access = access(&config)?;
    let mut shutdown = Shutdown::listen()?;
    file_size_limit_is_an_error()?;
    open_files::raise();
    let prometheus = metrics::install()?;
    // The sockets first: a busy port must not cost a look at the data, and port 0 is known by its number.
    let listeners = Listeners::bind(&config.server).map_err(|e| Failure::failed(chain(&e)))?;
    let mut options = MasterOptions::from_config(&config, &listeners);
    options.prometheus = Some(prometheus);
    options.log = Some(logging::control());
    options.access = access.clone();
    let backend = open(&config, options.me.clone(), &access)
        .await
        .map_err(|e| refused(&e))?;
    let running = Master::start(options, listeners, backend);
    let running = running.map_err(|e| Failure::failed(chain(&e)))?;
    let signal = shutdown.asked().await;
    tracing::info!(signal, "stopping: handing leadership over");
    tokio::select! {
        () = running.shutdown() => Ok(Exit::Ok),
        signal = shutdown.asked() => {
            tracing::warn!(signal, "stopping at once");
            Ok(Exit::Failed)
        }
    }
}
