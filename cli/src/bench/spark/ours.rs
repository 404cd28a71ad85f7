//! Interrex as what Spark's jobs run on.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::theirs::{CORES, MEMORY_MIB};
use crate::{
    bench::own::Own,
    exit::{Exit, Failure},
};

/// How long masters may take to agree again.
const SETTLE_DEADLINE: Duration = Duration::from_secs(60);
/// How often they are asked.
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);

/// A cluster with one agent.
#[derive(Debug)]
pub(super) struct Ours(Own);

// === impl Ours ===

impl Ours {
    pub(super) async fn start(masters: u16, spark_home: &Path) -> Result<Self, Failure> {
        let memory = format!("{MEMORY_MIB}MiB");
        let own = Own::for_spark(masters, (CORES, memory), spark_home).await?;
        Ok(Self(own))
    }

    pub(super) fn url(&self) -> String {
        format!("spark://{}", self.0.cluster.layout().masters_list())
    }

    /// Who leads, once everybody is well.
    pub(super) async fn leader(&self) -> Result<String, Failure> {
        let client = self.0.client()?;
        let masters = self.0.cluster.master_ids().len();
        let deadline = Instant::now() + SETTLE_DEADLINE;
        while Instant::now() < deadline {
            let seen = client.cluster().await?;
            let healthy = seen.masters.iter().filter(|m| m.healthy).count();
            if !seen.leader.is_empty() && healthy == masters {
                return Ok(seen.leader);
            }
            tokio::time::sleep(SETTLE_INTERVAL).await;
        }
        let words = format!("the masters do not agree after {SETTLE_DEADLINE:?}");
        Err(Failure::new(Exit::Timeout, words))
    }

    #[expect(clippy::unnecessary_wraps, reason = "Spark's masters may be missing")]
    pub(super) fn kill(&self, master: &str) -> Result<(), Failure> {
        self.0.cluster.signal(master, Signal::SIGKILL);
        Ok(())
    }

    pub(super) async fn restore(&mut self, master: &str) -> Result<(), Failure> {
        let cluster = &mut self.0.cluster;
        cluster.wait_exit(master).await?;
        cluster.spawn(master)?;
        cluster.wait_ready(&[master.to_owned()]).await
    }

    pub(super) async fn stop(&mut self) {
        self.0.cluster.stop().await;
    }
}
