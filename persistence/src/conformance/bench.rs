//! A fixture, with what its store has promised so far.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use futures::future::select_all;
use tokio::time::{Instant, sleep, timeout_at};

use super::{Fixture, Stop};
use crate::{
    backend::Backend,
    election::Leadership,
    epoch::{CommitSeq, Epoch},
    error::CommitError,
    record::{CommitBatch, Mutation, RecordKey, RecordKind, Recovered},
};

/// Within this time a store whose masters run must have a leader that can write.
const LEADER_DEADLINE: Duration = Duration::from_secs(30);
/// Pause after a passing fault.
const RETRY: Duration = Duration::from_millis(20);

/// A store under test, and the records that it has acknowledged.
#[derive(Debug)]
pub struct Bench<F> {
    /// The store.
    pub fixture: F,
    model: BTreeMap<RecordKey, Bytes>,
}

/// A master that leads, with its epoch open.
#[derive(Debug, Clone)]
pub struct Led {
    /// Which master.
    pub n: usize,
    /// Its backend.
    pub backend: Backend,
    /// Its leadership.
    pub leadership: Leadership,
    /// What `open_epoch` gave.
    pub recovered: Recovered,
}

/// A key of the suite.
#[must_use]
pub fn key(id: &str) -> RecordKey {
    RecordKey {
        kind: RecordKind(1),
        id: id.into(),
    }
}

/// Stores `value` under `key(id)`.
pub fn put(id: &str, value: impl Into<Bytes>) -> Mutation {
    Mutation::Put {
        key: key(id),
        value: value.into(),
    }
}

/// Removes `key(id)`.
#[must_use]
pub fn delete(id: &str) -> Mutation {
    Mutation::Delete { key: key(id) }
}

// === impl Bench ===

impl<F: Fixture> Bench<F> {
    /// An empty store.
    pub async fn new() -> Self {
        Self {
            fixture: F::fresh().await,
            model: BTreeMap::new(),
        }
    }

    /// Lets all running masters campaign until one leads and has opened its epoch.
    ///
    /// # Panics
    /// When there is no leader in 30 s.
    pub async fn lead(&self) -> Led {
        let all: Vec<usize> = (0..self.fixture.masters()).collect();
        self.lead_among(&all).await
    }

    /// Like [`lead`](Self::lead), but only `masters` campaign.
    ///
    /// # Panics
    /// When there is no leader in 30 s.
    pub async fn lead_among(&self, masters: &[usize]) -> Led {
        let deadline = Instant::now() + LEADER_DEADLINE;
        loop {
            match timeout_at(deadline, self.try_lead(masters)).await {
                Ok(Ok(led)) => return led,
                Ok(Err(_passing)) => sleep(RETRY).await,
                Err(_late) => panic!("liveness: no master led within {LEADER_DEADLINE:?}"),
            }
        }
    }

    async fn try_lead(&self, masters: &[usize]) -> Result<Led, String> {
        let campaign = async |n: usize, backend: Backend| {
            let outcome = backend.election.campaign(&self.fixture.me(n)).await;
            (n, backend, outcome)
        };
        let running = masters
            .iter()
            .filter_map(|n| Some((*n, self.fixture.backend(*n)?)));
        let campaigns = running.map(|(n, backend)| Box::pin(campaign(n, backend)));
        let ((n, backend, outcome), _, others) = select_all(campaigns).await;
        drop(others);
        let leadership = outcome.map_err(|error| error.to_string())?;
        let epoch = leadership.epoch;
        loop {
            match backend.engine.open_epoch(epoch).await {
                Ok(recovered) => {
                    return Ok(Led {
                        n,
                        backend,
                        leadership,
                        recovered,
                    });
                }
                Err(CommitError::Fenced { current }) => return Err(format!("fenced by {current}")),
                Err(error) if leadership.lost.is_cancelled() => return Err(error.to_string()),
                Err(_passing) => sleep(RETRY).await,
            }
        }
    }

    /// Commits until it is acknowledged, with a new leadership where the old one ended, and remembers it.
    /// `mutations` must be such that storing them twice is storing them once.
    ///
    /// # Panics
    /// When the store does not take it in 30 s.
    pub async fn commit(&mut self, led: &mut Led, mutations: Vec<Mutation>) -> CommitSeq {
        let deadline = Instant::now() + LEADER_DEADLINE;
        let seq = loop {
            match led.commit(mutations.clone()).await {
                Ok(seq) => break seq,
                Err(error) if Instant::now() > deadline => {
                    panic!("liveness: no commit within {LEADER_DEADLINE:?}: {error}")
                }
                Err(_ended) => *led = self.lead().await,
            }
        };
        self.remember(&mutations);
        seq
    }

    /// Remembers mutations that were acknowledged.
    pub fn remember(&mut self, mutations: &[Mutation]) {
        for mutation in mutations.iter().cloned() {
            match mutation {
                Mutation::Put { key, value } => drop(self.model.insert(key, value)),
                Mutation::Delete { key } => drop(self.model.remove(&key)),
            }
        }
    }

    /// Ends all masters, and opens them again.
    pub async fn restart(&mut self, how: Stop) {
        for n in 0..self.fixture.masters() {
            self.fixture.stop(n, how).await;
        }
        for n in 0..self.fixture.masters() {
            self.fixture.start(n).await;
        }
    }

    /// What was read back is exactly what was acknowledged.
    ///
    /// # Panics
    /// When it is not; `promise` says what that breaks.
    pub fn expect_kept(&self, recovered: &Recovered, promise: &str) {
        let found: Vec<_> = recovered
            .records
            .iter()
            .map(|(key, value)| (key, value))
            .collect();
        let expected: Vec<_> = self.model.iter().collect();
        let keys = |list: &[(&RecordKey, &Bytes)]| -> Vec<String> {
            list.iter()
                .map(|(key, value)| format!("{}:{}B", key.id, value.len()))
                .collect()
        };
        assert!(
            found == expected,
            "{promise}: found {:?}, acknowledged were {:?}",
            keys(&found),
            keys(&expected)
        );
    }
}

// === impl Led ===

impl Led {
    /// The epoch it leads in.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.leadership.epoch
    }

    /// Commits once.
    ///
    /// # Errors
    /// Those of the engine.
    pub async fn commit(&self, mutations: Vec<Mutation>) -> Result<CommitSeq, CommitError> {
        self.backend
            .engine
            .commit(CommitBatch {
                epoch: self.epoch(),
                mutations,
            })
            .await
    }
}
