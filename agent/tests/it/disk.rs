//! A small disk: old work directories go, live ones stay, and new work is refused before the disk is full.

use std::{fs, path::Path, process::Command, time::Duration};

use interrex_agent::{AgentOptions, cleanup::plan::Limits};
use interrex_proto::v1::{CommandLine, DriverChanged, ProcessState};

use crate::{
    agent::{Running, options},
    master::Master,
    support::{eventually, sh, soon},
};

const MIB: u64 = 1 << 20;
/// Where the test in a namespace of its own finds its disk.
const DISK: &str = "INTERREX_TEST_DISK";
/// Lives, and grows by 1 MiB now and then when it is told to, up to 13 MiB.
const LIVE: &str = "n=0; while :; do \
                    if [ -e more ] && [ $n -lt 13 ]; then head -c 1048576 /dev/zero >>data; n=$((n+1)); sleep 0.2; fi; \
                    if [ -e less ]; then rm data more less; fi; sleep 0.05; done";

/// Launches a job until it has ended by itself. A quick machine fills the disk between two looks of the clean-up: what is
/// refused then is tried again when there is room, as a master does that places nothing on a worker without.
async fn launched(
    master: &mut Master,
    agent: &Running,
    id: &str,
    job: CommandLine,
) -> DriverChanged {
    let mut attempt = 0;
    loop {
        attempt += 1;
        soon("room", async {
            while agent.get("/readyz").await.0 != 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        master.launch_spec(id, attempt, job.clone(), false).await;
        let states = [ProcessState::Exited, ProcessState::Failed];
        let told = master.driver_in(&states).await;
        if told.state() == ProcessState::Exited {
            return told;
        }
        assert!(told.message.contains("disk"), "{told:?}");
    }
}

/// So many jobs leave 1 MiB each, beside one that lives.
async fn many_jobs(jobs: u32, disk: &Path, work: Limits) {
    let mut master = Master::start(5).await;
    let agent = Running::with(AgentOptions {
        work,
        ..options(disk, &[&master.address])
    })
    .await;
    master.registration().await;
    master.launch_spec("live", 1, sh(LIVE), false).await;
    master.driver(ProcessState::Running).await;
    for n in 0..jobs {
        let id = format!("job-{n:02}");
        let leave = sh("head -c 1048576 /dev/zero >data");
        let exited = launched(&mut master, &agent, &id, leave).await;
        assert_eq!((exited.driver_id, exited.exit.unwrap().code), (id, Some(0)));
    }
    let left = || {
        let names = fs::read_dir(disk).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("job-")).collect()
    };
    let few = || Some(left()).filter(|left: &Vec<String>| left.len() <= 13);
    let left = eventually("room", few).await;
    // The newest are the ones that are left.
    assert!(left.contains(&format!("job-{:02}", jobs - 1)), "{left:?}");
    assert!(!left.contains(&"job-00".to_owned()), "{left:?}");
    assert!(disk.join("live/stdout").exists());

    // What lives is never touched: the agent refuses new work in words instead.
    fs::write(disk.join("live/more"), "").unwrap();
    let said = soon("a full disk", async {
        loop {
            let (status, said) = agent.get("/readyz").await;
            if status == 503 {
                return said;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(said.contains("accepting: disk: "), "{said}");
    master
        .launch_spec("refused", 1, sh("touch ran"), false)
        .await;
    let refused = master.driver(ProcessState::Killed).await;
    assert!(
        refused.message.starts_with("not accepting new work: disk"),
        "{refused:?}"
    );
    assert!(!disk.join("refused").exists());
    assert!(disk.join("live/data").exists());

    fs::write(disk.join("live/less"), "").unwrap();
    soon("room again", async {
        while agent.get("/readyz").await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    master.launch_spec("welcome", 1, sh("true"), false).await;
    assert_eq!(
        master.driver(ProcessState::Exited).await.driver_id,
        "welcome"
    );
    agent.stop().await;
}

#[tokio::test]
async fn directories_of_what_is_over_go_when_the_budget_is_used_up() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits {
        bytes_max: Some(10 * MIB),
        free_bytes_min: 0,
        ..Limits::default()
    };
    many_jobs(20, directory.path(), limits).await;
}

/// Not a test: the body of the next one, inside of its namespace.
#[tokio::test]
#[ignore = "runs inside a namespace with a small disk"]
async fn in_a_namespace_with_a_small_disk() {
    let disk = std::env::var(DISK).unwrap();
    let limits = Limits {
        free_bytes_min: 8 * MIB,
        ..Limits::default()
    };
    many_jobs(50, Path::new(&disk), limits).await;
}

#[tokio::test]
async fn a_disk_of_20_mib_never_fills_up() {
    let directory = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=20m tmpfs \"$INTERREX_TEST_DISK\" || exit 77; exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(std::env::current_exe().unwrap())
        .args([
            "disk::in_a_namespace_with_a_small_disk",
            "--exact",
            "--ignored",
        ])
        .env(DISK, directory.path());
    let ran = tokio::task::spawn_blocking(move || command.output());
    // Fifty programs, one after the other: on a busy machine that takes a while.
    let output = tokio::time::timeout(Duration::from_secs(150), ran).await;
    let output = output.expect("the end of the test in time").unwrap();
    match output.map(|output| (output.status.code(), output)) {
        Ok((Some(0), output)) => {
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(said.contains("1 passed"), "{said}");
        }
        // No `unshare`, or a system where users may have no namespaces: the budget stands in for the disk.
        Err(_) | Ok((Some(1 | 77), _)) if !can_mount() => {
            let limits = Limits {
                bytes_max: Some(12 * MIB),
                free_bytes_min: 0,
                ..Limits::default()
            };
            many_jobs(20, directory.path(), limits).await;
        }
        other => panic!("{other:?}"),
    }
}

fn can_mount() -> bool {
    Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "mount",
            "-t",
            "tmpfs",
            "tmpfs",
            "/mnt",
        ])
        .output()
        .is_ok_and(|output| output.status.success())
}
