//! The header of a snapshot, in every version that was ever written.

use std::{collections::BTreeSet, io};

use serde::{Deserialize, Serialize};

use super::{
    epochs::Epochs,
    snapshot::damage,
    types::{LogId, StoredMembership},
};

/// The version that this build writes, a digit, and the newest that it reads. Version 1 had no epochs, versions 1 and 2
/// no nodes that were left behind.
pub(super) const VERSION: u8 = b'3';

/// What comes before the records.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) last: Option<LogId>,
    pub(super) membership: StoredMembership,
    pub(super) cluster_id: String,
    pub(super) epochs: Epochs,
    pub(super) expelled: BTreeSet<u64>,
}

/// As version 2 wrote it.
#[derive(Debug, Deserialize)]
struct HeaderV2 {
    last: Option<LogId>,
    membership: StoredMembership,
    cluster_id: String,
    epochs: Epochs,
}

/// As version 1 wrote it.
#[derive(Debug, Deserialize)]
struct HeaderV1 {
    last: Option<LogId>,
    membership: StoredMembership,
    cluster_id: String,
}

// === impl Header ===

impl Header {
    /// Reads what a program up to this one has written.
    ///
    /// # Errors
    /// What is wrong with it; a newer version is named.
    pub(super) fn decode(version: u8, bytes: &[u8]) -> io::Result<Self> {
        match version {
            VERSION => postcard::from_bytes(bytes).map_err(damage),
            b'2' => {
                let old: HeaderV2 = postcard::from_bytes(bytes).map_err(damage)?;
                Ok(Self {
                    last: old.last,
                    membership: old.membership,
                    cluster_id: old.cluster_id,
                    epochs: old.epochs,
                    expelled: BTreeSet::new(),
                })
            }
            b'1' => {
                let old: HeaderV1 = postcard::from_bytes(bytes).map_err(damage)?;
                Ok(Self {
                    last: old.last,
                    membership: old.membership,
                    cluster_id: old.cluster_id,
                    epochs: Epochs::default(),
                    expelled: BTreeSet::new(),
                })
            }
            newer if newer.is_ascii_digit() && newer > VERSION => Err(damage(format!(
                "it has format version {}, this program reads up to {}; use the newer program",
                char::from(newer),
                char::from(VERSION)
            ))),
            _ => Err(damage("it does not begin like a snapshot")),
        }
    }
}
