//! `SubmitDriver`: an accepted driver and the request that remembers it.

use std::sync::Arc;

use crate::{
    ids::{DriverId, Fingerprint, QueuePosition, RequestId},
    spec::DriverSpec,
    state::{
        cluster::ClusterState,
        driver::Driver,
        meta::{Created, Request},
    },
    transition::{Rejection, Reply},
};

// === impl ClusterState ===

impl ClusterState {
    pub(super) fn submit_driver(
        &mut self,
        request: RequestId,
        fingerprint: Fingerprint,
        spec: Arc<DriverSpec>,
    ) -> Reply {
        if let Some(known) = self.requests.get(&request) {
            return match &known.created {
                Created::Driver(id) if known.fingerprint == fingerprint => self.replay_driver(id),
                used @ (Created::Driver(_)
                | Created::App(_)
                | Created::Killed(_)
                | Created::Count(_)) => conflict(request, used),
            };
        }
        if spec.cores.0 == 0 {
            return Reply::Rejected(Rejection::Invalid {
                field: "cores",
                reason: "0; give at least 1".to_owned(),
            });
        }
        let driver = self.new_driver(request.clone(), spec);
        self.put_request(Request {
            id: request,
            fingerprint,
            created: Created::Driver(driver.id.clone()),
            at: self.now,
        });
        self.put_driver(driver.clone());
        Reply::DriverSubmitted {
            driver: Arc::new(driver),
            replayed: false,
        }
    }

    fn replay_driver(&self, id: &DriverId) -> Reply {
        match self.drivers.get(id) {
            Some(driver) => Reply::DriverSubmitted {
                driver: Arc::clone(driver),
                replayed: true,
            },
            // Accepted, over and forgotten: running it again would be the one wrong answer.
            None => not_found(id.to_string()),
        }
    }

    fn new_driver(&mut self, submission: RequestId, spec: Arc<DriverSpec>) -> Driver {
        let mut meta = self.meta.clone();
        let id = format!("driver-{}-{:04}", self.now.compact_utc(), meta.next_driver);
        let queue = meta.next_queue;
        meta.next_driver = meta.next_driver.saturating_add(1);
        meta.next_queue = QueuePosition(queue.0.saturating_add(1));
        self.put_meta(meta);
        Driver::accepted(DriverId::new(id), submission, spec, queue, self.now)
    }
}

pub(super) fn conflict(id: RequestId, used: &Created) -> Reply {
    let created = used.to_string();
    Reply::Rejected(Rejection::Conflict { id, created })
}

pub(super) fn not_found(id: String) -> Reply {
    Reply::Rejected(Rejection::NotFound { id })
}
