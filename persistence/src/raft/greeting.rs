//! The pump that greets all other masters: forms the cluster when all agree, and keeps the picture of who is where.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::future::join_all;
use interrex_proto::v1::{HelloRequest, HelloResponse};

use super::{
    calls::{self, Call},
    node::Node,
    roster::{self, Local},
    state_machine::blocking,
    status::{CALLING, Problem, Status},
};
use crate::election::MasterInfo;

/// Between two rounds while there is no cluster, and afterwards.
const FORMING_INTERVAL: Duration = Duration::from_millis(100);
const FORMED_INTERVAL: Duration = Duration::from_secs(1);
/// How long one greeting may take.
pub(super) const HELLO_DEADLINE: Duration = Duration::from_millis(500);
/// An answer is good for forming a cluster for this long.
const FRESH: Duration = Duration::from_secs(2);
/// A caller is forgotten when it has not called again for this long: longer than [`FRESH`], so that nobody still
/// relies on the answer.
const CALLER_MEMORY: Duration = Duration::from_secs(4);
/// Refused callers that are remembered; one more is refused all the same.
const CALLERS_MAX: usize = 16;

/// What the other masters have said.
#[derive(Debug, Default)]
pub(super) struct Greetings {
    heard: Mutex<BTreeMap<String, Heard>>,
    /// Who called last under each configured id, before there is a cluster.
    welcomed: Mutex<BTreeMap<String, (u64, Instant)>>,
    refused: Mutex<BTreeMap<(String, u64), Instant>>,
    /// Where members say that they are, by their number.
    announced: Mutex<BTreeMap<u64, String>>,
}

#[derive(Debug, Default)]
struct Heard {
    answer: Option<(Instant, HelloResponse)>,
    /// Why the last greeting was not answered.
    error: Option<String>,
}

// === impl Greetings ===

impl Greetings {
    /// Fills in what the master says of itself, if it has said anything.
    pub(super) fn update(&self, master: &mut MasterInfo) {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = heard
            .get(&master.id)
            .and_then(|heard| heard.answer.as_ref())
        {
            answer.rest.clone_into(&mut master.rest);
            answer.web.clone_into(&mut master.web);
        }
    }

    /// Whether this master has lately said that its disk is in trouble.
    pub(super) fn is_in_trouble(&self, id: &str) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = heard.get(id).and_then(|heard| heard.answer.as_ref());
        answer.is_some_and(|(_, answer)| !answer.trouble.is_empty())
    }

    /// Judges an incoming greeting; the answer is why it is refused.
    pub(super) fn called(
        &self,
        status: &Status,
        local: &Local,
        caller: &HelloRequest,
    ) -> Option<String> {
        let text = roster::judge_call(local, caller).or_else(|| self.twin(local, caller));
        let Some(text) = text else {
            self.announce(local, caller);
            return None;
        };
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (caller.id.clone(), caller.node);
        if refused.len() < CALLERS_MAX || refused.contains_key(&key) {
            refused.insert(key, Instant::now());
            status.set(caller_problem(local, &caller.id), text.clone());
        }
        Some(text)
    }

    /// A member says where it is: that is dialled too, and noted once it has answered there.
    fn announce(&self, local: &Local, caller: &HelloRequest) {
        let is_member = local
            .members
            .iter()
            .any(|(_, number)| *number == caller.node);
        if let Some(address) = caller.peers.get(&caller.id).filter(|_| is_member) {
            let mut announced = self
                .announced
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            announced.insert(caller.node, address.clone());
        }
    }

    /// Where the member with this number says that it is.
    pub(super) fn announced(&self, number: u64) -> Option<String> {
        let announced = self
            .announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        announced.get(&number).cloned()
    }

    /// Forgets what those have said that are no members any more.
    fn keep_announced(&self, local: &Local) {
        let mut announced = self
            .announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        announced.retain(|number, _| local.members.iter().any(|(_, member)| member == number));
    }

    /// Why `caller` is refused for another one that calls under its id. Each of the two could form a cluster with
    /// this master in it: only the first is welcome, until it has not called for a while.
    fn twin(&self, local: &Local, caller: &HelloRequest) -> Option<String> {
        if local.initialized || !local.peers.contains_key(&caller.id) {
            return None;
        }
        let mut welcomed = self.welcomed.lock().unwrap_or_else(PoisonError::into_inner);
        match welcomed.get(&caller.id) {
            Some((first, at)) if *first != caller.node && at.elapsed() < CALLER_MEMORY => {
                Some(roster::twins(&caller.id, *first, caller.node))
            }
            Some(_) | None => {
                welcomed.insert(caller.id.clone(), (caller.node, Instant::now()));
                None
            }
        }
    }

    /// Drops refusals of callers that have stopped calling.
    fn forget_callers(&self, status: &Status) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<(String, u64)> = refused
            .iter()
            .filter(|(_, at)| at.elapsed() > CALLER_MEMORY)
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            refused.remove(&key);
            status.clear(Problem::Warning(caller_name(&key.0)));
            status.clear(Problem::Peer(caller_name(&key.0)));
        }
    }

    fn note(&self, id: &str, result: Result<HelloResponse, String>) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = heard.entry(id.to_owned()).or_default();
        match result {
            Ok(answer) => {
                *entry = Heard {
                    answer: Some((Instant::now(), answer)),
                    error: None,
                }
            }
            Err(error) => entry.error = Some(error),
        }
    }

    fn fresh(&self) -> BTreeMap<String, HelloResponse> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = heard.iter().filter_map(|(id, heard)| match &heard.answer {
            Some((at, answer)) if at.elapsed() < FRESH => Some((id.clone(), answer.clone())),
            Some(_) | None => None,
        });
        fresh.collect()
    }

    /// The masters that do not answer, and why.
    fn silent(&self) -> Vec<(String, String)> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard
            .iter()
            .filter_map(|(id, heard)| heard.error.clone().map(|error| (id.clone(), error)))
            .collect()
    }
}

/// Greets everybody, round after round, until the node is closed.
pub(super) async fn greet(node: Arc<Node>) {
    loop {
        let round = async {
            greet_once(&node).await;
            let pause = if node.is_initialized() {
                FORMED_INTERVAL
            } else {
                FORMING_INTERVAL
            };
            tokio::time::sleep(pause).await;
        };
        tokio::select! {
            biased;
            () = node.closing().cancelled() => return,
            () = round => {}
        }
    }
}

async fn greet_once(node: &Arc<Node>) {
    let local = node.local();
    let targets = calls::targets(node, &local);
    let request = local.hello();
    let calls = targets
        .iter()
        .map(|target| calls::call(node, target, &request));
    let mut greeted = BTreeSet::new();
    for Call {
        id,
        address,
        result,
    } in join_all(calls).await
    {
        greeted.insert(id.clone());
        if let Ok(answer) = &result {
            if local
                .members
                .iter()
                .any(|(_, number)| *number == answer.node)
            {
                node.peers.locate(answer.node, &address);
                node.ground.formats.note(answer.node, answer.entry_format);
            }
            if answer.expelled && answer.cluster_id == local.cluster_id {
                return leave_behind(node).await;
            }
            judge(node, &local, &id, &address, answer);
        }
        node.greetings.note(&id, result);
    }
    node.status.forget_ungreeted(&greeted);
    node.greetings.forget_callers(&node.status);
    node.greetings.keep_announced(&local);
    node.ground.formats.keep(&local.members);
    form(node, &local).await;
    remember_cluster(node).await;
    report(node);
    calls::note_moves(node).await;
}

/// Says what is wrong with an answer, if anything is.
fn judge(node: &Node, local: &Local, id: &str, address: &str, answer: &HelloResponse) {
    let peer = || Problem::Peer(id.to_owned());
    match roster::judge_answer(local, id, address, answer) {
        // A member that is fine is not held up by another master that is not.
        Some(text) if local.initialized && !refuses_me(local, id, answer) => {
            node.status.clear(peer());
            node.status.set(Problem::Warning(id.to_owned()), text);
        }
        Some(text) => node.status.set(peer(), text),
        None => {
            node.status.clear(peer());
            node.status.clear(Problem::Warning(id.to_owned()));
        }
    }
}

/// A master of the own cluster says that this node was left behind.
async fn leave_behind(node: &Arc<Node>) {
    let left = Arc::clone(node);
    let written = blocking(move || {
        left.leave_behind();
        Ok(())
    });
    if let Err(error) = written.await {
        tracing::warn!(%error, "this node was left behind");
    }
}

/// Forms the cluster if it is this master's turn and all agree.
async fn form(node: &Arc<Node>, local: &Local) {
    let Some(members) = roster::may_form(local, &node.greetings.fresh()) else {
        return;
    };
    let names: Vec<String> = members.values().map(ToString::to_string).collect();
    match node.raft().initialize(members).await {
        Ok(()) => tracing::info!(master = local.id, "cluster formed of {}", names.join(", ")),
        // Somebody else was faster, or this node has a past that it had not told yet.
        Err(error) => tracing::warn!(master = local.id, %error, "cluster not formed"),
    }
}

/// Keeps the cluster's name in the identity, so that this directory never forms another one.
async fn remember_cluster(node: &Arc<Node>) {
    let cluster_id = node.applied().cluster_id();
    let known = {
        let identity = node.identity.lock().unwrap_or_else(PoisonError::into_inner);
        !identity.cluster_id.is_empty()
    };
    if cluster_id.is_empty() || known {
        return;
    }
    let keeper = Arc::clone(node);
    let stored = blocking(move || {
        let mut identity = keeper
            .identity
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let dir = keeper.dir.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(dir) = dir.as_ref() else {
            return Ok(());
        };
        let mut named = identity.clone();
        named.cluster_id = cluster_id;
        dir.store(&named).map_err(std::io::Error::other)?;
        *identity = named;
        Ok(())
    });
    let problem = Problem::Warning("identity".to_owned());
    match stored.await {
        Ok(()) => node.status.clear(problem),
        Err(error) => {
            let text =
                format!("the cluster's name cannot be stored, which is tried again: {error}");
            node.status.set(problem, text);
        }
    }
}

/// Says what is waited for, or that nothing is.
fn report(node: &Node) {
    if !node.is_initialized() {
        let silent = node.greetings.silent();
        let text = if !node.options().join.is_empty() {
            format!(
                "waiting to be let in: run `interrex cluster add {}={} --masters {}`",
                node.options().id,
                node.me().rpc,
                node.options().join.join(",")
            )
        } else if silent.is_empty() {
            "waiting for the cluster to be formed, or to let this master in".to_owned()
        } else {
            let each: Vec<String> = silent
                .iter()
                .map(|(id, error)| {
                    let address = node.options().peers.get(id).map_or("", String::as_str);
                    format!("{id} ({address}): {error}")
                })
                .collect();
            format!(
                "waiting for all masters to answer once: {}",
                each.join("; ")
            )
        };
        node.status.set(Problem::Waiting, text);
        return;
    }
    let members = node.members();
    let addresses: BTreeMap<String, String> = members
        .iter()
        .map(|m| (m.info.id.clone(), m.info.rpc.clone()))
        .collect();
    let warning = Problem::Warning("addresses".to_owned());
    match roster::moved(&node.options().peers, &addresses) {
        // The metrics lag behind at the start: without members nothing has moved.
        Some(text) if !members.is_empty() => node.status.set(warning, text),
        Some(_) | None => node.status.clear(warning),
    }
    // A node that has stopped waits for its disk, and hears of no leader.
    if node.view.borrow().leader.is_some() || node.has_stopped() {
        node.status.clear(Problem::Waiting);
        return;
    }
    let voters: Vec<&str> = members
        .iter()
        .filter(|m| m.voter)
        .map(|m| m.info.id.as_str())
        .collect();
    let silent = node.greetings.silent();
    let missing: Vec<String> = silent
        .iter()
        .filter(|(id, _)| voters.contains(&id.as_str()))
        .map(|(id, error)| format!("{id}: {error}"))
        .collect();
    let text = format!(
        "no leader: {} of {} masters answer, {} are needed; {}",
        voters.len().saturating_sub(missing.len()),
        voters.len(),
        voters.len() / 2 + 1,
        missing.join("; ")
    );
    node.status
        .set(Problem::Waiting, text.trim_end_matches("; ").to_owned());
}

/// Whether the text of this answer is about this master rather than about the one that answered.
fn refuses_me(local: &Local, expected: &str, answer: &HelloResponse) -> bool {
    let same_cluster = answer.cluster_id.is_empty() || answer.cluster_id == local.cluster_id;
    // One that was removed or left behind goes by an old membership: it says nothing about this master.
    let known = local
        .members
        .iter()
        .any(|(_, number)| *number == answer.node);
    answer.id == expected && same_cluster && known && !answer.refused.is_empty()
}

fn caller_problem(local: &Local, id: &str) -> Problem {
    if local.initialized {
        Problem::Warning(caller_name(id))
    } else {
        Problem::Peer(caller_name(id))
    }
}

fn caller_name(id: &str) -> String {
    format!("{id}{CALLING}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_masters_with_one_id_only_the_first_can_form_a_cluster() {
        let peers: BTreeMap<String, String> = [("m1", "h:1"), ("m2", "h:2")]
            .map(|(id, at)| (id.to_owned(), at.to_owned()))
            .into();
        let local = Local {
            id: "m2".into(),
            node: 2,
            peers: peers.clone(),
            ..Local::default()
        };
        let (greetings, status) = (Greetings::default(), Status::new("m2"));
        let call = |local: &Local, node| {
            let caller = HelloRequest {
                id: "m1".into(),
                node,
                peers: peers.clone(),
                ..HelloRequest::default()
            };
            greetings.called(&status, local, &caller)
        };
        assert_eq!(call(&local, 1), None);
        let text = call(&local, 9).expect("must be refused");
        assert!(text.contains("two masters have the id m1"), "{text}");
        assert_eq!(call(&local, 1), None, "the first is still welcome");
        // Once there is a cluster its membership decides.
        let formed = Local {
            initialized: true,
            members: vec![("m1".into(), 9), ("m2".into(), 2)],
            ..local
        };
        assert_eq!(call(&formed, 9), None);
    }
}
