//! Makes any engine misbehave on purpose: late, fenced, refused, or silent about what it did.
//!
//! For tests. [`Faults`] is the handle that a test keeps; [`Faults::wrap`] puts it before a backend. A fault is
//! either scripted for the next operation of a kind, or drawn by seed.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::{
    backend::Backend,
    engine::PersistenceEngine,
    epoch::{CommitSeq, Epoch},
    error::CommitError,
    record::{CommitBatch, Recovered},
};

/// What happens to one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It begins late, and is otherwise well.
    Delay(Duration),
    /// Refused as if a larger epoch had been opened.
    Fence,
    /// Refused; surely not written.
    Reject,
    /// The request is lost: `Indeterminate`, and not written.
    LoseRequest,
    /// The answer is lost: `Indeterminate`, and written where the engine accepts it.
    LoseAnswer,
}

/// Which operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// `open_epoch`
    Open,
    /// `commit`
    Commit,
    /// `confirm`
    Confirm,
}

/// How often each fault is drawn, as a probability from 0 to 1; what is left over is no fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRates {
    /// Of [`Fault::Delay`].
    pub delay: f64,
    /// Longest delay that is drawn.
    pub delay_max: Duration,
    /// Of [`Fault::Fence`].
    pub fence: f64,
    /// Of [`Fault::Reject`].
    pub reject: f64,
    /// Of [`Fault::LoseRequest`].
    pub lose_request: f64,
    /// Of [`Fault::LoseAnswer`].
    pub lose_answer: f64,
}

/// The plan, shared by the test and the engines it wraps. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    scripted: BTreeMap<Op, VecDeque<Option<Fault>>>,
    drawn: Option<(StdRng, FaultRates)>,
    injected: u64,
}

/// An engine behind a plan.
#[derive(Debug)]
struct Faulty {
    inner: Arc<dyn PersistenceEngine>,
    faults: Faults,
}

/// The cause that an injected error carries.
#[derive(Debug, thiserror::Error)]
#[error("injected: {0}")]
struct Injected(&'static str);

// === impl Faults ===

impl Faults {
    /// No faults, until some are scripted.
    #[must_use]
    pub fn calm() -> Self {
        Self::default()
    }

    /// Faults for every operation, drawn by `seed`: the same seed and operations give the same faults.
    #[must_use]
    pub fn seeded(seed: u64, rates: FaultRates) -> Self {
        let drawn = Some((StdRng::seed_from_u64(seed), rates));
        Self {
            plan: Arc::new(Mutex::new(Plan {
                drawn,
                ..Plan::default()
            })),
        }
    }

    /// Appends to the script of `op`: one entry for each operation, `None` leaves it alone. Scripted entries come
    /// before drawn ones.
    pub fn script(&self, op: Op, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.plan().scripted.entry(op).or_default().extend(faults);
    }

    /// The next operation of this kind, after those that are scripted already, has `fault`.
    pub fn next(&self, op: Op, fault: Fault) {
        self.script(op, [Some(fault)]);
    }

    /// From now on all is well.
    pub fn stop(&self) {
        let mut plan = self.plan();
        plan.scripted.clear();
        plan.drawn = None;
    }

    /// How many operations had a fault. A test whose faults never struck has shown nothing.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.plan().injected
    }

    /// `backend`, with its engine behind these faults.
    #[must_use]
    pub fn wrap(&self, backend: Backend) -> Backend {
        Backend {
            engine: self.wrap_engine(backend.engine),
            ..backend
        }
    }

    /// `engine` behind these faults.
    #[must_use]
    pub fn wrap_engine(&self, engine: Arc<dyn PersistenceEngine>) -> Arc<dyn PersistenceEngine> {
        Arc::new(Faulty {
            inner: engine,
            faults: self.clone(),
        })
    }

    fn draw(&self, op: Op) -> Option<Fault> {
        let mut plan = self.plan();
        let scripted = plan.scripted.get_mut(&op).and_then(VecDeque::pop_front);
        let fault = match (scripted, &mut plan.drawn) {
            (Some(scripted), _) => scripted,
            (None, Some((rng, rates))) => rates.draw(rng),
            (None, None) => None,
        };
        plan.injected += u64::from(fault.is_some());
        fault
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl FaultRates ===

impl FaultRates {
    fn draw(&self, rng: &mut StdRng) -> Option<Fault> {
        let mut point: f64 = rng.random();
        let delay = self.delay_max.mul_f64(rng.random());
        let faults = [
            (self.delay, Fault::Delay(delay)),
            (self.fence, Fault::Fence),
            (self.reject, Fault::Reject),
            (self.lose_request, Fault::LoseRequest),
            (self.lose_answer, Fault::LoseAnswer),
        ];
        for (rate, fault) in faults {
            if point < rate {
                return Some(fault);
            }
            point -= rate;
        }
        None
    }
}

// === impl Faulty ===

impl Faulty {
    async fn run<T>(
        &self,
        op: Op,
        epoch: Epoch,
        operation: impl Future<Output = Result<T, CommitError>> + Send,
    ) -> Result<T, CommitError> {
        let lost = |what| CommitError::Indeterminate(Box::new(Injected(what)));
        match self.faults.draw(op) {
            None => operation.await,
            Some(Fault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                operation.await
            }
            Some(Fault::Fence) => Err(CommitError::Fenced {
                current: Epoch(epoch.0 + 1),
            }),
            Some(Fault::Reject) => Err(CommitError::Rejected(Box::new(Injected("refused")))),
            Some(Fault::LoseRequest) => Err(lost("the request is lost")),
            Some(Fault::LoseAnswer) => {
                // Whatever it was: the caller will not know.
                drop(operation.await);
                Err(lost("the answer is lost"))
            }
        }
    }
}

#[async_trait]
impl PersistenceEngine for Faulty {
    async fn open_epoch(&self, epoch: Epoch) -> Result<Recovered, CommitError> {
        self.run(Op::Open, epoch, self.inner.open_epoch(epoch))
            .await
    }

    async fn commit(&self, batch: CommitBatch) -> Result<CommitSeq, CommitError> {
        self.run(Op::Commit, batch.epoch, self.inner.commit(batch))
            .await
    }

    async fn confirm(&self, epoch: Epoch) -> Result<(), CommitError> {
        self.run(Op::Confirm, epoch, self.inner.confirm(epoch))
            .await
    }
}
