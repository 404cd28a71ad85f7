//! Restarts in order: what an operator does.

use std::time::Duration;

use serde_json::json;

use crate::live::{options::LiveError, stage::Stage};

/// How long an agent may take to be welcome again.
const AGENT_DEADLINE: Duration = Duration::from_secs(30);

/// Restarts every master, the leader last, then every agent, and again until the time is over; one round at least.
pub(in crate::live) async fn rolling(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    loop {
        let Some(leader) = stage.settled().await else {
            return Ok(());
        };
        let mut masters = stage.masters();
        masters.retain(|master| *master != leader.node);
        for master in masters {
            restart_master(stage, &master, "master-restart").await?;
        }
        let Some(leader) = stage.settled().await else {
            return Ok(());
        };
        restart_master(stage, &leader.node, "leader-restart").await?;
        for agent in stage.agents() {
            restart_agent(stage, &agent).await?;
        }
        if !stage.goes_on() {
            return Ok(());
        }
    }
}

pub(in crate::live) async fn restart_master(
    stage: &mut Stage<'_>,
    node: &str,
    name: &str,
) -> Result<(), LiveError> {
    let probe = stage.probe()?;
    let value = json!({"node": node, "phase": "begin", "probe": probe.id});
    stage.journal.fault(name, value);
    let how = stage.stop(node).await;
    check_end(stage, node, how.as_deref());
    stage.start(node)?;
    let settled = stage.settled().await.is_some();
    stage.probed(probe).await;
    stage.journal.end(name, node, how.is_some() && settled);
    Ok(())
}

pub(in crate::live) async fn restart_agent(
    stage: &mut Stage<'_>,
    node: &str,
) -> Result<(), LiveError> {
    stage.journal.begin("agent-restart", node);
    let how = stage.stop(node).await;
    check_end(stage, node, how.as_deref());
    stage.start(node)?;
    let observer = stage.observer.clone();
    let agent = [node.to_owned()];
    let welcome = stage
        .wait_until(AGENT_DEADLINE, async |_stage| {
            observer.agents_unwell(&agent).await
        })
        .await;
    if let Err(complaint) = &welcome {
        stage
            .journal
            .broken(node, &format!("restarted, and {complaint}"));
    }
    let hit = how.is_some() && welcome.is_ok();
    stage.journal.end("agent-restart", node, hit);
    Ok(())
}

/// A process that is told to end does so, and says that it went well.
fn check_end(stage: &mut Stage<'_>, node: &str, how: Option<&str>) {
    if let Some(how) = how.filter(|how| *how != "exit code 0") {
        let what = format!("was told to end, and ended with {how}");
        stage.journal.broken(node, &what);
    }
}
