//! One value, written under a fence, with an honest outcome.
//!
//! A write that got no answer is sent again, perhaps to another member, as long as the lease lasts: the place in the
//! log is taken at most once, so a second copy of the same write changes nothing. So neither the death of one member of
//! etcd nor a pause that is shorter than the lease costs the leadership.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use tokio::time::{Instant, sleep};

use super::{
    failure::{CallError, Kind, Refused},
    limits::{ATTEMPT_DEADLINE, CALL_DEADLINE, COMMIT_DEADLINE, RETRY_MIN},
    node::{Fence, Node},
    seat::Held,
};

/// What became of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    Stored,
    /// Surely not written: the leadership is over.
    Fenced,
    /// Surely not written.
    Refused(CallError),
    /// Perhaps written.
    Unknown(CallError),
}

/// Writes on behalf of one leadership.
#[derive(Debug, Clone)]
pub(super) struct Pen {
    pub(super) node: Arc<Node>,
    pub(super) held: Held,
    pub(super) fence: Fence,
}

// === impl Pen ===

impl Pen {
    /// Puts `value` under a key that must not exist yet.
    pub(super) async fn put_fresh(&self, op: &'static str, key: String, value: Vec<u8>) -> Outcome {
        let absent = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
        let put = TxnOp::put(key.clone(), value.clone(), None);
        match self.carry_out(op, vec![absent], vec![put]).await {
            (Outcome::Fenced, Some(earlier)) => self.read_back(key, &value, earlier).await,
            (outcome, _) => outcome,
        }
    }

    /// Does what may be done twice.
    pub(super) async fn repeatable(&self, op: &'static str, then: Vec<TxnOp>) -> Outcome {
        self.carry_out(op, Vec::new(), then).await.0
    }

    /// Until when this leadership may write.
    fn deadline(&self, began: Instant) -> Instant {
        (began + COMMIT_DEADLINE).min(self.held.lease.good_until())
    }

    /// Sends until there is an answer; with `Fenced`, the earlier try that may have been carried out.
    async fn carry_out(
        &self,
        op: &'static str,
        also: Vec<Compare>,
        then: Vec<TxnOp>,
    ) -> (Outcome, Option<CallError>) {
        let mut when = self.fence.compares(&self.node.keys);
        when.extend(also);
        let txn = Txn::new().when(when).and_then(then);
        let began = Instant::now();
        let mut unsure = None;
        loop {
            let deadline = self.deadline(began).min(Instant::now() + ATTEMPT_DEADLINE);
            let failed = match self.node.txn(op, deadline, txn.clone()).await {
                Ok(done) if done.succeeded => return (Outcome::Stored, unsure),
                Ok(_) => return (Outcome::Fenced, unsure),
                Err(error) => error,
            };
            self.node.note_space(&failed);
            let hopeless = match failed.kind {
                Kind::Refused(Refused::NoLeader) | Kind::Unsent | Kind::Unknown => false,
                Kind::Refused(Refused::NoSpace | Refused::Compacted | Refused::Other) => true,
            };
            let maybe_done = failed.maybe_done();
            let over = Instant::now() + RETRY_MIN >= self.deadline(began)
                || self.held.leadership.lost.is_cancelled();
            if !(hopeless || over) {
                if maybe_done {
                    unsure = Some(failed);
                }
                sleep(RETRY_MIN).await;
                continue;
            }
            let outcome = match unsure {
                Some(earlier) => Outcome::Unknown(earlier),
                None if maybe_done => Outcome::Unknown(failed),
                None => Outcome::Refused(failed),
            };
            return (outcome, None);
        }
    }

    /// The place is taken, or the leadership over: by the earlier try, or before it?
    async fn read_back(&self, key: String, value: &[u8], earlier: CallError) -> Outcome {
        let read = self
            .node
            .link
            .call(
                "read",
                Instant::now() + CALL_DEADLINE,
                |mut client| async move { client.get(key, None).await },
            )
            .await;
        match read.as_ref().map(|found| found.kvs().first()) {
            Ok(Some(kv)) if kv.value() == value => Outcome::Stored,
            // Somebody else's: then the earlier try came too late for this place.
            Ok(Some(_)) => Outcome::Fenced,
            Ok(None) | Err(_) => Outcome::Unknown(earlier),
        }
    }
}
