//! Who the masters say they are, and whether that fits together. Pure: no clock, no I/O.
//!
//! Masters greet each other all the time. Before a cluster exists the greetings decide whether one may be formed:
//! only when every configured master has answered, all name the same peers, and none belongs to a cluster already.
//! Afterwards they find a master whose disk was replaced, an address that leads to another master, two masters with
//! one id, and masters of another cluster. None of these ends a process: each is a text that shows both sides.

use std::collections::{BTreeMap, BTreeSet};

use interrex_proto::v1::{HelloRequest, HelloResponse};

use super::{options::list, types::NodeInfo};

/// What this master knows about itself when it greets or is greeted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) id: String,
    pub(super) node: u64,
    /// As configured: id to address.
    pub(super) peers: BTreeMap<String, String>,
    /// Where its other servers are.
    pub(super) rest: String,
    pub(super) web: String,
    /// Empty before there is one.
    pub(super) cluster_id: String,
    /// Whether this node has a membership.
    pub(super) initialized: bool,
    /// The membership: id to node number. Two numbers for one id while a master is being replaced.
    pub(super) members: Vec<(String, u64)>,
    /// Where the members are: id to address.
    pub(super) addresses: BTreeMap<String, String>,
    /// Nodes that were left behind when the cluster was recovered.
    pub(super) expelled: BTreeSet<u64>,
    /// Whether it is to join a cluster, and never to form one.
    pub(super) joins: bool,
    /// The newest format of entries that it applies.
    pub(super) entry_format: u32,
}

// === impl Local ===

impl Local {
    /// The greeting.
    pub(super) fn hello(&self) -> HelloRequest {
        HelloRequest {
            id: self.id.clone(),
            node: self.node,
            peers: self.peers.clone(),
            cluster_id: self.cluster_id.clone(),
            rest: self.rest.clone(),
            web: self.web.clone(),
            entry_format: self.entry_format,
        }
    }
}

/// What is wrong with what `answer` says, coming from `address`, where `expected` should be (empty: any master).
pub(super) fn judge_answer(
    local: &Local,
    expected: &str,
    address: &str,
    answer: &HelloResponse,
) -> Option<String> {
    if !expected.is_empty() && answer.id != expected {
        return Some(if answer.id == local.id {
            format!(
                "address {address} of {expected} answers as {}: two masters have that id, or --peers names a wrong \
                 address; give each master its own --id and the same --peers",
                answer.id
            )
        } else {
            format!(
                "address {address} of {expected} answers as {}; check --peers on this master and --id on that one",
                answer.id
            )
        });
    }
    if let Some(text) = clusters_differ(local, &answer.id, &answer.cluster_id) {
        return Some(text);
    }
    if local.expelled.contains(&answer.node) {
        return Some(left_behind(&answer.id, answer.node));
    }
    if !answer.refused.is_empty() {
        return Some(answer.refused.clone());
    }
    if !local.initialized && !answer.initialized {
        return lists_differ(local, &answer.id, &answer.peers);
    }
    if local.initialized {
        return stranger(local, &answer.id, answer.node, address);
    }
    None
}

/// Why the greeting of `caller` is refused; `None` welcomes it.
pub(super) fn judge_call(local: &Local, caller: &HelloRequest) -> Option<String> {
    if caller.id == local.id && caller.node != local.node {
        return Some(format!(
            "two masters have the id {}: node {:016x} with --peers {} and node {:016x} with --peers {}; give each \
             master its own --id",
            local.id,
            local.node,
            list(&local.peers),
            caller.node,
            list(&caller.peers)
        ));
    }
    if let Some(text) = clusters_differ(local, &caller.id, &caller.cluster_id) {
        return Some(text);
    }
    if local.expelled.contains(&caller.node) {
        return Some(left_behind(&caller.id, caller.node));
    }
    if local.initialized {
        let address = caller
            .peers
            .get(&caller.id)
            .map_or("HOST:PORT", String::as_str);
        return stranger(local, &caller.id, caller.node, address);
    }
    if caller.cluster_id.is_empty() {
        return lists_differ(local, &caller.id, &caller.peers);
    }
    None
}

/// The members to form a cluster with, if this master is the one to form it and everybody agrees. `answers` are the
/// fresh answers of the other masters, by configured id.
pub(super) fn may_form(
    local: &Local,
    answers: &BTreeMap<String, HelloResponse>,
) -> Option<BTreeMap<u64, NodeInfo>> {
    let first = local.peers.keys().next() == Some(&local.id);
    // A directory that has seen a cluster never starts another, nor does one that is to join one.
    if !first || local.joins || local.initialized || !local.cluster_id.is_empty() {
        return None;
    }
    let mut members = BTreeMap::new();
    for (id, address) in &local.peers {
        let (node, rest, web) = if *id == local.id {
            (local.node, local.rest.clone(), local.web.clone())
        } else {
            let answer = answers.get(id)?;
            let clean = answer.cluster_id.is_empty() && !answer.initialized;
            if !clean || judge_answer(local, id, address, answer).is_some() {
                return None;
            }
            (answer.node, answer.rest.clone(), answer.web.clone())
        };
        let info = NodeInfo {
            id: id.clone(),
            rpc: address.clone(),
            rest,
            web,
        };
        if members.insert(node, info).is_some() {
            return None;
        }
    }
    Some(members)
}

/// What differs between the configured addresses and the membership's, for masters that are in both.
pub(super) fn moved(
    peers: &BTreeMap<String, String>,
    members: &BTreeMap<String, String>,
) -> Option<String> {
    let mut texts = Vec::new();
    for (id, address) in members {
        match peers.get(id) {
            Some(configured) if configured == address => {}
            Some(configured) => {
                texts.push(format!("{id} joined as {address}, dialled at {configured}"))
            }
            // Added later, which needs no restart of the others with another list.
            None => {}
        }
    }
    for id in peers.keys().filter(|id| !members.contains_key(*id)) {
        texts.push(format!("{id} is in --peers but not a member"));
    }
    (!texts.is_empty())
        .then(|| format!("--peers differs from the membership: {}", texts.join("; ")))
}

/// What is wrong with a node that the cluster was recovered without.
pub(super) fn left_behind(id: &str, node: u64) -> String {
    format!(
        "{id} (node {node:016x}) was left behind when the cluster was recovered, and never takes part again: stop it, \
         move its data directory away, start it with an empty one, and add it with `interrex cluster add`"
    )
}

/// What is wrong when two masters call under one id.
pub(super) fn twins(id: &str, first: u64, second: u64) -> String {
    format!(
        "two masters have the id {id}: node {first:016x} and node {second:016x}; give each master its own --id"
    )
}

/// The command that lets `id` at `address` (back) in, ready to be typed: it asks the other masters.
fn rejoin_command(local: &Local, id: &str, address: &str) -> String {
    let known = if local.addresses.is_empty() {
        &local.peers
    } else {
        &local.addresses
    };
    let others = known.iter().filter(|(peer, _)| *peer != id);
    let others: Vec<&str> = others.map(|(_, rpc)| rpc.as_str()).collect();
    format!(
        "interrex cluster add {id}={address} --masters {}",
        others.join(",")
    )
}

fn clusters_differ(local: &Local, id: &str, cluster_id: &str) -> Option<String> {
    let differ =
        !local.cluster_id.is_empty() && !cluster_id.is_empty() && local.cluster_id != cluster_id;
    differ.then(|| {
        format!(
            "{} belongs to cluster {}, {id} to cluster {cluster_id}; check --peers and --data-dir of both",
            local.id, local.cluster_id
        )
    })
}

fn lists_differ(local: &Local, id: &str, peers: &BTreeMap<String, String>) -> Option<String> {
    (local.peers != *peers).then(|| {
        // The same text on both sides.
        let mut sides = [(local.id.as_str(), list(&local.peers)), (id, list(peers))];
        sides.sort();
        let [(one, ones), (two, twos)] = &sides;
        format!(
            "peer lists differ: {one} has --peers {ones}, {two} has --peers {twos}; start both with the same list"
        )
    })
}

/// `id` with this node number is not in the membership.
fn stranger(local: &Local, id: &str, node: u64, address: &str) -> Option<String> {
    let known: Vec<u64> = local
        .members
        .iter()
        .filter(|(member, _)| member == id)
        .map(|(_, node)| *node)
        .collect();
    if known.contains(&node) {
        return None;
    }
    let command = rejoin_command(local, id, address);
    Some(match known.first() {
        Some(known) => format!(
            "{id} is node {node:016x}, but the cluster knows {id} as node {known:016x}: its data directory was \
             replaced, so it does not vote; to let it back in run `{command}`"
        ),
        None => format!(
            "{id} (node {node:016x}) is not a member of this cluster; to let it in run `{command}`"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(ids: &[&str]) -> BTreeMap<String, String> {
        ids.iter()
            .map(|id| ((*id).to_owned(), format!("h:{id}")))
            .collect()
    }

    fn local(id: &str, node: u64) -> Local {
        Local {
            id: id.into(),
            node,
            peers: peers(&["m1", "m2", "m3"]),
            ..Local::default()
        }
    }

    fn answer(id: &str, node: u64) -> HelloResponse {
        HelloResponse {
            id: id.into(),
            node,
            peers: peers(&["m1", "m2", "m3"]),
            ..HelloResponse::default()
        }
    }

    fn call(id: &str, node: u64) -> HelloRequest {
        let HelloResponse {
            id, node, peers, ..
        } = answer(id, node);
        HelloRequest {
            id,
            node,
            peers,
            ..HelloRequest::default()
        }
    }

    fn formed(mut local: Local) -> Local {
        local.initialized = true;
        local.cluster_id = "c1".into();
        local.members = vec![("m1".into(), 1), ("m2".into(), 2), ("m3".into(), 3)];
        local
    }

    fn answers(all: &[HelloResponse]) -> BTreeMap<String, HelloResponse> {
        all.iter()
            .map(|answer| (answer.id.clone(), answer.clone()))
            .collect()
    }

    #[test]
    fn the_smallest_id_forms_the_cluster_once_all_agree() {
        let all = answers(&[answer("m2", 2), answer("m3", 3)]);
        let members = may_form(&local("m1", 1), &all).unwrap();
        assert_eq!(members.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(members[&2].rpc, "h:m2");
        assert_eq!(may_form(&local("m2", 2), &all), None);
        assert_eq!(
            may_form(&local("m1", 1), &answers(&[answer("m2", 2)])),
            None
        );
    }

    #[test]
    fn no_cluster_is_formed_over_an_old_one() {
        let mut old = answer("m2", 2);
        old.initialized = true;
        assert_eq!(
            may_form(&local("m1", 1), &answers(&[old, answer("m3", 3)])),
            None
        );
        let mut named = answer("m2", 2);
        named.cluster_id = "c1".into();
        assert_eq!(
            may_form(&local("m1", 1), &answers(&[named, answer("m3", 3)])),
            None
        );
        let mut seen = local("m1", 1);
        seen.cluster_id = "c1".into();
        assert_eq!(
            may_form(&seen, &answers(&[answer("m2", 2), answer("m3", 3)])),
            None
        );
    }

    #[test]
    fn differing_lists_show_both_sides_alike() {
        let mut other = answer("m2", 2);
        other.peers = peers(&["m1", "m2"]);
        let text = judge_answer(&local("m1", 1), "m2", "h:m2", &other).unwrap();
        assert!(text.contains("m1=h:m1,m2=h:m2,m3=h:m3"), "{text}");
        assert!(text.contains("m2 has --peers m1=h:m1,m2=h:m2;"), "{text}");
        let mut m2 = local("m2", 2);
        m2.peers = other.peers;
        assert_eq!(judge_call(&m2, &call("m1", 1)).unwrap(), text);
        assert_eq!(
            may_form(&local("m1", 1), &answers(&[answer("m3", 3)])),
            None
        );
    }

    #[test]
    fn lists_that_differ_after_forming_do_not_matter() {
        let mut other = answer("m2", 2);
        other.peers = peers(&["m2"]);
        other.cluster_id = "c1".into();
        other.initialized = true;
        assert_eq!(
            judge_answer(&formed(local("m1", 1)), "m2", "h:m2", &other),
            None
        );
    }

    #[test]
    fn a_replaced_disk_is_refused_with_the_command_that_helps() {
        let text = judge_call(&formed(local("m1", 1)), &call("m3", 99)).unwrap();
        assert!(text.contains("data directory was replaced"), "{text}");
        assert!(
            text.contains("`interrex cluster add m3=h:m3 --masters h:m1,h:m2`"),
            "{text}"
        );
        let text = judge_call(&formed(local("m1", 1)), &call("m4", 4)).unwrap();
        assert!(text.contains("not a member"), "{text}");
        assert_eq!(judge_call(&formed(local("m1", 1)), &call("m3", 3)), None);
    }

    #[test]
    fn one_id_for_two_masters_is_refused() {
        let text = judge_call(&local("m1", 1), &call("m1", 9)).unwrap();
        assert!(text.contains("two masters have the id m1"), "{text}");
        let text = judge_answer(&local("m1", 1), "m2", "h:m2", &answer("m1", 9)).unwrap();
        assert!(text.contains("address h:m2 of m2 answers as m1"), "{text}");
        let text = judge_answer(&local("m1", 1), "m2", "h:m2", &answer("m3", 9)).unwrap();
        assert!(text.contains("answers as m3"), "{text}");
    }

    #[test]
    fn another_cluster_is_refused_by_name() {
        let mut caller = call("m2", 2);
        caller.cluster_id = "c2".into();
        let text = judge_call(&formed(local("m1", 1)), &caller).unwrap();
        assert!(
            text.contains("cluster c1") && text.contains("cluster c2"),
            "{text}"
        );
    }

    #[test]
    fn a_moved_master_is_a_warning() {
        let mut members = peers(&["m1", "m2", "m3"]);
        assert_eq!(moved(&members.clone(), &members), None);
        members.insert("m2".into(), "old:1".into());
        let text = moved(&peers(&["m1", "m2", "m3"]), &members).unwrap();
        assert!(
            text.contains("m2 joined as old:1, dialled at h:m2"),
            "{text}"
        );
        // One that was added later is no fault of the list.
        let added = peers(&["m1", "m2", "m3", "m4"]);
        assert_eq!(moved(&peers(&["m1", "m2", "m3"]), &added), None);
    }

    #[test]
    fn who_was_left_behind_is_told_so_by_name() {
        let mut local = formed(local("m1", 1));
        local.expelled.insert(3);
        let text = judge_call(&local, &call("m3", 3)).unwrap();
        assert!(
            text.contains("m3") && text.contains("left behind"),
            "{text}"
        );
        assert_eq!(judge_call(&local, &call("m2", 2)), None);
    }

    #[test]
    fn one_that_is_to_join_forms_nothing() {
        let alone = Local {
            peers: peers(&["m1"]),
            joins: true,
            ..local("m1", 1)
        };
        assert_eq!(may_form(&alone, &BTreeMap::new()), None);
        let alone = Local {
            joins: false,
            ..alone
        };
        assert!(may_form(&alone, &BTreeMap::new()).is_some());
    }
}
