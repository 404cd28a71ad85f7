//! The coordinator: etcd that freezes, dies, or falls silent.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::in_turn;
use crate::live::{options::LiveError, places::ETCD, proxy::Rule, stage::Stage};

/// What it does.
pub(in crate::live) const TROUBLES: [&str; 4] = [
    "coordinator-freeze-short",
    "coordinator-freeze-long",
    "coordinator-kill",
    "coordinator-silent",
];

/// Shorter than the lease, which is two seconds.
const SHORT: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(900));
/// Longer.
const LONG: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(7));

/// Troubles the coordinator, again and again.
pub(in crate::live) async fn trouble(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    in_turn(stage, &TROUBLES, trouble_once).await
}

async fn trouble_once(stage: &mut Stage<'_>, name: &'static str) -> Result<(), LiveError> {
    if stage.settled().await.is_none() {
        return Ok(());
    }
    let (from, to) = if name == "coordinator-freeze-short" {
        SHORT
    } else {
        LONG
    };
    stage.journal.begin(name, ETCD);
    let hit = match name {
        "coordinator-kill" => {
            let killed = stage.kill(ETCD).await;
            stage.pause_between(from, to).await;
            stage.start(ETCD)?;
            killed
        }
        "coordinator-silent" => {
            let links = stage.cluster.links.clone();
            let to_etcd = |_from: &str, to: &str| to == ETCD;
            let before = links.touched(to_etcd);
            for master in stage.masters() {
                links.set(&master, ETCD, Rule::HALF_OPEN);
            }
            stage.pause_between(from, to).await;
            for master in stage.masters() {
                links.set(&master, ETCD, Rule::default());
            }
            links.touched(to_etcd) > before
        }
        _freeze => {
            let stopped = stage.cluster.signal(ETCD, Signal::SIGSTOP);
            stage.pause_between(from, to).await;
            stage.cluster.signal(ETCD, Signal::SIGCONT);
            stopped
        }
    };
    stage.journal.end(name, ETCD, hit);
    Ok(())
}
