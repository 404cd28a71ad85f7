//! Disks that are full, nearly full, or slow.

use std::{process::Stdio, time::Duration};

use tokio::process::Command;

use super::in_turn;
use crate::live::{observer::Leader, options::LiveError, stage::Stage};

/// What disks do. Slow ones take a program with kill points, so they are no condition of a run.
pub(in crate::live) const TROUBLES: [&str; 2] = ["disk-full", "disk-low"];
/// Every sync of what clients have asked for takes so long.
const SLOW: &str = "appended-before-fsync=sleep(700)";

/// How long a disk stays full.
const FULL: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));
/// How long a leader with such a disk may lead on: it looks for three seconds.
const STAND_ASIDE_DEADLINE: Duration = Duration::from_secs(20);

/// Fills disks and slows them down.
pub(in crate::live) async fn trouble(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    if stage.kill_points {
        let all = [TROUBLES.as_slice(), &["disk-slow"]].concat();
        in_turn(stage, &all, trouble_once).await
    } else {
        in_turn(stage, &TROUBLES, trouble_once).await
    }
}

/// One such trouble, at the leader.
pub(in crate::live) async fn trouble_once(
    stage: &mut Stage<'_>,
    name: &'static str,
) -> Result<(), LiveError> {
    let Some(leader) = stage.settled().await else {
        return Ok(());
    };
    if name == "disk-full" {
        full(stage, &leader).await
    } else {
        troubled(stage, name, &leader).await
    }
}

/// No file of the leader may grow, which the kernel says as it says that a disk is full.
async fn full(stage: &mut Stage<'_>, leader: &Leader) -> Result<(), LiveError> {
    let name = "disk-full";
    stage.journal.begin(name, &leader.node);
    let limited = limit(stage, &leader.node, "1").await;
    let next = stage.next_leader(leader, STAND_ASIDE_DEADLINE).await;
    stage.pause_between(FULL.0, FULL.1).await;
    limit(stage, &leader.node, "unlimited").await;
    stage
        .journal
        .end(name, &leader.node, limited && next.is_some());
    Ok(())
}

async fn limit(stage: &Stage<'_>, node: &str, bytes: &str) -> bool {
    let Some(pid) = stage.cluster.pid(node) else {
        return false;
    };
    let set = Command::new("prlimit")
        .args(["--pid", &pid.to_string()])
        .arg(format!("--fsize={bytes}:unlimited"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    set.await.is_ok_and(|status| status.success())
}

/// A master whose disk is in trouble is made the leader, and must stand aside for one that is better off.
async fn troubled(
    stage: &mut Stage<'_>,
    name: &'static str,
    leader: &Leader,
) -> Result<(), LiveError> {
    let mut others = stage.masters();
    others.retain(|master| *master != leader.node);
    let Some(node) = others.get(stage.chance.index(others.len())).cloned() else {
        return Ok(());
    };
    stage.stop(&node).await;
    if name == "disk-slow" {
        stage.start_armed(&node, SLOW)?;
    } else {
        // No disk has as much left: as it looks to a master whose disk fills up.
        stage.start_extra(&node, &["--disk-low", "1EiB"])?;
    }
    stage.settled().await;
    stage.journal.begin(name, &node);
    let control = stage.observer.control().clone();
    let moved = control.transfer_leader(Some(&node)).await.is_ok();
    let leads = stage.leader().await.filter(|leader| leader.node == node);
    let next = match &leads {
        Some(troubled) => stage.next_leader(troubled, STAND_ASIDE_DEADLINE).await,
        None => None,
    };
    // It may have stood aside before anybody looked.
    let aside = next.is_some_and(|next| next.node != node) || (moved && leads.is_none());
    stage.journal.end(name, &node, moved && aside);
    stage.stop(&node).await;
    stage.start(&node)
}
