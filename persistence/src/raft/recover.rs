//! Making a cluster of one out of a survivor, when a quorum is lost for good.
//!
//! Offline, on the survivor's data directory: two entries are appended to its log, one that makes it the only member and
//! one that expels the others, in a term far beyond any that the others can have reached. A crash on the way leaves the
//! directory as it was. What must never happen: that this is done to a cluster that still has, or can have, a quorum.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use interrex_proto::{channel::Dialler, credentials::Credentials, v1::HelloRequest};
use openraft::{Membership, entry::RaftEntry};

use super::{
    identity::{DataDir, Identity},
    log_store::LogStore,
    meter::Meter,
    network::Peers,
    options::SnapshotBounds,
    snapshot::{Image, Snapshots},
    types::{LogEntry, LogId, NodeInfo, Payload, StoredMembership, leader_of},
};
use crate::error::OpenError;

/// How far the new term is beyond the survivor's: the others, should they come back, cannot have come that far.
const TERMS_AHEAD: u64 = 1000;
/// Entries that are read at once.
const READ_ENTRIES: u64 = 1024;
/// How long another master's answer is waited for.
const HELLO_DEADLINE: Duration = Duration::from_secs(2);

/// A data directory whose master does not run, and what is in it.
#[derive(Debug)]
pub struct Survivor {
    identity: Identity,
    log: LogStore,
    image: Image,
    membership: StoredMembership,
    last: Option<LogId>,
    term: u64,
    // Released last.
    _dir: DataDir,
}

/// Another master of the cluster as the survivor knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Its id.
    pub id: String,
    /// Where it was.
    pub rpc: String,
    /// Whether it votes.
    pub voter: bool,
    /// Whether it has answered as the member that it was.
    pub answers: bool,
}

/// Why a cluster is not recovered. Nothing has been changed then, but for `Io`.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The directory cannot be used: in use, damaged, or not a master's.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It would harm.
    #[error("{0}")]
    Refused(String),
    /// The log could not be written.
    #[error("writing the log: {0}")]
    Io(#[source] std::io::Error),
}

// === impl Survivor ===

impl Survivor {
    /// Locks and reads the data directory. Blocks.
    ///
    /// # Errors
    /// `Open` while its master runs, or where it cannot be read; `Refused` where there is nothing to recover.
    pub fn open(path: &Path) -> Result<Self, RecoverError> {
        if !path.is_dir() {
            return Err(RecoverError::Refused(format!(
                "{} is not a directory",
                path.display()
            )));
        }
        let dir = DataDir::lock(path)?;
        let identity = dir.known_identity()?;
        let (snapshots, image) = Snapshots::open(&path.join("snapshots"))?;
        drop(snapshots);
        let bounds = SnapshotBounds::default();
        let log = LogStore::open(&path.join("log"), &bounds, Arc::new(Meter::default()))?;
        let mut survivor = Self {
            identity,
            log,
            image: image.unwrap_or_default(),
            membership: StoredMembership::default(),
            last: None,
            term: 0,
            _dir: dir,
        };
        survivor.read(path)?;
        Ok(survivor)
    }

    /// Reads the membership and the end of the log: all of it counts, since nobody can tell any more what a quorum had.
    fn read(&mut self, path: &Path) -> Result<(), RecoverError> {
        let failed = |source| OpenError::Io {
            path: PathBuf::from(path),
            source,
        };
        self.membership = self.image.membership.clone();
        self.last = self.image.last;
        let (state, voted) = self.log.ends().map_err(failed)?;
        self.last = self.last.max(state);
        self.term = voted.max(self.last.map_or(0, |last| *last.leader_id));
        let mut at = self.image.last.map_or(0, |last| last.index + 1);
        while self.last.is_some_and(|last| at <= last.index) {
            let entries = self.log.entries(at, at + READ_ENTRIES).map_err(failed)?;
            let Some(end) = entries.last().map(|entry| entry.log_id.index) else {
                break;
            };
            for entry in entries {
                if let Payload::Membership(membership) = entry.payload {
                    self.membership = StoredMembership::new(Some(entry.log_id), membership);
                }
            }
            at = end + 1;
        }
        if self.membership.nodes().next().is_none() {
            return Err(RecoverError::Refused(format!(
                "{} has never been part of a cluster: there is nothing to recover",
                path.display()
            )));
        }
        if self.own().is_none() {
            return Err(RecoverError::Refused(format!(
                "{} was removed from its cluster, and may lack what came afterwards; recover another master",
                self.identity.id
            )));
        }
        Ok(())
    }

    /// This master's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.identity.id
    }

    /// The cluster's id; empty where this master has not learnt it.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        match self.image.cluster_id.as_str() {
            "" => &self.identity.cluster_id,
            known => known,
        }
    }

    /// The number of the newest entry: of several survivors the one with the largest term, and among those the largest
    /// number, has the most.
    #[must_use]
    pub fn newest_entry(&self) -> u64 {
        self.last.map_or(0, |last| last.index)
    }

    /// The term of the newest entry.
    #[must_use]
    pub fn newest_term(&self) -> u64 {
        self.last.map_or(0, |last| *last.leader_id)
    }

    /// Asks the other members whether they are still there. `moved` says where to ask those that are elsewhere now,
    /// `credentials` what to show them.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn neighbours(
        &self,
        moved: &BTreeMap<String, String>,
        credentials: Credentials,
    ) -> Vec<Neighbour> {
        let peers = Peers::new(
            self.identity.node,
            moved.clone(),
            Dialler::default(),
            credentials,
        );
        let voters: BTreeSet<u64> = self.membership.voter_ids().collect();
        let others = self.membership.nodes();
        let asked = others
            .filter(|(number, _)| **number != self.identity.node)
            .map(|(number, info)| {
                let request = self.hello();
                let (peers, voter) = (&peers, voters.contains(number));
                async move {
                    let rpc = peers.address(*number, info);
                    let answer = peers.hello(&rpc, request, HELLO_DEADLINE).await;
                    Neighbour {
                        id: info.id.clone(),
                        voter,
                        answers: answer.is_ok_and(|answer| answer.node == *number),
                        rpc,
                    }
                }
            });
        join_all(asked).await
    }

    /// Makes this master a cluster of one, which has everything that is in its directory. The others' nodes are refused
    /// from then on. Blocks. Returns the term in which it can lead at the earliest: larger than any before.
    ///
    /// # Errors
    /// `Refused` while `neighbours` are enough to go on with, or where there are none; `Io` when the log cannot be
    /// written.
    pub async fn recover(self, neighbours: &[Neighbour]) -> Result<u64, RecoverError> {
        self.check(neighbours)?;
        let Some(own) = self.own() else {
            return Err(RecoverError::Refused("not a member".to_owned()));
        };
        let me = self.identity.node;
        let expelled: BTreeSet<u64> = self
            .membership
            .nodes()
            .map(|(number, _)| *number)
            .filter(|number| *number != me)
            .collect();
        let alone = Membership::new(vec![BTreeSet::from([me])], BTreeMap::from([(me, own)]))
            .map_err(|error| RecoverError::Refused(error.to_string()))?;
        let term = self.term.saturating_add(TERMS_AHEAD);
        let index = self.last.map_or(0, |last| last.index + 1);
        let entry = |index, payload| {
            let log_id = LogId::new(leader_of(term), index);
            openraft::alias::EntryOf::<super::types::Types>::new(log_id, payload)
        };
        let entries = vec![
            entry(index, Payload::Membership(alone)),
            entry(index + 1, Payload::Normal(LogEntry::Expel(expelled))),
        ];
        self.log
            .append_alone(term, me, entries)
            .await
            .map_err(RecoverError::Io)?;
        self.log.close();
        Ok(term)
    }

    /// Refuses while the cluster can go on, or is this master's alone anyway.
    ///
    /// # Errors
    /// `Refused`, with what to do instead.
    pub fn check(&self, neighbours: &[Neighbour]) -> Result<(), RecoverError> {
        if neighbours.is_empty() {
            return Err(RecoverError::Refused(format!(
                "{} is the only master of its cluster: start it",
                self.identity.id
            )));
        }
        let voters = self.membership.voter_ids().count();
        let alive: Vec<&Neighbour> = neighbours.iter().filter(|n| n.voter && n.answers).collect();
        let needed = voters / 2 + 1;
        if alive.len() + 1 < needed {
            return Ok(());
        }
        let names: Vec<&str> = alive.iter().map(|n| n.id.as_str()).collect();
        Err(RecoverError::Refused(format!(
            "{} of {voters} voting masters are a quorum, and {} answers: the cluster is alive, or is when {} is started \
             again; recovering it would lose what the others have",
            needed,
            names.join(" and "),
            self.identity.id
        )))
    }

    fn own(&self) -> Option<NodeInfo> {
        self.membership
            .nodes()
            .find(|(number, _)| **number == self.identity.node)
            .map(|(_, info)| info.clone())
    }

    fn hello(&self) -> HelloRequest {
        let own = self.own().unwrap_or_default();
        HelloRequest {
            id: self.identity.id.clone(),
            node: self.identity.node,
            peers: [(own.id, own.rpc)].into(),
            cluster_id: self.cluster_id().to_owned(),
            ..HelloRequest::default()
        }
    }
}
