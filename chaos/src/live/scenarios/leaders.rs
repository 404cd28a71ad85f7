//! Leaders that die, and leaders that are frozen.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::live::{client::Told, observer::Leader, options::LiveError, stage::Stage};

/// How long a master that was killed stays away, at most.
const AWAY_MAX: Duration = Duration::from_millis(1_500);
/// The calm before a kill, at most.
const CALM_MAX: Duration = Duration::from_millis(600);
/// Shorter than anybody waits for a leader.
const SHORT_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(100));
/// Longer than elections and leases take.
const LONG_PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));
/// How long another leader may take to be there.
const ELECTION_DEADLINE: Duration = Duration::from_secs(20);

/// Kills the leader until the time is over, or `kills` times.
pub(in crate::live) async fn kill(
    stage: &mut Stage<'_>,
    kills: Option<u32>,
) -> Result<(), LiveError> {
    loop {
        let done = match kills {
            Some(kills) => stage.tally.kills >= kills,
            None => !stage.goes_on(),
        };
        if done {
            return Ok(());
        }
        let Some(leader) = stage.settled().await else {
            return Ok(());
        };
        stage.pause_between(Duration::ZERO, CALM_MAX).await;
        kill_leader(stage, &leader).await?;
    }
}

/// Kills one leader, sees how long nobody answers, and starts it again.
pub(in crate::live) async fn kill_leader(
    stage: &mut Stage<'_>,
    leader: &Leader,
) -> Result<(), LiveError> {
    let away = stage.chance.time(Duration::ZERO, AWAY_MAX);
    let before = stage.journal.clock().now();
    let killed = stage.kill(&leader.node).await;
    let probe = stage.probe()?;
    let value = json!({
        "node": leader.node, "epoch": leader.epoch, "phase": "once", "hit": killed, "at": before, "probe": probe.id,
    });
    stage.journal.fault("leader-kill", value);
    stage.pause(away).await;
    stage.start(&leader.node)?;
    let told = stage.probed(probe).await;
    if killed {
        stage.tally.kills += 1;
        stage.tally.survived += u32::from(told == Told::Ok);
    }
    Ok(())
}

/// Freezes the leader, again and again, for a moment and for longer than its lease.
pub(in crate::live) async fn pause(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    let mut long = true;
    while stage.goes_on() {
        let Some(leader) = stage.settled().await else {
            return Ok(());
        };
        stage.pause_between(Duration::ZERO, CALM_MAX).await;
        if long {
            pause_long(stage, &leader).await?;
        } else {
            pause_short(stage, &leader).await;
        }
        long = !long;
    }
    Ok(())
}

async fn pause_short(stage: &mut Stage<'_>, leader: &Leader) {
    let time = stage.chance.time(SHORT_PAUSE.0, SHORT_PAUSE.1);
    stage.journal.begin("leader-pause-short", &leader.node);
    let stopped = stage.cluster.signal(&leader.node, Signal::SIGSTOP);
    stage.pause(time).await;
    stage.cluster.signal(&leader.node, Signal::SIGCONT);
    stage
        .journal
        .end("leader-pause-short", &leader.node, stopped);
}

/// The others elect a leader meanwhile, and things change; what the old one is asked before it goes on, it must not
/// answer from its memory.
pub(in crate::live) async fn pause_long(
    stage: &mut Stage<'_>,
    leader: &Leader,
) -> Result<(), LiveError> {
    let time = stage.chance.time(LONG_PAUSE.0, LONG_PAUSE.1);
    let name = "leader-pause-long";
    let stopped = stage.cluster.signal(&leader.node, Signal::SIGSTOP);
    let probe = stage.probe()?;
    let id = probe.id.clone();
    let value = json!({"node": leader.node, "epoch": leader.epoch, "phase": "begin", "probe": id});
    stage.journal.fault(name, value);
    let next = stage.next_leader(leader, ELECTION_DEADLINE).await;
    let told = stage.probed(probe).await;
    let old = [stage.cluster.places.proxied(&leader.node).to_string()];
    let asker = stage.requests("late", &old)?;
    // Waits in the old leader's socket until it goes on.
    let asked = tokio::spawn(async move { asker.read(&id).await });
    stage.pause(time).await;
    stage.cluster.signal(&leader.node, Signal::SIGCONT);
    while !asked.is_finished() {
        stage.pause(Duration::from_millis(20)).await;
    }
    let hit = stopped && next.is_some() && told == Told::Ok;
    stage.journal.end(name, &leader.node, hit);
    Ok(())
}
