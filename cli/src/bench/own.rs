//! A bench's own cluster: on free ports, in a directory that is removed at the end.

use std::path::{Path, PathBuf};

use interrex_agent::spark::SparkHome;
use interrex_client::control::ControlClient;
use interrex_proto::v1::{CommandLine, DriverSpec};

use crate::{
    connect::Connect,
    exit::Failure,
    local_cluster::{
        LocalCluster,
        layout::{Layout, Size},
        ports::{Block, Ports},
    },
    master::EngineKind,
};

/// A cluster that belongs to one bench.
#[derive(Debug)]
pub(super) struct Own {
    /// The processes.
    pub(super) cluster: LocalCluster,
    /// Its ports.
    pub(super) ports: Ports,
    _block: Block,
    _dir: Scratch,
}

/// A directory that is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

// === impl Own ===

impl Own {
    /// Starts `masters` masters on `engine` and no agents: submissions stay queued, which is what is measured.
    pub(super) async fn start(masters: u16, engine: EngineKind) -> Result<Self, Failure> {
        Self::start_with_agents(masters, 0, engine).await
    }

    /// The same with agents, of one core each.
    pub(super) async fn start_with_agents(
        masters: u16,
        agents: u16,
        engine: EngineKind,
    ) -> Result<Self, Failure> {
        let size = Size {
            masters,
            agents,
            engine,
            cores: 1,
            memory: "1GiB".to_owned(),
        };
        Self::of_size(size, Vec::new()).await
    }

    /// Starts `masters` masters, and one agent that offers so much and this installation of Spark.
    pub(super) async fn for_spark(
        masters: u16,
        (cores, memory): (u32, String),
        home: &Path,
    ) -> Result<Self, Failure> {
        let size = Size {
            masters,
            agents: 1,
            engine: EngineKind::Raft,
            cores,
            memory,
        };
        Self::of_size(size, vec![SparkHome::at(home)]).await
    }

    async fn of_size(size: Size, spark_homes: Vec<SparkHome>) -> Result<Self, Failure> {
        let dir = Scratch::new()?;
        let block = Block::find()?;
        let ports = Ports::from_base(block.base())?;
        let layout = Layout::new(dir.path().join("cluster"), size, ports)?;
        let layout = layout.with_spark_homes(spark_homes);
        let cluster = LocalCluster::start(layout).await?;
        Ok(Self {
            cluster,
            ports,
            _block: block,
            _dir: dir,
        })
    }

    /// A client of it.
    pub(super) fn client(&self) -> Result<ControlClient, Failure> {
        Connect::to(&self.cluster.layout().masters_list()).client()
    }
}

// === impl Scratch ===

impl Scratch {
    /// A new, empty directory of this process.
    pub(super) fn new() -> Result<Self, Failure> {
        let name = format!("interrex-bench-{}", uuid::Uuid::now_v7());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|e| Failure::io(&path.display().to_string(), &e))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays in the system's temporary directory, which is made for that.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A driver that no agent will run: it waits in the queue.
pub(super) fn queued_driver() -> DriverSpec {
    DriverSpec {
        name: "bench".to_owned(),
        user: "bench".to_owned(),
        command: Some(CommandLine {
            program: "true".to_owned(),
            args: vec!["--input".to_owned(), "x".repeat(64)],
            env: std::iter::once(("BENCH".to_owned(), "x".repeat(64))).collect(),
        }),
        cores: 1,
        memory_mib: 512,
        ..DriverSpec::default()
    }
}
