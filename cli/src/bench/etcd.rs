//! An etcd on loopback, to compare with on the same machine in the same run.
//!
//! Optional: it needs an installed `etcd`. Its JSON gateway is what a client without etcd's own library uses;
//! it costs etcd some throughput against plain gRPC, as REST costs Interrex some.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use tokio::process::{Child, Command};

use super::{
    own::Scratch,
    submit::{Target, http},
};
use crate::{
    exit::{Exit, Failure},
    local_cluster::ports::Block,
};

/// How long the nodes may take to elect a leader.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// How often they are asked.
const READY_INTERVAL: Duration = Duration::from_millis(50);

/// Running nodes; dropping this ends them.
#[derive(Debug)]
pub(super) struct Etcd {
    base: u16,
    _nodes: Vec<Child>,
    _block: Block,
    _dir: Scratch,
}

// === impl Etcd ===

impl Etcd {
    /// Starts so many nodes and waits until a put works.
    pub(super) async fn start(count: u16) -> Result<Self, Failure> {
        let (dir, block) = (Scratch::new()?, Block::find()?);
        let base = block.base();
        let peer = |i: u16| format!("http://127.0.0.1:{}", base + 10 + i);
        let cluster: Vec<String> = (0..count).map(|i| format!("e{i}={}", peer(i))).collect();
        let mut nodes = Vec::new();
        for i in 0..count {
            let client = format!("http://127.0.0.1:{}", base + i);
            let node = Command::new("etcd")
                .args(["--name", &format!("e{i}"), "--data-dir"])
                .arg(dir.path().join(format!("e{i}")))
                .args([
                    "--listen-client-urls",
                    &client,
                    "--advertise-client-urls",
                    &client,
                ])
                .args([
                    "--listen-peer-urls",
                    &peer(i),
                    "--initial-advertise-peer-urls",
                    &peer(i),
                ])
                .args([
                    "--initial-cluster",
                    &cluster.join(","),
                    "--initial-cluster-state",
                    "new",
                ])
                .args(["--log-level", "error"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .map_err(|e| Failure::io("starting etcd (is it installed?)", &e))?;
            nodes.push(node);
        }
        let etcd = Self {
            base,
            _nodes: nodes,
            _block: block,
            _dir: dir,
        };
        etcd.wait_ready().await?;
        Ok(etcd)
    }

    /// A connection to the first node.
    pub(super) fn target(&self) -> Result<Target, Failure> {
        Ok(Target::Etcd {
            http: http()?,
            url: self.url(),
        })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v3/kv/put", self.base)
    }

    async fn wait_ready(&self) -> Result<(), Failure> {
        let http = http()?;
        let deadline = Instant::now() + READY_DEADLINE;
        while Instant::now() < deadline {
            let put = http
                .post(self.url())
                .body(r#"{"key":"cmVhZHk=","value":"MQ=="}"#);
            if put.send().await.is_ok_and(|a| a.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
        Err(Failure::new(
            Exit::Timeout,
            format!("etcd is not ready after {READY_DEADLINE:?}"),
        ))
    }
}
