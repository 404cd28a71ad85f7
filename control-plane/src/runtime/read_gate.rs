//! Proves to readers that this master still leads. One question to the quorum answers every read that waits.
//!
//! A read that arrives while a question is under way waits for the next one: its answer must be given after the
//! read began.

use std::{sync::Arc, time::Duration};

use interrex_core::ids::Epoch;
use interrex_persistence::{
    engine::PersistenceEngine, epoch, error::CommitError, kill_point::KillPoint,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    metrics,
    runtime::{error::RequestError, handle::MasterHandle, port::READS_MAX},
};

/// How long one question may take.
pub(crate) const CONFIRM_DEADLINE: Duration = Duration::from_secs(2);

/// Who waits for the word that this master leads.
pub(crate) type Read = oneshot::Sender<Result<(), RequestError>>;

/// The gate of one leadership; ends with it.
#[derive(Debug)]
pub(crate) struct ReadGate {
    pub(crate) epoch: Epoch,
    pub(crate) engine: Arc<dyn PersistenceEngine>,
    pub(crate) handle: MasterHandle,
    pub(crate) reads: mpsc::Receiver<Read>,
    /// Cancelled by the gate when the store says that a larger epoch is open, and by the loop when it ends.
    pub(crate) over: CancellationToken,
}

// === impl ReadGate ===

impl ReadGate {
    pub(crate) async fn run(mut self) {
        let over = self.over.clone();
        let mut waiting = Vec::new();
        loop {
            let served = async {
                let received = self.reads.recv_many(&mut waiting, READS_MAX).await;
                if received > 0 {
                    let confirmed = self.confirm().await;
                    KillPoint::ConfirmedBeforeAnswer.reach();
                    answer(&mut waiting, &confirmed);
                }
                received
            };
            match over.run_until_cancelled(served).await {
                Some(0) | None => break,
                Some(_served) => {}
            }
        }
        self.reads.close();
        while let Some(read) = self.reads.recv().await {
            waiting.push(read);
        }
        answer(&mut waiting, &Err(self.handle.not_leader()));
    }

    async fn confirm(&self) -> Result<(), RequestError> {
        let asked = self.engine.confirm(epoch::Epoch(self.epoch.0));
        match timeout(CONFIRM_DEADLINE, asked).await {
            Ok(Ok(())) => {
                metrics::leader_checked("confirmed");
                Ok(())
            }
            Ok(Err(CommitError::Fenced { current })) => {
                metrics::leader_checked("deposed");
                tracing::warn!(
                    epoch = self.epoch.0,
                    current = current.0,
                    "deposed: a read says so"
                );
                self.over.cancel();
                Err(self.handle.not_leader())
            }
            Ok(Err(error @ CommitError::Rejected(_))) => {
                metrics::leader_checked("deposed");
                tracing::debug!(epoch = self.epoch.0, %error, "leadership was not confirmed");
                Err(self.handle.not_leader())
            }
            Ok(Err(error @ CommitError::Indeterminate(_))) => {
                metrics::leader_checked("unanswered");
                tracing::debug!(epoch = self.epoch.0, %error, "leadership was not confirmed");
                Err(RequestError::DeadlineExceeded {
                    outcome_unknown: false,
                })
            }
            Err(_elapsed) => {
                metrics::leader_checked("unanswered");
                Err(RequestError::DeadlineExceeded {
                    outcome_unknown: false,
                })
            }
        }
    }
}

fn answer(waiting: &mut Vec<Read>, confirmed: &Result<(), RequestError>) {
    for read in waiting.drain(..) {
        if read.send(confirmed.clone()).is_err() {
            tracing::trace!("the reader has gone");
        }
    }
}
