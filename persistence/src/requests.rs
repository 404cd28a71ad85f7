//! The way to a writer: a task or a thread that owns a store, and is asked one thing after the other.
//!
//! What must never happen: that somebody waits for room in the queue, or takes a request that may have been carried out
//! for one that was not.

use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use crate::{error::CommitError, metrics};

/// An answer to come.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, CommitError>>;

/// The asking end of a writer's queue.
#[derive(Debug)]
pub(crate) struct Requests<R> {
    tx: mpsc::Sender<R>,
    /// What the writer waits for, in words.
    store: &'static str,
}

/// Why the writer was not asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// It was not.
    #[error("the backend is closed")]
    Closed,
    /// It was not.
    #[error("the writer's queue is full ({max} requests); {store} does not keep up")]
    Full {
        /// The length of the queue.
        max: usize,
        /// What the writer waits for.
        store: &'static str,
    },
    /// It may have been.
    #[error("the writer ended before it answered")]
    Ended,
}

// === impl Requests ===

impl<R> Requests<R> {
    /// Requests go into `tx`; their writer waits for `store`.
    pub(crate) fn new(tx: mpsc::Sender<R>, store: &'static str) -> Self {
        Self { tx, store }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// What the writer says; `Rejected` where it was not asked, `Indeterminate` where it ended before it answered.
    ///
    /// # Cancel safety
    /// What was asked is carried out all the same.
    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> R,
    ) -> Result<T, CommitError> {
        let (reply, answer) = oneshot::channel();
        let limit = self.tx.max_capacity();
        metrics::queue(limit.saturating_sub(self.tx.capacity()), limit);
        // Not `send`: a wait for room would have no bound.
        if let Err(error) = self.tx.try_send(request(reply)) {
            let why = match error {
                TrySendError::Full(_) => {
                    metrics::queue_refused();
                    Unanswered::Full {
                        max: limit,
                        store: self.store,
                    }
                }
                TrySendError::Closed(_) => Unanswered::Closed,
            };
            return Err(CommitError::Rejected(Box::new(why)));
        }
        match answer.await {
            Ok(outcome) => outcome,
            Err(_ended) => Err(CommitError::Indeterminate(Box::new(Unanswered::Ended))),
        }
    }

    /// Whether the writer has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.tx.is_closed()
    }

    /// Puts a last request in, when there is room. False: the writer has ended.
    ///
    /// # Cancel safety
    /// Either it is in the queue or it is not.
    pub(crate) async fn send(&self, request: R) -> bool {
        self.tx.send(request).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_not_asked_is_rejected_and_what_was_may_have_happened() {
        let (tx, mut rx) = mpsc::channel::<Reply<u32>>(1);
        let requests = Requests::new(tx, "the disk");
        let served = async {
            let reply = rx.recv().await.unwrap();
            reply.send(Ok(7)).unwrap();
        };
        let (answer, ()) = tokio::join!(requests.ask(|reply| reply), served);
        assert_eq!(answer.unwrap(), 7);

        let ended = async {
            drop(rx.recv().await.unwrap());
        };
        let (answer, ()) = tokio::join!(requests.ask(|reply| reply), ended);
        assert!(matches!(answer, Err(CommitError::Indeterminate(_))));

        let (unread, _nobody) = oneshot::channel();
        assert!(requests.send(unread).await);
        let full = requests.ask(|reply| reply).await.unwrap_err();
        assert!(matches!(full, CommitError::Rejected(_)), "{full}");
        assert!(
            full.to_string().contains("the disk does not keep up"),
            "{full}"
        );

        drop(rx);
        assert!(requests.is_closed());
        let closed = requests.ask(|reply| reply).await.unwrap_err();
        assert!(matches!(closed, CommitError::Rejected(_)), "{closed}");
    }
}
