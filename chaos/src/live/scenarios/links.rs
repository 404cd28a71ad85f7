//! Links that are cut, half-open, one way, late, or come and go.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use super::in_turn;
use crate::live::{
    load::SUBMITTERS,
    observer::Leader,
    options::LiveError,
    proxy::{Rule, Way},
    stage::Stage,
};

/// What is cut in split-brain runs.
pub(in crate::live) const SPLITS: [&str; 6] = [
    "leader-cut-off",
    "leader-isolated",
    "leader-deaf",
    "ring-broken",
    "minority-cut-off",
    "agent-cut-off",
];
/// What links do in flapping networks.
pub(in crate::live) const FLAPS: [&str; 5] = [
    "link-cut",
    "link-late",
    "link-narrow",
    "link-half-open",
    "link-reset",
];

/// How long masters are cut off.
const CUT: (Duration, Duration) = (Duration::from_millis(1_500), Duration::from_secs(4));
/// How long an agent is: longer than masters wait for it.
const AGENT_CUT: Duration = Duration::from_secs(11);
/// How long a link flaps.
const FLAP: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(1_500));
/// How long another leader may take to be there.
const ELECTION_DEADLINE: Duration = Duration::from_secs(20);

/// Splits the cluster in one way after the other.
pub(in crate::live) async fn split(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    in_turn(stage, &SPLITS, split_once).await
}

/// Cuts one part off another for some time.
pub(in crate::live) async fn split_once(
    stage: &mut Stage<'_>,
    name: &'static str,
) -> Result<(), LiveError> {
    let Some(leader) = stage.settled().await else {
        return Ok(());
    };
    let mut others = stage.masters();
    others.retain(|master| *master != leader.node);
    let follower = others.get(stage.chance.index(others.len())).cloned();
    let follower = follower.unwrap_or_default();
    let mut time = stage.chance.time(CUT.0, CUT.1);
    let lead = vec![leader.node.clone()];
    let clients = SUBMITTERS.map(str::to_owned).to_vec();
    let (inside, outside, rule) = match name {
        "leader-cut-off" => (lead, others.clone(), Rule::CUT),
        "leader-isolated" => {
            let everybody = [others.clone(), stage.agents(), clients].concat();
            (lead, everybody, Rule::CUT)
        }
        // It is heard, and hears nothing.
        "leader-deaf" => (lead, others.clone(), Rule::NO_ANSWERS),
        "ring-broken" => (lead, vec![follower.clone()], Rule::CUT),
        "minority-cut-off" => {
            let mut agents = stage.agents();
            let half = agents.split_off(agents.len() / 2);
            let minority = [vec![follower.clone()], half].concat();
            let majority = [lead, others.clone(), agents, clients].concat();
            let majority = majority.into_iter().filter(|node| *node != follower);
            (minority, majority.collect(), Rule::CUT)
        }
        _agent_cut_off => {
            time = AGENT_CUT;
            let agents = stage.agents();
            let agent = agents.get(stage.chance.index(agents.len())).cloned();
            (agent.into_iter().collect(), stage.masters(), Rule::CUT)
        }
    };
    let away = matches!(name, "leader-cut-off" | "leader-isolated");
    cut(
        stage,
        name,
        (&inside, &outside),
        rule,
        time,
        away.then_some(&leader),
    )
    .await
}

/// Cuts `inside` off `outside`, sees what a submission comes to meanwhile, and mends it. With `old`, another leader must
/// be there meanwhile, and the old one must not answer from its memory.
async fn cut(
    stage: &mut Stage<'_>,
    name: &str,
    (inside, outside): (&[String], &[String]),
    rule: Rule,
    time: Duration,
    old: Option<&Leader>,
) -> Result<(), LiveError> {
    let links = stage.cluster.links.clone();
    let pairs: Vec<(&String, &String)> = inside
        .iter()
        .flat_map(|one| outside.iter().map(move |other| (one, other)))
        .collect();
    let ours = |from: &str, to: &str| {
        pairs
            .iter()
            .any(|(one, other)| (*one == from && *other == to) || (*one == to && *other == from))
    };
    let before = links.touched(ours);
    let probe = stage.probe()?;
    let id = probe.id.clone();
    let on = inside.join(" ");
    let value = json!({"node": on, "from": outside.join(" "), "phase": "begin", "probe": id});
    for (one, other) in &pairs {
        links.set_between(one, other, rule);
    }
    stage.journal.fault(name, value);
    let mut replaced = true;
    if let Some(old) = old {
        replaced = stage.next_leader(old, ELECTION_DEADLINE).await.is_some();
        let at = [stage.cluster.places.proxied(&old.node).to_string()];
        let asker = stage.requests("late", &at)?;
        // What it says now must not be older than what the new leader has said.
        asker
            .read(&id)
            .await
            .map_err(LiveError::io("the history"))?;
    }
    stage.pause(time).await;
    let touched = links.touched(ours) > before;
    for (one, other) in &pairs {
        links.set_between(one, other, Rule::default());
    }
    stage.probed(probe).await;
    stage.journal.end(name, &on, touched && replaced);
    Ok(())
}

/// Lets links between masters, agents and clients come and go.
pub(in crate::live) async fn flap(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    in_turn(stage, &FLAPS, flap_once).await
}

/// Does something to one link for a moment; masters are not waited for, so that troubles add up.
pub(in crate::live) async fn flap_once(
    stage: &mut Stage<'_>,
    name: &'static str,
) -> Result<(), LiveError> {
    let masters = stage.masters();
    let clients = SUBMITTERS.map(str::to_owned).to_vec();
    let all = [masters.clone(), masters.clone(), stage.agents(), clients].concat();
    let to = masters.get(stage.chance.index(masters.len())).cloned();
    let from = all.get(stage.chance.index(all.len())).cloned();
    let (Some(from), Some(to)) = (from, to) else {
        return Ok(());
    };
    if from == to {
        return Ok(());
    }
    let time = stage.chance.time(FLAP.0, FLAP.1);
    let late = stage
        .chance
        .time(Duration::from_millis(5), Duration::from_millis(250));
    let links = stage.cluster.links.clone();
    let ours =
        |one: &str, other: &str| (one == from && other == to) || (one == to && other == from);
    let before = links.touched(ours);
    let on = format!("{from} {to}");
    stage.journal.begin(name, &on);
    match name {
        "link-cut" => links.set_between(&from, &to, Rule::CUT),
        "link-late" => links.set_between(&from, &to, Rule::both(Way::late(late))),
        "link-narrow" => links.set_between(&from, &to, Rule::both(Way::slow(20_000))),
        "link-half-open" => links.set_between(&from, &to, Rule::HALF_OPEN),
        _reset => {
            links.reset(&from, &to);
            links.reset(&to, &from);
        }
    }
    stage.pause(time).await;
    let touched = links.touched(ours) > before;
    links.set_between(&from, &to, Rule::default());
    stage.journal.end(name, &on, touched);
    Ok(())
}

/// Agents that die, that freeze, and that all come back at the same time.
pub(in crate::live) const STORMS: [&str; 4] =
    ["agent-kill", "agents-kill", "agents-reset", "agent-pause"];

/// Kills and freezes agents.
pub(in crate::live) async fn storm(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    in_turn(stage, &STORMS, storm_once).await
}

/// One such trouble.
pub(in crate::live) async fn storm_once(
    stage: &mut Stage<'_>,
    name: &'static str,
) -> Result<(), LiveError> {
    let agents = stage.agents();
    let one = agents.get(stage.chance.index(agents.len())).cloned();
    let one: Vec<String> = one.into_iter().collect();
    match name {
        "agent-kill" => kill_agents(stage, name, &one).await,
        "agents-kill" => {
            let most = agents.get(1..).unwrap_or_default().to_vec();
            kill_agents(stage, name, &most).await
        }
        "agents-reset" => {
            let links = stage.cluster.links.clone();
            let is_agents = |from: &str, _to: &str| from.starts_with('w');
            let before = links.touched(is_agents);
            for agent in &agents {
                for master in stage.masters() {
                    links.reset(agent, &master);
                }
            }
            stage.pause(Duration::from_millis(500)).await;
            let value = json!({
                "node": agents.join(" "), "phase": "once", "hit": links.touched(is_agents) > before,
            });
            stage.journal.fault(name, value);
            Ok(())
        }
        _agent_pause => {
            let on = one.join(" ");
            stage.journal.begin(name, &on);
            let stopped = stage.cluster.signal(&on, Signal::SIGSTOP);
            stage.pause(AGENT_CUT).await;
            stage.cluster.signal(&on, Signal::SIGCONT);
            stage.journal.end(name, &on, stopped);
            Ok(())
        }
    }
}

async fn kill_agents(
    stage: &mut Stage<'_>,
    name: &str,
    agents: &[String],
) -> Result<(), LiveError> {
    let on = agents.join(" ");
    stage.journal.begin(name, &on);
    let killed = stage.kill_all(agents).await;
    stage
        .pause_between(Duration::from_millis(200), Duration::from_secs(2))
        .await;
    for agent in agents {
        stage.start(agent)?;
    }
    stage.journal.end(name, &on, killed);
    stage.pause(Duration::from_secs(1)).await;
    Ok(())
}
