//! The control keys at one revision: which cluster this is, who leads, who is there.
//!
//! Pure: parsed from what was listed. Whatever is not ours or cannot be read is named, never trusted.

use etcd_client::KeyValue;
use serde::{Deserialize, Serialize};

use super::{identity::Identity, keys::Keys, limits::CONTROL_VALUE_BYTES_MAX};
use crate::{
    election::{LeaderView, MasterInfo},
    epoch::Epoch,
};

/// The layout of keys and values that this version writes and reads.
pub(super) const FORMAT: u32 = 1;

/// The value of the cluster key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClusterValue {
    pub(super) format: u32,
    pub(super) id: String,
}

/// The value of a master's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MasterValue {
    pub(super) info: MasterInfo,
    /// The number of its data directory.
    pub(super) node: u64,
}

/// The value of the leader key: different for every leadership, so that a compare of it means this leadership, even in
/// an etcd whose revisions have begun anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeaderValue {
    pub(super) info: MasterInfo,
    pub(super) node: u64,
    /// Random.
    pub(super) nonce: u64,
    /// What is added to the create-revision to make the epoch.
    pub(super) base: u64,
}

/// The value of the opened key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenedValue {
    pub(super) epoch: u64,
}

/// The leader key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeaderKey {
    pub(super) value: LeaderValue,
    /// The value as it is stored, for compares.
    pub(super) bytes: Vec<u8>,
    pub(super) create_revision: i64,
}

/// The cluster key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterKey {
    pub(super) id: String,
    /// The value as it is stored, for compares.
    pub(super) bytes: Vec<u8>,
}

/// All control keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Control {
    /// Of etcd as a whole, when they were read; 0 before they ever were.
    pub(super) revision: i64,
    pub(super) cluster: Option<ClusterKey>,
    pub(super) leader: Option<LeaderKey>,
    pub(super) heir: Option<String>,
    pub(super) base: u64,
    /// 0 where there is no base key.
    pub(super) base_revision: i64,
    pub(super) opened: Epoch,
    /// Ordered by id.
    pub(super) masters: Vec<MasterValue>,
    /// Why this master must keep away from this etcd.
    pub(super) unfit: Option<String>,
}

// === impl Control ===

impl Control {
    /// Reads the keys of one listing.
    pub(super) fn parse(revision: i64, listed: &[KeyValue], keys: &Keys) -> Self {
        let mut control = Self {
            revision,
            ..Self::default()
        };
        for kv in listed {
            if let Err(reason) = control.take(kv, keys) {
                let key = String::from_utf8_lossy(kv.key());
                control.unfit = Some(format!(
                    "the key {key} in etcd is not one that this program wrote: {reason}"
                ));
            }
        }
        control.masters.sort_by(|a, b| a.info.id.cmp(&b.info.id));
        control
    }

    fn take(&mut self, kv: &KeyValue, keys: &Keys) -> Result<(), String> {
        let (key, value) = (kv.key(), kv.value());
        if value.len() > CONTROL_VALUE_BYTES_MAX {
            return Err(format!(
                "{} bytes, at most {CONTROL_VALUE_BYTES_MAX} are right",
                value.len()
            ));
        }
        if key == keys.cluster().as_bytes() {
            let found: ClusterValue = json(value)?;
            if found.format != FORMAT {
                return Err(format!(
                    "it is in format {}, this program reads format {FORMAT}; use the newer program",
                    found.format
                ));
            }
            self.cluster = Some(ClusterKey {
                id: found.id,
                bytes: value.to_vec(),
            });
        } else if key == keys.leader().as_bytes() {
            self.leader = Some(LeaderKey {
                value: json(value)?,
                bytes: value.to_vec(),
                create_revision: kv.create_revision(),
            });
        } else if key == keys.heir().as_bytes() {
            self.heir = Some(String::from_utf8_lossy(value).into_owned());
        } else if key == keys.base().as_bytes() {
            self.base = json(value)?;
            self.base_revision = kv.mod_revision();
        } else if key == keys.opened().as_bytes() {
            self.opened = Epoch(json::<OpenedValue>(value)?.epoch);
        } else if key.starts_with(keys.masters().as_bytes()) {
            self.masters.push(json(value)?);
        }
        // Anything else is of a later version; it is left alone.
        Ok(())
    }

    /// Finds out whether the master `identity` belongs here; see [`Control::unfit`].
    pub(super) fn judge(&mut self, identity: &Identity, prefix: &str, accept_wiped: bool) {
        if self.unfit.is_some() || identity.cluster_id.is_empty() {
            return;
        }
        let own = &identity.cluster_id;
        self.unfit = match &self.cluster {
            Some(cluster) if cluster.id == *own => None,
            Some(cluster) => Some(format!(
                "{prefix} in etcd belongs to cluster {}, this master to cluster {own}; check --etcd-endpoints and \
                 --etcd-prefix, or give it an empty --data-dir to let it join",
                cluster.id
            )),
            None if accept_wiped => None,
            None => Some(format!(
                "{prefix} in etcd is empty, but this master belongs to cluster {own}: etcd was wiped, or \
                 --etcd-endpoints or --etcd-prefix is wrong; if its records are lost for good, start one master with \
                 --etcd-accept-wiped to found the cluster again"
            )),
        };
    }

    /// What others are told.
    pub(super) fn view(&self, me: &MasterInfo) -> LeaderView {
        let mut masters: Vec<MasterInfo> = self.masters.iter().map(|m| m.info.clone()).collect();
        if let Err(at) = masters.binary_search_by(|m| m.id.cmp(&me.id)) {
            masters.insert(at, me.clone());
        }
        LeaderView {
            leader: self.leader.as_ref().map(|l| l.value.info.clone()),
            epoch: self.epoch(),
            masters,
        }
    }

    /// The largest epoch that is known from etcd.
    pub(super) fn epoch(&self) -> Epoch {
        let led = self.leader.as_ref().map_or(Epoch::ZERO, LeaderKey::epoch);
        led.max(self.opened)
    }

    /// Other masters that are there.
    pub(super) fn others(&self, me: &str) -> impl Iterator<Item = &MasterInfo> {
        let me = me.to_owned();
        self.masters
            .iter()
            .map(|m| &m.info)
            .filter(move |info| info.id != me)
    }
}

// === impl LeaderKey ===

impl LeaderKey {
    /// The epoch of this leadership.
    pub(super) fn epoch(&self) -> Epoch {
        epoch_of(self.value.base, self.create_revision)
    }
}

/// The epoch of a leadership that began at `revision`.
pub(super) fn epoch_of(base: u64, revision: i64) -> Epoch {
    Epoch(base.saturating_add(u64::try_from(revision).unwrap_or(0)))
}

/// The base that a candidate needs, so that its epoch is larger than `floor` whichever revision it wins at.
pub(super) fn base_above(base: u64, revision: i64, floor: Epoch) -> u64 {
    // It wins at `revision + 1` at the earliest.
    base.max(floor.0.saturating_sub(u64::try_from(revision).unwrap_or(0)))
}

fn json<'a, T: Deserialize<'a>>(value: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(cluster: &str) -> Identity {
        let text = format!(r#"{{"format":1,"id":"m1","node":5,"cluster_id":"{cluster}"}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn at(cluster: Option<&str>) -> Control {
        Control {
            cluster: cluster.map(|id| ClusterKey {
                id: id.to_owned(),
                bytes: vec![],
            }),
            ..Control::default()
        }
    }

    fn judged(cluster: Option<&str>, own: &str, accept_wiped: bool) -> Option<String> {
        let mut control = at(cluster);
        control.judge(&identity(own), "/interrex/main", accept_wiped);
        control.unfit
    }

    #[test]
    fn a_master_keeps_away_from_a_store_that_is_not_its_clusters() {
        assert_eq!(judged(None, "", false), None);
        assert_eq!(judged(Some("c1"), "", false), None);
        assert_eq!(judged(Some("c1"), "c1", false), None);
        let foreign = judged(Some("c2"), "c1", true).unwrap();
        assert!(foreign.contains("belongs to cluster c2"), "{foreign}");
        let wiped = judged(None, "c1", false).unwrap();
        assert!(wiped.contains("--etcd-accept-wiped"), "{wiped}");
        assert_eq!(judged(None, "c1", true), None);
    }

    #[test]
    fn an_epoch_is_larger_than_every_earlier_one_whatever_revisions_do() {
        assert_eq!(epoch_of(0, 8), Epoch(8));
        for (base, revision, floor) in [(0, 7, 0), (0, 7, 7), (0, 3, 100), (50, 3, 20), (0, 0, 9)] {
            let raised = base_above(base, revision, Epoch(floor));
            assert!(raised >= base);
            assert!(epoch_of(raised, revision + 1) > Epoch(floor));
        }
        assert_eq!(base_above(0, 7, Epoch(7)), 0);
    }

    #[test]
    fn the_view_has_this_master_even_before_it_is_registered() {
        let me = MasterInfo {
            id: "m2".into(),
            ..MasterInfo::default()
        };
        let master = |id: &str| MasterValue {
            info: MasterInfo {
                id: id.into(),
                ..MasterInfo::default()
            },
            node: 1,
        };
        let mut control = at(None);
        control.masters = vec![master("m1"), master("m3")];
        let ids = |control: &Control| -> Vec<String> {
            control
                .view(&me)
                .masters
                .into_iter()
                .map(|m| m.id)
                .collect()
        };
        assert_eq!(ids(&control), ["m1", "m2", "m3"]);
        control.masters.insert(1, master("m2"));
        assert_eq!(ids(&control), ["m1", "m2", "m3"]);
    }
}
