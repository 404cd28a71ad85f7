//! `bench submit`: acknowledged, durable submissions a second.
//!
//! A closed loop: each client sends its next submission when the last is acknowledged. Clients share a few
//! connections, as real submitters behind one gateway would.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use interrex_client::control::ControlClient;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    etcd::Etcd,
    own::{Own, queued_driver},
    report::{Report, Times, print},
};
use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    master::{EngineKind, engine_parser},
    output::{self, Format},
};

/// Clients that share one connection.
const CLIENTS_PER_CONNECTION: usize = 16;
/// Clients that fill the queue for `--queued`.
const FILLERS: usize = 128;

/// Options of `interrex bench submit`.
#[derive(Debug, clap::Args)]
pub(super) struct SubmitArgs {
    /// Clients at once; a list is measured one after the other
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256")]
    clients: Vec<usize>,
    /// How long each is measured
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Queue this many drivers first
    #[arg(long, default_value_t = 0)]
    queued: usize,
    /// Through the REST API instead of gRPC
    #[arg(long)]
    rest: bool,
    /// These masters instead of a cluster of its own
    #[arg(long, value_name = "A,B,C")]
    masters: Option<String>,
    /// Where the masters of its own cluster keep their records
    #[arg(long, value_parser = engine_parser(), default_value = "raft")]
    engine: EngineKind,
    /// Measure durable puts of an etcd beside it, if etcd is installed: of 3 nodes, or of one with --engine etcd, which
    /// runs on one itself
    #[arg(long)]
    compare_etcd: bool,
}

/// Something that can submit, or put, one thing and wait for the acknowledgement.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Grpc(ControlClient),
    Rest { http: reqwest::Client, url: String },
    Etcd { http: reqwest::Client, url: String },
}

/// Runs the bench.
pub(super) async fn run(args: SubmitArgs, format: Format) -> Done {
    let mut own = match &args.masters {
        Some(_) => None,
        None => Some(Own::start(3, args.engine).await?),
    };
    let masters = match (&args.masters, &own) {
        (Some(list), _) => list.clone(),
        (None, Some(own)) => own.cluster.layout().masters_list(),
        (None, None) => return Err(Failure::failed("no masters")),
    };
    let client = Connect::to(&masters).client()?;
    if args.queued > 0 {
        fill(&masters, args.queued).await?;
    }
    let mut reports = Vec::new();
    for &clients in &args.clients {
        let targets = if args.rest {
            rest_targets(&client, clients).await?
        } else {
            grpc_targets(&masters, clients)?
        };
        let api = if args.rest { "rest" } else { "grpc" };
        let measured = measure(targets, clients, args.seconds).await?;
        reports.push(report(api, args.engine, clients, args.queued, &measured));
    }
    if let Some(own) = &mut own {
        own.cluster.stop().await;
    }
    if args.compare_etcd {
        let etcd = Etcd::start(if args.engine == EngineKind::Etcd {
            1
        } else {
            3
        })
        .await?;
        for &clients in &args.clients {
            let targets = connections(clients)
                .map(|_| etcd.target())
                .collect::<Result<_, _>>()?;
            let measured = measure(targets, clients, args.seconds).await?;
            reports.push(report("etcd", args.engine, clients, 0, &measured));
        }
    }
    print(&reports, format)?;
    Ok(Exit::Ok)
}

/// What one measurement gave.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) times: Times,
    pub(super) elapsed: Duration,
}

// === impl Measured ===

impl Measured {
    /// Acknowledgements a second.
    pub(super) fn per_second(&self) -> f64 {
        let count = u32::try_from(self.times.count()).unwrap_or(u32::MAX);
        (f64::from(count) / self.elapsed.as_secs_f64()).round()
    }
}

fn report(
    api: &str,
    engine: EngineKind,
    clients: usize,
    queued: usize,
    measured: &Measured,
) -> Report {
    let rate = measured.per_second();
    output::say(&format!("{api}, {clients} clients: {rate:.0} a second"));
    Report::new("submit")
        .param("api", api)
        .param("engine", engine.name())
        .param("clients", clients)
        .param("queued", queued)
        .metric("acknowledged", measured.times.count())
        .metric("per_second", rate)
        .times(&measured.times)
}

async fn measure(targets: Vec<Target>, clients: usize, seconds: u64) -> Result<Measured, Failure> {
    let over = CancellationToken::new();
    let clock = async {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        over.cancel();
    };
    let (measured, ()) = tokio::join!(measure_until(&over, targets, clients), clock);
    measured
}

/// Submits with so many clients at once until `over` is cancelled.
pub(super) async fn measure_until(
    over: &CancellationToken,
    targets: Vec<Target>,
    clients: usize,
) -> Result<Measured, Failure> {
    let began = Instant::now();
    let targets = Arc::new(targets);
    let mut tasks = JoinSet::new();
    for number in 0..clients {
        let (targets, over) = (Arc::clone(&targets), over.clone());
        tasks.spawn(async move {
            let mut times = Times::new()?;
            let Some(target) = targets.get(number % targets.len().max(1)) else {
                return Err(Failure::failed("no connection"));
            };
            while !over.is_cancelled() {
                let sent = Instant::now();
                target.once().await?;
                times.add(sent.elapsed());
            }
            Ok::<Times, Failure>(times)
        });
    }
    let mut all = Times::new()?;
    while let Some(joined) = tasks.join_next().await {
        let times = joined.map_err(|e| Failure::failed(format!("a client task: {e}")))??;
        all.merge(&times);
    }
    Ok(Measured {
        times: all,
        elapsed: began.elapsed(),
    })
}

/// Queues `count` drivers at the cluster that `masters` names.
pub(super) async fn fill(masters: &str, count: usize) -> Result<(), Failure> {
    let began = Instant::now();
    let targets = Arc::new(grpc_targets(masters, FILLERS)?);
    let mut tasks = JoinSet::new();
    for number in 0..FILLERS.min(count) {
        let targets = Arc::clone(&targets);
        let share = count / FILLERS + usize::from(number < count % FILLERS);
        tasks.spawn(async move {
            for _ in 0..share {
                if let Some(target) = targets.get(number % targets.len()) {
                    target.once().await?;
                }
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(joined) = tasks.join_next().await {
        joined.map_err(|e| Failure::failed(format!("a client task: {e}")))??;
    }
    output::say(&format!(
        "queued {count} drivers in {}",
        output::seconds(began.elapsed())
    ));
    Ok(())
}

fn connections(clients: usize) -> std::ops::Range<usize> {
    0..clients.div_ceil(CLIENTS_PER_CONNECTION)
}

/// Connections for so many clients.
pub(super) fn grpc_targets(masters: &str, clients: usize) -> Result<Vec<Target>, Failure> {
    let connect = Connect::to(masters);
    connections(clients)
        .map(|_| connect.client().map(Target::Grpc))
        .collect()
}

async fn rest_targets(client: &ControlClient, clients: usize) -> Result<Vec<Target>, Failure> {
    let seen = client.cluster().await?;
    let leader = seen
        .masters
        .iter()
        .find(|m| m.id == seen.leader && !m.rest.is_empty());
    let leader =
        leader.ok_or_else(|| Failure::new(Exit::NoLeader, "the leader has no REST API"))?;
    let url = format!("http://{}/v1/submissions/create", leader.rest);
    connections(clients)
        .map(|_| {
            Ok(Target::Rest {
                http: http()?,
                url: url.clone(),
            })
        })
        .collect()
}

/// An HTTP client with connections of its own.
pub(super) fn http() -> Result<reqwest::Client, Failure> {
    let built = reqwest::Client::builder()
        .timeout(Duration::from_secs(30))
        .no_proxy()
        .build();
    built.map_err(|e| Failure::failed(format!("starting the HTTP client: {e}")))
}

// === impl Target ===

impl Target {
    async fn once(&self) -> Result<(), Failure> {
        match self {
            Self::Grpc(client) => {
                client
                    .submit(&interrex_client::new_request_id(), queued_driver())
                    .await?;
                Ok(())
            }
            Self::Rest { http, url } => {
                let body = serde_json::json!({
                    "action": "CreateSubmissionRequest",
                    "clientSparkVersion": "4.0.0",
                    "command": ["true", "--input", "x".repeat(64)],
                    "environmentVariables": {"BENCH": "x".repeat(64)},
                    "sparkProperties": {"spark.app.name": "bench"},
                });
                let request = http
                    .post(url)
                    .header("Idempotency-Key", interrex_client::new_request_id());
                expect_success(request.json(&body).send().await).await
            }
            Self::Etcd { http, url } => {
                // The gateway takes keys and values in base64; these bytes are their own alphabet.
                let key = uuid::Uuid::now_v7().simple().to_string();
                let body = serde_json::json!({"key": key, "value": "A".repeat(400)});
                expect_success(http.post(url).json(&body).send().await).await
            }
        }
    }
}

async fn expect_success(answer: Result<reqwest::Response, reqwest::Error>) -> Result<(), Failure> {
    let answer = answer.map_err(|e| Failure::failed(crate::exit::chain(&e)))?;
    let status = answer.status();
    // Read to the end, so that the connection is used again.
    let text = answer
        .text()
        .await
        .map_err(|e| Failure::failed(crate::exit::chain(&e)))?;
    if status.is_success() {
        return Ok(());
    }
    Err(Failure::failed(format!("answered {status}: {text}")))
}
