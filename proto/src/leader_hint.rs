//! Who leads, in the metadata of a refused call, both ways.
//!
//! A standby answers `UNAVAILABLE` and says where the leader is, if it knows. The client tries that address
//! next and falls back to its list.

use tonic::{Status, metadata::MetadataMap};

use crate::v1::MasterAddress;

const ID: &str = "interrex-leader-id";
const RPC: &str = "interrex-leader-rpc";
const EPOCH: &str = "interrex-leader-epoch";

/// The leader that the answering master knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderHint {
    /// The leader's id, such as `m2`.
    pub id: String,
    /// Its gRPC address, `host:port`.
    pub rpc: String,
    /// The epoch it leads in, as far as the answering master knows.
    pub epoch: u64,
}

impl LeaderHint {
    /// The hint for a leader at `address`.
    #[must_use]
    pub fn new(address: &MasterAddress, epoch: u64) -> Self {
        Self {
            id: address.id.clone(),
            rpc: address.rpc.clone(),
            epoch,
        }
    }

    /// Writes this hint into the metadata of `status`; a value that is no valid header is left out.
    pub fn attach(&self, status: &mut Status) {
        let map = status.metadata_mut();
        for (key, value) in [(ID, self.id.as_str()), (RPC, self.rpc.as_str())] {
            if let Ok(value) = value.parse() {
                map.insert(key, value);
            }
        }
        map.insert(EPOCH, self.epoch.into());
    }

    /// Reads the hint of a refused call, if it has one.
    #[must_use]
    pub fn read(status: &Status) -> Option<Self> {
        let map = status.metadata();
        let rpc = text(map, RPC)?;
        let epoch = text(map, EPOCH).and_then(|e| e.parse().ok()).unwrap_or(0);
        Some(Self {
            id: text(map, ID).unwrap_or_default(),
            rpc,
            epoch,
        })
    }
}

fn text(map: &MetadataMap, key: &str) -> Option<String> {
    map.get(key)
        .and_then(|v| v.to_str().ok())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_survives_the_way_through_metadata() {
        let hint = LeaderHint {
            id: "m2".into(),
            rpc: "127.0.0.1:7078".into(),
            epoch: 9,
        };
        let mut status = Status::unavailable("not the leader");
        hint.attach(&mut status);
        assert_eq!(LeaderHint::read(&status), Some(hint));
        assert_eq!(LeaderHint::read(&Status::unavailable("no hint")), None);
    }
}
