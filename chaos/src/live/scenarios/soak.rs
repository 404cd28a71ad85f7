//! Everything, in an order of the dice, for as long as one likes.

use super::{leaders, links, power, restarts};
use crate::live::{options::LiveError, stage::Stage};

/// Everything that is mixed; each must have done something.
pub(in crate::live) const MIX: [&str; 14] = [
    "leader-kill",
    "leader-pause-long",
    "leader-restart",
    "agent-restart",
    "power-cut",
    "leader-cut-off",
    "leader-isolated",
    "minority-cut-off",
    "agent-cut-off",
    "agents-kill",
    "agents-reset",
    "link-cut",
    "link-half-open",
    "link-late",
];
/// How often links flap while it is their turn.
const FLAPS: u32 = 6;

/// Deals all faults, shuffled anew each time, until the time is over.
pub(in crate::live) async fn soak(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    let mut first = true;
    while first || stage.goes_on() {
        let mut deck = MIX.to_vec();
        while !deck.is_empty() && (first || stage.goes_on()) {
            let name = deck.swap_remove(stage.chance.index(deck.len()));
            deal(stage, name).await?;
        }
        first = false;
    }
    Ok(())
}

async fn deal(stage: &mut Stage<'_>, name: &'static str) -> Result<(), LiveError> {
    match name {
        "leader-kill" | "leader-pause-long" => {
            let Some(leader) = stage.settled().await else {
                return Ok(());
            };
            if name == "leader-kill" {
                leaders::kill_leader(stage, &leader).await
            } else {
                leaders::pause_long(stage, &leader).await
            }
        }
        "leader-restart" => {
            let Some(leader) = stage.settled().await else {
                return Ok(());
            };
            restarts::restart_master(stage, &leader.node, name).await
        }
        "agent-restart" => {
            let agents = stage.agents();
            let agent = agents.get(stage.chance.index(agents.len())).cloned();
            restarts::restart_agent(stage, &agent.unwrap_or_default()).await
        }
        "power-cut" => power::cut_once(stage, name).await,
        "agents-kill" | "agents-reset" => links::storm_once(stage, name).await,
        flap if links::FLAPS.contains(&flap) => {
            for _ in 0..FLAPS {
                links::flap_once(stage, flap).await?;
            }
            Ok(())
        }
        split => links::split_once(stage, split).await,
    }
}
