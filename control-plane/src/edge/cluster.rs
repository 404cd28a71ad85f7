//! The cluster as one master sees it. Answers on every master, even while nobody leads.

use std::collections::BTreeMap;

use interrex_persistence::{backend::MemberStatus, election::MasterInfo};
use interrex_proto::v1;

use crate::runtime::handle::{MasterHandle, MasterStatus, Role};

/// Who is in the cluster, who leads, and how this master stands to it.
#[must_use]
pub fn describe(handle: &MasterHandle) -> v1::ClusterResponse {
    let quarantined = handle.view().quarantined();
    v1::ClusterResponse {
        quarantined_records: quarantined as u64,
        ..answer(&handle.status(), handle.admin().members())
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
    for member in members {
        let id = member.id.clone();
        by_id.entry(id).or_default().1 = Some(member);
    }
    by_id
        .into_iter()
        .map(|(id, (info, member))| {
            let healthy = member.as_ref().and_then(|m| m.healthy);
            let is_me = id == status.me.id;
            let is_leader = !leader.is_empty() && id == leader;
            v1::MasterStatus {
                role: role(status, is_me, is_leader, healthy).to_owned(),
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
