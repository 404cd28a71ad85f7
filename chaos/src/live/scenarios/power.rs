//! The power fails: for everything at once, or for all masters.

use std::time::Duration;

use super::in_turn;
use crate::live::{
    options::{Engine, LiveError},
    places::ETCD,
    stage::Stage,
};

/// For whom the power fails.
pub(in crate::live) const CUTS: [&str; 2] = ["power-cut", "masters-power-cut"];

/// How long it stays dark.
const DARK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The calm before.
const CALM: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));

/// Cuts the power, again and again.
pub(in crate::live) async fn cut(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    in_turn(stage, &CUTS, cut_once).await
}

/// Cuts it once, and lets everything start in an order of the dice.
pub(in crate::live) async fn cut_once(
    stage: &mut Stage<'_>,
    name: &'static str,
) -> Result<(), LiveError> {
    if stage.settled().await.is_none() {
        return Ok(());
    }
    stage.pause_between(CALM.0, CALM.1).await;
    let mut nodes = stage.masters();
    if name == "power-cut" {
        nodes.extend(stage.agents());
        if stage.engine == Engine::Etcd {
            nodes.push(ETCD.to_owned());
        }
    }
    stage.journal.begin(name, &nodes.join(" "));
    let killed = stage.kill_all(&nodes).await;
    stage.pause_between(DARK.0, DARK.1).await;
    let on = nodes.join(" ");
    while !nodes.is_empty() {
        let node = nodes.swap_remove(stage.chance.index(nodes.len()));
        stage.start(&node)?;
        stage
            .pause_between(Duration::ZERO, Duration::from_millis(300))
            .await;
    }
    stage.journal.end(name, &on, killed);
    Ok(())
}
