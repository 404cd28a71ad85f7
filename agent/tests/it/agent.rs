//! Whole agents against a small master that speaks the real protocol.

use std::{path::Path, time::Duration};

use interrex_agent::{
    Agent, AgentError, AgentOptions, RunningAgent,
    state::{AgentState, StateError},
};
use interrex_proto::v1::{KillDriver, ProcessState, WorkReport, master_frame, work_report};
use tokio_util::sync::CancellationToken;

use crate::{
    master::{CLUSTER, Master},
    owned::Owned,
    support::{alive, eventually, pid_in, sh, soon, supervisor},
};

pub(crate) fn options(work_dir: &Path, masters: &[&str]) -> AgentOptions {
    AgentOptions {
        masters: masters.iter().map(|&address| address.to_owned()).collect(),
        cores: 2,
        memory_mib: 1024,
        work_dir: work_dir.to_owned(),
        host: "localhost".to_owned(),
        web: ([127, 0, 0, 1], 0).into(),
        kill_grace: Duration::from_millis(500),
        supervisor: supervisor(),
        ..AgentOptions::default()
    }
}

/// An agent in this process, and the means to stop it.
pub(crate) struct Running {
    pub(crate) agent: RunningAgent,
    shutdown: CancellationToken,
}

impl Running {
    pub(crate) async fn start(work_dir: &Path, masters: &[&str]) -> Self {
        Self::with(options(work_dir, masters)).await
    }

    pub(crate) async fn with(options: AgentOptions) -> Self {
        let shutdown = CancellationToken::new();
        let agent = Agent::start(options, shutdown.clone()).await.unwrap();
        Self { agent, shutdown }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.agent.web_addr)
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = soon("an answer", reqwest::get(self.url(path)))
            .await
            .unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        soon("the end of the agent", self.agent.stopped()).await;
    }
}

#[tokio::test]
async fn a_driver_runs_is_reported_and_its_logs_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    let registration = master.registration().await;
    let spec = registration.spec.unwrap();
    assert_eq!((spec.cores, spec.memory_mib), (2, 1024));
    assert!(spec.id.starts_with("worker-localhost-"), "{}", spec.id);
    assert_eq!(spec.web, agent.agent.web_addr.to_string());

    master
        .launch(
            1,
            sh("echo one; while ! [ -e go ]; do sleep 0.02; done; echo two; exit 3"),
        )
        .await;
    master.driver(ProcessState::Running).await;
    let (status, processes) = agent.get("/api/processes").await;
    assert_eq!(status, 200);
    assert!(
        processes.contains(r#""driver_id":"d1""#) && processes.contains("running"),
        "{processes}"
    );
    assert_eq!(agent.get("/readyz").await, (200, "ready\n".to_owned()));

    let follow = reqwest::get(agent.url("/logs/driver/d1/stdout?follow=true"))
        .await
        .unwrap();
    assert_eq!(follow.headers()["x-interrex-offset"], "0");
    std::fs::write(directory.path().join("d1/go"), "").unwrap();
    // Ends by itself, with everything.
    assert_eq!(
        soon("the whole log", follow.text()).await.unwrap(),
        "one\ntwo\n"
    );
    let exited = master.driver(ProcessState::Exited).await;
    assert_eq!(exited.exit.unwrap().code, Some(3));

    assert_eq!(
        agent.get("/logs/driver/d1/stdout?offset=4&limit=2").await,
        (200, "tw".to_owned())
    );
    assert_eq!(
        agent.get("/logs/driver/d1/stdout?offset=-4").await,
        (200, "two\n".to_owned())
    );
    agent.stop().await;
}

#[tokio::test]
async fn a_state_that_the_disk_refused_is_written_when_it_can_be() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    master.registration().await;
    soon("an agent that is ready", async {
        while agent.get("/readyz").await.0 != 200 {}
    })
    .await;
    // A directory where the file is to be made: so nobody can write, not even root.
    let in_the_way = directory.path().join(".interrex/agent.json.tmp");
    std::fs::create_dir(&in_the_way).unwrap();
    let address = master.die();
    let _later = Master::listen(&address, 6, false).await;
    let said = soon("trouble with the disk", async {
        loop {
            let (status, said) = agent.get("/readyz").await;
            if status == 503 && said.contains("disk") {
                return said;
            }
        }
    })
    .await;
    // It obeys its leader all the same.
    assert!(!said.contains("attached"), "{said}");

    std::fs::remove_dir(&in_the_way).unwrap();
    soon("an agent that is ready", async {
        while agent.get("/readyz").await.0 != 200 {}
    })
    .await;
    let state = std::fs::read(directory.path().join(".interrex/agent.json")).unwrap();
    let state: AgentState = serde_json::from_slice(&state).unwrap();
    assert_eq!(state.epoch, 6);
    agent.stop().await;
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_not_served() {
    let directory = tempfile::tempdir().unwrap();
    let master = Master::start(5).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    for (path, expected) in [
        ("/logs/driver/d9/stdout", 404),
        ("/logs/driver/d9/agent.json", 404),
        ("/logs/driver/..%2f..%2fetc/stdout", 400),
        ("/logs/driver/.interrex/stdout", 400),
        ("/logs/app/a1/x/stdout", 400),
        ("/logs/driver/d9/stdout?offset=x", 400),
        ("/nothing", 404),
    ] {
        assert_eq!(agent.get(path).await.0, expected, "{path}");
    }
    // A program may link its log to anything.
    std::fs::create_dir(directory.path().join("d1")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", directory.path().join("d1/stdout")).unwrap();
    assert_eq!(agent.get("/logs/driver/d1/stdout").await.0, 403);
    agent.stop().await;
}

#[tokio::test]
async fn a_driver_that_ends_while_no_master_is_up_keeps_its_exit_code_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    master.registration().await;
    master
        .launch(1, sh("while ! [ -e go ]; do sleep 0.02; done; exit 9"))
        .await;
    master.driver(ProcessState::Running).await;
    let address = master.die();
    std::fs::write(directory.path().join("d1/go"), "").unwrap();
    let outbox = directory.path().join(".interrex/outbox");
    eventually("the result on disk", || {
        std::fs::read_dir(&outbox).unwrap().next().map(|_| ())
    })
    .await;
    agent.stop().await;

    let again = Running::start(directory.path(), &[&address]).await;
    let mut master = Master::listen(&address, 6, false).await;
    let registration = master.registration().await;
    assert_eq!(registration.cluster_id, CLUSTER);
    assert_eq!(registration.drivers, []);
    let [
        WorkReport {
            body: Some(work_report::Body::Driver(driver)),
            ..
        },
    ] = registration.unacknowledged.as_slice()
    else {
        panic!("{:?}", registration.unacknowledged)
    };
    assert_eq!(
        (driver.state(), driver.exit.unwrap().code),
        (ProcessState::Exited, Some(9))
    );
    // Acknowledged: it is forgotten.
    eventually("an empty outbox", || {
        std::fs::read_dir(&outbox)
            .unwrap()
            .next()
            .is_none()
            .then_some(())
    })
    .await;
    again.stop().await;
}

#[tokio::test]
async fn processes_outlive_the_masters_and_are_reported_to_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    master.registration().await;
    master.launch(1, sh("echo $$ >main; exec sleep 1000")).await;
    master.driver(ProcessState::Running).await;
    let main = pid_in(&directory.path().join("d1/main")).await;
    let address = master.die();
    let mut master = Master::listen(&address, 6, false).await;
    let registration = master.registration().await;
    assert_eq!(registration.drivers.len(), 1);
    assert!(alive(main));
    // The same attempt, ordered again, is not started again; a kill ends it.
    master.launch(1, sh("touch twice")).await;
    let order = KillDriver {
        driver_id: "d1".to_owned(),
        attempt: 1,
    };
    master.order(master_frame::Body::KillDriver(order)).await;
    let killed = master.driver(ProcessState::Killed).await;
    assert_eq!(killed.message, "killed by order");
    assert!(!alive(main));
    assert!(!directory.path().join("d1/twice").exists());
    let state = std::fs::read_to_string(directory.path().join(".interrex/agent.json")).unwrap();
    assert!(state.contains("\"epoch\": 6"), "{state}");
    agent.stop().await;
}

#[tokio::test]
async fn a_stopped_agent_ends_its_processes_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    master.registration().await;
    master
        .launch(
            1,
            sh("trap '' TERM; echo $$ >main; while :; do sleep 0.05; done"),
        )
        .await;
    master.driver(ProcessState::Running).await;
    let main = pid_in(&directory.path().join("d1/main")).await;
    agent.stop().await;
    assert!(!alive(main));
    let lost = master.driver(ProcessState::Failed).await;
    assert_eq!(lost.message, "the agent was stopped");
    assert_eq!(lost.exit.unwrap().signal, Some(9));
}

#[tokio::test]
async fn a_refusal_is_told_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::listen("127.0.0.1:0", 5, true).await;
    let agent = Running::start(directory.path(), &[&master.address]).await;
    master.registration().await;
    let text = soon("the refusal", async {
        loop {
            let (status, text) = agent.get("/readyz?verbose").await;
            assert_eq!(status, 503);
            if text.contains("refused") {
                return text;
            }
        }
    })
    .await;
    assert!(text.contains("this is cluster c2, not c1"), "{text}");
    assert_eq!(agent.get("/livez").await.0, 200);
    agent.stop().await;
}

#[tokio::test]
async fn a_second_agent_in_one_work_directory_and_a_busy_port_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let agent = Running::start(directory.path(), &["127.0.0.1:1"]).await;
    let start = |options| Agent::start(options, CancellationToken::new());
    let in_use = start(options(directory.path(), &["127.0.0.1:1"]))
        .await
        .unwrap_err();
    assert!(
        matches!(in_use, AgentError::State(StateError::InUse { .. })),
        "{in_use}"
    );
    let other = tempfile::tempdir().unwrap();
    let web = agent.agent.web_addr;
    let busy = start(AgentOptions {
        web,
        ..options(other.path(), &["127.0.0.1:1"])
    })
    .await;
    let busy = busy.unwrap_err().to_string();
    assert!(
        busy.contains(&web.to_string()) && busy.contains("in use"),
        "{busy}"
    );
    agent.stop().await;
}

/// Not a test: the body of the process that [`Victim`] starts.
#[tokio::test]
#[ignore = "runs an agent for other tests, until it is killed"]
async fn as_a_process_of_its_own() {
    let [work_dir, master] = [WORK_DIR, MASTER].map(|name| std::env::var(name).unwrap());
    Running::start(Path::new(&work_dir), &[&master]).await;
    std::future::pending::<()>().await;
}

const WORK_DIR: &str = "INTERREX_TEST_WORK_DIR";
const MASTER: &str = "INTERREX_TEST_MASTER";

/// An agent in a process of its own, which can be killed.
pub(crate) struct Victim(Owned);

impl Victim {
    pub(crate) fn start(work_dir: &Path, master: &str) -> Self {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command
            .args(["agent::as_a_process_of_its_own", "--exact", "--ignored"])
            .env(WORK_DIR, work_dir)
            .env(MASTER, master)
            .stdout(std::process::Stdio::null());
        Self(Owned::spawn(&mut command))
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = i32::try_from(self.0.id()).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn a_killed_agent_takes_its_processes_along_and_its_next_life_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let victim = Victim::start(directory.path(), &master.address);
    let first = master.registration().await.spec.unwrap();
    let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >daemon; sleep 1000' & \
                  echo $$ >main; while :; do sleep 0.05; done";
    master.launch(1, sh(script)).await;
    master.driver(ProcessState::Running).await;
    let main = pid_in(&directory.path().join("d1/main")).await;
    let daemon = pid_in(&directory.path().join("d1/daemon")).await;
    victim.kill();

    // At once: the tree is still within its grace, so it still holds its cores, and no second attempt starts.
    let agent = Running::start(directory.path(), &[&master.address]).await;
    let registration = master.registration().await;
    let second = registration.spec.unwrap();
    assert_eq!(second.id, first.id);
    assert_ne!(second.incarnation, first.incarnation);
    assert_eq!(registration.drivers.len(), 1);
    master
        .launch(2, sh("echo $$ >second; exec sleep 1000"))
        .await;
    let lost = master.driver(ProcessState::Failed).await;
    assert_eq!(
        (lost.attempt, lost.message.as_str()),
        (1, "the agent was restarted")
    );
    assert!(!alive(main) && !alive(daemon));
    assert_eq!(master.driver(ProcessState::Running).await.attempt, 2);
    let main = pid_in(&directory.path().join("d1/second")).await;
    agent.stop().await;
    assert!(!alive(main));
}
