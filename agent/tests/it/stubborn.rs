//! Kills do not hold anything up.

use std::time::{Duration, Instant};

use interrex_proto::v1::{KillDriver, ProcessState, master_frame, peer_frame};

use crate::{
    agent::{Running, options},
    master::Master,
    support::sh,
};

#[tokio::test]
async fn heartbeats_are_on_time_while_many_processes_ignore_their_kill() {
    const DRIVERS: u32 = 6;
    let directory = tempfile::tempdir().unwrap();
    let mut master = Master::start(5).await;
    let agent = Running::with(interrex_agent::AgentOptions {
        cores: DRIVERS,
        kill_grace: Duration::from_secs(2),
        ..options(directory.path(), &[&master.address])
    })
    .await;
    master.registration().await;
    let stubborn = "trap '' TERM; touch up; while :; do sleep 0.05; done";
    for n in 0..DRIVERS {
        master
            .launch_spec(&format!("d{n}"), 1, sh(stubborn), false)
            .await;
    }
    for n in 0..DRIVERS {
        let up = directory.path().join(format!("d{n}/up"));
        crate::support::eventually("a trap", || up.exists().then_some(())).await;
    }
    let began = Instant::now();
    for n in 0..DRIVERS {
        let order = KillDriver {
            driver_id: format!("d{n}"),
            attempt: 1,
        };
        master.order(master_frame::Body::KillDriver(order)).await;
    }
    // Heartbeats come every 100 ms; in Spark each of these kills would block its worker for 10 s.
    let mut last = Instant::now();
    let mut longest = Duration::ZERO;
    let mut killed = 0;
    while killed < DRIVERS {
        let heard = master
            .hear("a heartbeat or an end", |body| match body {
                peer_frame::Body::Heartbeat(_) => Some(None),
                peer_frame::Body::Report(report) => Some(Some(report)),
                _ => None,
            })
            .await;
        match heard {
            None => {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            Some(report) => {
                if let Some(interrex_proto::v1::work_report::Body::Driver(driver)) = report.body
                    && driver.state() == ProcessState::Killed
                {
                    killed += 1;
                }
            }
        }
    }
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    agent.stop().await;
}
