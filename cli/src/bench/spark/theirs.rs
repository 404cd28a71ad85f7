//! Spark's own standalone masters, their ZooKeeper and one worker, from an installation of Spark.
//!
//! Nothing else is needed: Spark ships ZooKeeper's jars. One ZooKeeper instead of three makes them faster, if anything.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use nix::{sys::signal::Signal, unistd::Pid};
use serde_json::Value;
use tokio::process::{Child, Command};

use super::program::{self, Program};
use crate::{
    bench::submit::http,
    exit::{Exit, Failure},
    local_cluster::{child, ports::Block},
    parent::TIED_PROGRAM,
};

/// Cores that the worker offers.
pub(super) const CORES: u32 = 2;
/// Memory that the worker offers.
pub(super) const MEMORY_MIB: u32 = 2048;
/// How long JVMs may take until they answer. A new leader is there when ZooKeeper has given up the old one.
const READY_DEADLINE: Duration = Duration::from_secs(180);
/// How often they are asked.
const READY_INTERVAL: Duration = Duration::from_millis(200);
/// ZooKeeper's unit of time, as its examples have it.
const TICK: Duration = Duration::from_secs(2);

/// Where in the block of ports each begins.
const WEB_PORTS: u16 = 10;
const ZOOKEEPER_PORT: u16 = 20;

const MASTER: &str = "org.apache.spark.deploy.master.Master";
const WORKER: &str = "org.apache.spark.deploy.worker.Worker";
const ZOOKEEPER: &str = "org.apache.zookeeper.server.ZooKeeperServerMain";

/// Running processes; dropping this ends them.
#[derive(Debug)]
pub(super) struct Theirs {
    masters: u16,
    home: PathBuf,
    dir: PathBuf,
    options: String,
    children: BTreeMap<String, Child>,
    http: reqwest::Client,
    block: Block,
}

// === impl Theirs ===

impl Theirs {
    /// Starts everything, and waits until a master leads and has the worker.
    pub(super) async fn start(
        program: &Program,
        masters: u16,
        session: Duration,
    ) -> Result<Self, Failure> {
        let block = Block::find()?;
        let zookeeper = block.base() + ZOOKEEPER_PORT;
        let mut theirs = Self {
            masters,
            home: program.home().to_owned(),
            dir: program.dir().to_owned(),
            options: format!(
                "-Dspark.deploy.recoveryMode=ZOOKEEPER -Dspark.deploy.zookeeper.url=127.0.0.1:{zookeeper} \
                 -Dspark.master.rest.enabled=false"
            ),
            children: BTreeMap::new(),
            http: http()?,
            block,
        };
        theirs.start_zookeeper(zookeeper, session)?;
        for index in 0..masters {
            theirs.start_master(&format!("m{}", index + 1))?;
        }
        theirs.start_worker()?;
        theirs.leader().await?;
        Ok(theirs)
    }

    pub(super) fn url(&self) -> String {
        let masters = (0..self.masters).map(|index| format!("127.0.0.1:{}", self.rpc(index)));
        format!("spark://{}", masters.collect::<Vec<_>>().join(","))
    }

    /// Who leads, once it has the worker and all others answer.
    pub(super) async fn leader(&self) -> Result<String, Failure> {
        let deadline = Instant::now() + READY_DEADLINE;
        while Instant::now() < deadline {
            if let Some(leader) = self.look().await {
                return Ok(leader);
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
        let log = self.log("m1");
        Err(Failure::new(
            Exit::Timeout,
            format!(
                "Spark's masters have no leader with a worker after {READY_DEADLINE:?}; the end of {}:\n{}",
                log.display(),
                child::tail(&log)
            ),
        ))
    }

    pub(super) fn kill(&self, master: &str) -> Result<(), Failure> {
        let child = self.children.get(master);
        let pid = child
            .and_then(Child::id)
            .and_then(|p| i32::try_from(p).ok());
        let pid = pid.ok_or_else(|| Failure::failed(format!("{master} of Spark does not run")))?;
        nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL)
            .map_err(|e| Failure::failed(format!("killing {master} of Spark: {e}")))
    }

    pub(super) async fn restore(&mut self, master: &str) -> Result<(), Failure> {
        if let Some(mut dead) = self.children.remove(master) {
            dead.wait()
                .await
                .map_err(|e| Failure::io("waiting for a master's end", &e))?;
        }
        self.start_master(master)?;
        self.leader().await.map(drop)
    }

    /// One look at all masters; `None` where one is missing or nobody leads with a worker.
    async fn look(&self) -> Option<String> {
        let mut leader = None;
        for index in 0..self.masters {
            let url = format!("http://127.0.0.1:{}/json/", self.web(index));
            let answer = self.http.get(url).send().await.ok()?;
            let seen: Value = serde_json::from_slice(&answer.bytes().await.ok()?).ok()?;
            if seen["status"] == "ALIVE" && seen["aliveworkers"] == 1 {
                leader = Some(format!("m{}", index + 1));
            }
        }
        leader
    }

    fn start_zookeeper(&mut self, port: u16, session: Duration) -> Result<(), Failure> {
        let file = self.dir.join("zookeeper.cfg");
        let text = format!(
            "tickTime={}\nmaxSessionTimeout={}\ndataDir={}\nclientPort={port}\n\
             clientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            TICK.as_millis(),
            session.as_millis(),
            self.dir.join("zookeeper").display()
        );
        fs::write(&file, text).map_err(|e| Failure::io(&file.display().to_string(), &e))?;
        self.start_class("zookeeper", ZOOKEEPER, &[file.display().to_string()])
    }

    fn start_master(&mut self, id: &str) -> Result<(), Failure> {
        let number: u16 = id.trim_start_matches('m').parse().unwrap_or(1);
        let index = number.saturating_sub(1);
        let (rpc, web) = (self.rpc(index).to_string(), self.web(index).to_string());
        let args = ["--host", "127.0.0.1", "--port", &rpc, "--webui-port", &web];
        self.start_class(id, MASTER, &args.map(str::to_owned))
    }

    fn start_worker(&mut self) -> Result<(), Failure> {
        let (cores, memory) = (CORES.to_string(), format!("{MEMORY_MIB}M"));
        let work = self.dir.join("work").display().to_string();
        let url = self.url();
        let args = [
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            "--cores",
            &cores,
            "--memory",
            &memory,
            "--work-dir",
            &work,
            &url,
        ];
        self.start_class("worker", WORKER, &args.map(str::to_owned))
    }

    /// Starts a class of the installation; it ends with this process, however that ends.
    fn start_class(&mut self, id: &str, class: &str, args: &[String]) -> Result<(), Failure> {
        let doing = format!("starting {id} of Spark");
        let log = self.log(id);
        let file = File::options().create(true).append(true).open(&log);
        let out = file.map_err(|e| Failure::io(&log.display().to_string(), &e))?;
        let both = out.try_clone().map_err(|e| Failure::io(&doing, &e))?;
        let this = std::env::current_exe().map_err(|e| Failure::io("finding this program", &e))?;
        let mut command = Command::new(this);
        program::without_spark(&mut command, &self.home);
        let child = command
            .args([TIED_PROGRAM, &std::process::id().to_string()])
            .arg(self.home.join("bin/spark-class"))
            .arg(class)
            .args(args)
            .env("SPARK_DAEMON_JAVA_OPTS", &self.options)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(both)
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| Failure::io(&doing, &e))?;
        self.children.insert(id.to_owned(), child);
        Ok(())
    }

    fn log(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.log"))
    }

    fn rpc(&self, index: u16) -> u16 {
        self.block.base() + index
    }

    fn web(&self, index: u16) -> u16 {
        self.block.base() + WEB_PORTS + index
    }
}
