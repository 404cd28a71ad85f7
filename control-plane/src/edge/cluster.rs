//! The cluster as one master sees it. Answers on every master, even while nobody leads.

use std::collections::BTreeMap;

use interrex_persistence::{backend::MemberStatus, election::MasterInfo};
use interrex_proto::v1;

use crate::runtime::handle::{MasterHandle, MasterStatus, Role};

/// Who is in the cluster, who leads, and how this master stands to it.
#[must_use]
pub fn describe(handle: &MasterHandle) -> v1::ClusterResponse {
    let (quarantined, admin) = (handle.view().quarantined(), handle.admin());
    v1::ClusterResponse {
        quarantined_records: quarantined as u64,
        change: admin.half_way().unwrap_or_default(),
        ..answer(&handle.status(), admin.members())
    }
}

fn answer(status: &MasterStatus, members: Vec<MemberStatus>) -> v1::ClusterResponse {
    let leader = status
        .leader
        .as_ref()
        .map(|leader| leader.id.as_str())
        .unwrap_or_default();
    v1::ClusterResponse {
        cluster_id: status.cluster_id.clone(),
        leader: leader.to_owned(),
        epoch: status.epoch.0,
        state: status.recovery.to_owned(),
        masters: masters(status, members, leader),
        answered_by: status.me.id.clone(),
        quarantined_records: 0,
        change: String::new(),
    }
}

/// Addresses come from the election, health and lag from the backend; a master that only one of them knows is
/// listed all the same.
fn masters(
    status: &MasterStatus,
    members: Vec<MemberStatus>,
    leader: &str,
) -> Vec<v1::MasterStatus> {
    let mut by_id: BTreeMap<String, (Option<&MasterInfo>, Option<MemberStatus>)> = BTreeMap::new();
    for master in &status.masters {
        by_id.entry(master.id.clone()).or_default().0 = Some(master);
    }
    // Before a cluster is formed nobody votes, and nobody is a learner.
    let formed = members.iter().any(|member| member.voter);
    for member in members {
        let known = &mut by_id.entry(member.id.clone()).or_default().1;
        // Two nodes of one id: one is being replaced by the other, which is the one to watch.
        if known.as_ref().is_none_or(|known| known.voter) {
            *known = Some(member);
        }
    }
    by_id
        .into_iter()
        .map(|(id, (info, member))| {
            let healthy = member.as_ref().and_then(|m| m.healthy);
            let is_me = id == status.me.id;
            let is_leader = !leader.is_empty() && id == leader;
            let learns = formed && member.as_ref().is_some_and(|m| !m.voter);
            let role = if learns {
                "learner"
            } else {
                role(status, is_me, is_leader, healthy)
            };
            v1::MasterStatus {
                role: role.to_owned(),
                rpc: info
                    .map(|i| i.rpc.clone())
                    .or_else(|| member.as_ref().map(|m| m.rpc.clone()))
                    .unwrap_or_default(),
                rest: info.map(|i| i.rest.clone()).unwrap_or_default(),
                web: info.map(|i| i.web.clone()).unwrap_or_default(),
                healthy: healthy.unwrap_or(is_me || is_leader),
                lag: member.and_then(|m| m.lag),
                id,
            }
        })
        .collect()
}

/// What a master is. Only the leader knows how the others are, so a standby calls them `unknown`.
fn role(
    status: &MasterStatus,
    is_me: bool,
    is_leader: bool,
    healthy: Option<bool>,
) -> &'static str {
    match (is_leader, is_me, healthy) {
        (true, _, _) => "leader",
        (false, true, _) => match status.role {
            Role::Standby | Role::Campaigning | Role::Leading => "standby",
            Role::Recovering => "recovering",
        },
        (false, false, Some(true)) => "standby",
        (false, false, Some(false) | None) => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use interrex_core::ids::Epoch;

    use super::*;

    fn master(id: &str) -> MasterInfo {
        MasterInfo {
            id: id.into(),
            rpc: format!("{id}:7077"),
            ..MasterInfo::default()
        }
    }

    fn member(id: &str, healthy: Option<bool>, lag: Option<u64>) -> MemberStatus {
        MemberStatus {
            id: id.into(),
            rpc: format!("{id}:7077"),
            voter: true,
            healthy,
            lag,
        }
    }

    #[test]
    fn a_leader_shows_who_is_healthy_and_how_far_behind() {
        let status = MasterStatus {
            me: master("m1"),
            role: Role::Leading,
            epoch: Epoch(4),
            leader: Some(master("m1")),
            masters: vec![master("m1"), master("m2")],
            ..MasterStatus::default()
        };
        let members = vec![
            member("m1", Some(true), Some(0)),
            member("m2", Some(true), Some(3)),
            member("m3", Some(false), None),
        ];
        let response = answer(&status, members);
        assert_eq!((response.leader.as_str(), response.epoch), ("m1", 4));
        let seen: Vec<_> = response
            .masters
            .iter()
            .map(|m| (m.id.as_str(), m.role.as_str(), m.healthy, m.lag))
            .collect();
        assert_eq!(
            seen,
            [
                ("m1", "leader", true, Some(0)),
                ("m2", "standby", true, Some(3)),
                ("m3", "unknown", false, None)
            ]
        );
        assert_eq!(response.masters[2].rpc, "m3:7077");
    }

    #[test]
    fn a_master_without_a_vote_is_a_learner_even_while_it_replaces_one_with_a_vote() {
        let status = MasterStatus {
            me: master("m1"),
            leader: Some(master("m1")),
            masters: vec![master("m1")],
            ..MasterStatus::default()
        };
        let learner = MemberStatus {
            voter: false,
            ..member("m2", Some(true), Some(70))
        };
        let roles = |members| {
            let masters = answer(&status, members).masters;
            let seen = masters.into_iter().map(|m| (m.id, m.role, m.lag));
            seen.collect::<Vec<_>>()
        };
        let expected = ("m2".to_owned(), "learner".to_owned(), Some(70));
        let dead = member("m2", Some(false), None);
        let leader = member("m1", Some(true), Some(0));
        for both in [[dead.clone(), learner.clone()], [learner, dead]] {
            let [first, second] = both;
            assert_eq!(roles(vec![leader.clone(), first, second])[1], expected);
        }
    }

    #[test]
    fn a_standby_without_a_leader_still_answers() {
        let status = MasterStatus {
            me: master("m2"),
            masters: vec![master("m1"), master("m2")],
            recovery: "STANDBY",
            ..MasterStatus::default()
        };
        let response = answer(
            &status,
            vec![member("m1", None, None), member("m2", None, None)],
        );
        assert_eq!(
            (response.leader.as_str(), response.state.as_str()),
            ("", "STANDBY")
        );
        let roles: Vec<_> = response
            .masters
            .iter()
            .map(|m| (m.role.as_str(), m.healthy))
            .collect();
        assert_eq!(roles, [("unknown", false), ("standby", true)]);
    }
}
