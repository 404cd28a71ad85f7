//! Masters that die inside a submission, at the points that the program itself names.

use std::time::Duration;

use super::in_turn;
use crate::live::{options::LiveError, stage::Stage};

/// Where a leader dies. The same names as in the program.
pub(in crate::live) const POINTS: [&str; 7] = [
    "before-append",
    "appended-before-fsync",
    "fsynced-before-commit",
    "committed-before-reply",
    "replied-before-launch",
    "leading-before-send",
    "confirmed-before-answer",
];

/// How long a leader may take until it comes by its point.
const DEATH_DEADLINE: Duration = Duration::from_secs(20);

/// Lets leaders die at one point after the other.
pub(in crate::live) async fn die(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    in_turn(stage, &POINTS, die_once).await
}

/// A standby is started with a point at which it will die, and is made the leader.
async fn die_once(stage: &mut Stage<'_>, point: &'static str) -> Result<(), LiveError> {
    let Some(leader) = stage.settled().await else {
        return Ok(());
    };
    let mut others = stage.masters();
    others.retain(|master| *master != leader.node);
    let Some(node) = others.get(stage.chance.index(others.len())).cloned() else {
        return Ok(());
    };
    stage.stop(&node).await;
    let times = stage.chance.between(0, 3);
    // With 100 ms for the answer to arrive, where that comes before.
    let action = if point == "replied-before-launch" {
        "return(100)"
    } else {
        "return"
    };
    let armed = format!("{point}={times}*off->1*{action}");
    stage.doomed = Some(node.clone());
    stage.start_armed(&node, &armed)?;
    stage.settled().await;
    stage.journal.begin(point, &node);
    let control = stage.observer.control().clone();
    // It may die before it can say that it has taken over.
    let handed = tokio::spawn({
        let node = node.clone();
        async move { control.transfer_leader(Some(&node)).await }
    });
    let died = stage
        .wait_until(DEATH_DEADLINE, async |stage| {
            stage.cluster.is_alive(&node).then(String::new)
        })
        .await
        .is_ok();
    handed.abort();
    stage.doomed = None;
    // Noticed here, and not as an end that nobody asked for.
    stage.kill(&node).await;
    stage.journal.end(point, &node, died);
    let probe = stage.probe()?;
    stage.start(&node)?;
    stage.probed(probe).await;
    Ok(())
}
