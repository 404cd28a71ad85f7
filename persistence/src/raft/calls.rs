//! One round of greetings: whom to call, at which addresses, and whose answer counts.
//!
//! A master may have moved: a member is called at every address that is known of it, where it last answered, where it is
//! configured, where it says that it is, and where it joined. The one where its own node answers is dialled from then
//! on, and the leader notes it in the membership.

use std::collections::BTreeSet;

use futures::future::join_all;
use interrex_proto::v1::{HelloRequest, HelloResponse};

use super::{
    greeting::HELLO_DEADLINE,
    membership::{is_joint, relocate},
    node::Node,
    roster::Local,
    types::NodeInfo,
};

/// A master to be greeted.
#[derive(Debug)]
pub(super) struct Target {
    /// Its id; empty: whoever answers.
    id: String,
    /// The node that it is, where that is known.
    number: Option<u64>,
    /// Where it may be; the likeliest first.
    addresses: Vec<String>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) address: String,
    pub(super) result: Result<HelloResponse, String>,
}

// === impl Target ===

impl Target {
    fn add(&mut self, address: &str) {
        if !address.is_empty() && !self.addresses.iter().any(|known| known == address) {
            self.addresses.push(address.to_owned());
        }
    }
}

/// Whom to greet: the members, the configured masters, and, without a leader, those of the cluster to join.
pub(super) fn targets(node: &Node, local: &Local) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    let members = node.members();
    node.peers
        .keep_located(&members.iter().map(|m| m.node).collect());
    for member in members.iter().filter(|m| m.info.id != local.id) {
        let mut target = Target {
            id: member.info.id.clone(),
            number: Some(member.node),
            addresses: Vec::new(),
        };
        target.add(&node.peers.address(member.node, &member.info));
        target.add(local.peers.get(&member.info.id).map_or("", String::as_str));
        target.add(&node.greetings.announced(member.node).unwrap_or_default());
        target.add(&member.info.rpc);
        // While a master is being replaced there are two nodes of one id: either may answer.
        match targets.iter_mut().find(|known| known.id == target.id) {
            Some(known) => {
                known.number = None;
                target.addresses.iter().for_each(|at| known.add(at));
            }
            None => targets.push(target),
        }
    }
    for (id, address) in local.peers.iter().filter(|(id, _)| **id != local.id) {
        if !targets.iter().any(|target| target.id == *id) {
            targets.push(Target {
                id: id.clone(),
                number: None,
                addresses: vec![address.clone()],
            });
        }
    }
    if node.view.borrow().leader.is_none() {
        let known: BTreeSet<String> = targets
            .iter()
            .flat_map(|target| target.addresses.iter().cloned())
            .chain(local.peers.values().cloned())
            .collect();
        let seeds = node.options().join.iter();
        targets.extend(
            seeds
                .filter(|seed| !known.contains(*seed))
                .map(|seed| Target {
                    id: String::new(),
                    number: None,
                    addresses: vec![seed.clone()],
                }),
        );
    }
    targets
}

/// Greets one master at all its addresses at once.
pub(super) async fn call(node: &Node, target: &Target, request: &HelloRequest) -> Call {
    let asked = target.addresses.iter().map(|address| async move {
        let answer = node.peers.hello(address, request.clone(), HELLO_DEADLINE);
        (address.clone(), answer.await)
    });
    let mut answers = join_all(asked).await;
    let place = choose(target, &answers);
    let (address, result) = answers.swap_remove(place);
    let id = match &result {
        Ok(answer) if target.id.is_empty() => answer.id.clone(),
        Ok(_) => target.id.clone(),
        Err(_) if target.id.is_empty() => address.clone(),
        Err(_) => target.id.clone(),
    };
    Call {
        id,
        address,
        result,
    }
}

/// The answer of the right node, else of the right id, else any, else the first failure.
fn choose(target: &Target, answers: &[(String, Result<HelloResponse, String>)]) -> usize {
    let first = |fits: &dyn Fn(&HelloResponse) -> bool| {
        let fits =
            |(_, result): &(String, Result<HelloResponse, String>)| result.as_ref().is_ok_and(fits);
        answers.iter().position(fits)
    };
    first(&|answer| Some(answer.node) == target.number)
        .or_else(|| first(&|answer| answer.id == target.id))
        .or_else(|| first(&|_| true))
        .unwrap_or(0)
}

/// The leader notes where masters are that have moved, itself included, one in each round: they have said so, and have
/// answered there.
pub(super) async fn note_moves(node: &Node) {
    if node.leading_term().is_none() || is_joint(&node.metrics()) {
        return;
    }
    for member in node.members() {
        let own = member.node == node.number();
        let now = if own {
            node.options().peers.get(&member.info.id).cloned()
        } else {
            let said = node.greetings.announced(member.node);
            said.filter(|said| *said == node.peers.address(member.node, &member.info))
        };
        let Some(rpc) = now.filter(|rpc| *rpc != member.info.rpc) else {
            continue;
        };
        let info = NodeInfo { rpc, ..member.info };
        if let Err(error) = relocate(node, member.node, info).await {
            tracing::debug!(%error, "where a master is could not be noted; trying again");
        }
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: &str, node: u64) -> Result<HelloResponse, String> {
        Ok(HelloResponse {
            id: id.into(),
            node,
            ..HelloResponse::default()
        })
    }

    #[test]
    fn the_answer_of_the_right_node_counts_wherever_it_comes_from() {
        let target = Target {
            id: "m2".into(),
            number: Some(2),
            addresses: Vec::new(),
        };
        let at = |result| ("h:1".to_owned(), result);
        let silent = || at(Err("refused".to_owned()));
        let other = || at(answer("m3", 3));
        assert_eq!(choose(&target, &[silent(), silent()]), 0);
        assert_eq!(choose(&target, &[silent(), other()]), 1);
        assert_eq!(choose(&target, &[other(), at(answer("m2", 9))]), 1);
        let all = [other(), at(answer("m2", 9)), at(answer("m2", 2))];
        assert_eq!(choose(&target, &all), 2);
    }
}
