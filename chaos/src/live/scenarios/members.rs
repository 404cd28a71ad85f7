//! Masters that come, go, and lose their disks, under load.

use std::time::Duration;

use super::in_turn;
use crate::live::{options::LiveError, stage::Stage};

/// What becomes of masters.
pub(in crate::live) const CHANGES: [&str; 3] = ["master-added", "master-removed", "disk-replaced"];

/// How long a change may take with all its repeating.
const CHANGE_DEADLINE: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Changes the masters, again and again.
pub(in crate::live) async fn churn(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    let newcomer = format!("m{}", stage.masters().len() + 1);
    stage.cluster.add_proxies(&newcomer).await?;
    let mut present = false;
    in_turn(stage, &CHANGES, async |stage, name| {
        match name {
            "master-added" if !present => {
                present = add(stage, &newcomer).await?;
            }
            "master-removed" if present => {
                present = !remove(stage, &newcomer).await?;
            }
            "disk-replaced" => replace_disk(stage).await?,
            _not_now => {}
        }
        Ok(())
    })
    .await?;
    // The run ends with the masters that it began with.
    if present {
        remove(stage, &newcomer).await?;
    }
    Ok(())
}

async fn add(stage: &mut Stage<'_>, node: &str) -> Result<bool, LiveError> {
    if stage.settled().await.is_none() {
        return Ok(false);
    }
    stage.journal.begin("master-added", node);
    wipe(stage, node)?;
    stage.start(node)?;
    let added = let_in(stage, node).await;
    stage.journal.end("master-added", node, added);
    Ok(added)
}

/// Lets a master in, until the leader says that it has a vote.
async fn let_in(stage: &mut Stage<'_>, node: &str) -> bool {
    let address = stage.cluster.places.proxied(node).to_string();
    let control = stage.observer.control().clone();
    let mut tried = std::pin::pin!(async {
        while let Err(error) = control.add_master(node, &address).await {
            tracing::debug!(%error, node, "not let in yet");
            tokio::time::sleep(PAUSE).await;
        }
    });
    let deadline = std::time::Instant::now() + CHANGE_DEADLINE;
    while std::time::Instant::now() < deadline {
        tokio::select! {
            () = &mut tried => return true,
            () = stage.pause(PAUSE) => {}
        }
    }
    stage.say(&format!("{node} was not let in"));
    false
}

/// The leader forgets the newcomer, which is then ended and loses its disk; it may be the leader itself.
async fn remove(stage: &mut Stage<'_>, node: &str) -> Result<bool, LiveError> {
    stage.journal.begin("master-removed", node);
    let control = stage.observer.control().clone();
    let deadline = std::time::Instant::now() + CHANGE_DEADLINE;
    let mut removed = false;
    while !removed && std::time::Instant::now() < deadline {
        // After a lost answer the second one is that there is no such master.
        removed = match control.remove_master(node).await {
            Ok(_) => true,
            Err(error) => error.to_string().contains("no such master") || gone(stage, node).await,
        };
        stage.pause(PAUSE).await;
    }
    stage.kill(node).await;
    wipe(stage, node)?;
    stage.journal.end("master-removed", node, removed);
    Ok(removed)
}

async fn gone(stage: &Stage<'_>, node: &str) -> bool {
    let seen = stage.observer.control().cluster().await;
    seen.is_ok_and(|seen| {
        !seen.leader.is_empty() && !seen.masters.iter().any(|master| master.id == node)
    })
}

/// A standby dies with its disk, and comes back with an empty one.
async fn replace_disk(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    let Some(leader) = stage.settled().await else {
        return Ok(());
    };
    let mut others = stage.masters();
    others.retain(|master| *master != leader.node);
    let Some(node) = others.get(stage.chance.index(others.len())).cloned() else {
        return Ok(());
    };
    stage.journal.begin("disk-replaced", &node);
    let killed = stage.kill(&node).await;
    wipe(stage, &node)?;
    stage.start(&node)?;
    let back = let_in(stage, &node).await;
    stage.journal.end("disk-replaced", &node, killed && back);
    Ok(())
}

fn wipe(stage: &Stage<'_>, node: &str) -> Result<(), LiveError> {
    let dir = stage.cluster.places.data(node);
    match std::fs::remove_dir_all(&dir) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(LiveError::io(dir.display().to_string())(error)),
    }
}
