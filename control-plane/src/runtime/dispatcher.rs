//! Effect → frame → the session of its receiver. Losing one is no fault: it is derived again from the records.

use std::sync::Arc;

use interrex_core::{
    effect::{AppNotice, Effect, WorkerOrder},
    ids::{AppId, Epoch, WorkerId},
    leader::Reregister,
    state::executor::Executor,
};
use interrex_persistence::kill_point::KillPoint;
use interrex_proto::{
    trace::Traceparent,
    v1::{self, master_frame::Body},
};

use crate::{
    edge::status::executor_info,
    messages::{addresses_message, command_line_message, driver_spec_message},
    runtime::{
        peers::{Peer, Peers},
        view::ClusterView,
    },
};

/// Sends what one leadership orders; its epoch is on every frame.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    epoch: Epoch,
    peers: Arc<Peers>,
}

// === impl Dispatcher ===

impl Dispatcher {
    pub(crate) fn new(epoch: Epoch, peers: Arc<Peers>) -> Self {
        Self { epoch, peers }
    }

    /// Puts an effect into its receiver's queue, or counts it as dropped. Never waits. `place`: where an order stands in its
    /// submission's trace.
    pub(crate) fn send(&self, effect: Effect, view: &ClusterView, place: Option<&Traceparent>) {
        if effect.launches_driver() {
            KillPoint::LeadingBeforeSend.reach();
        }
        let (peer, mut body) = match effect {
            Effect::Worker { worker, order } => (Peer::Worker(worker), order_body(order)),
            Effect::App { app, notice } => {
                let body = notice_body(&app, notice, view);
                (Peer::App(app), body)
            }
        };
        if let (Body::LaunchDriver(order), Some(place)) = (&mut body, place) {
            place.as_str().clone_into(&mut order.traceparent);
        }
        self.put(&peer, body);
    }

    /// Asks a worker to register again.
    pub(crate) fn reregister(&self, worker: WorkerId, reason: Reregister) {
        metrics::counter!("interrex_reregistrations_asked_total", "reason" => reason.name())
            .increment(1);
        if reason == Reregister::Differs {
            tracing::warn!(
                epoch = self.epoch.0,
                %worker,
                "a worker runs something else than is recorded: asked for its full report"
            );
        }
        let body = Body::Reregister(v1::Reregister {
            reason: reason.words().to_owned(),
        });
        self.put(&Peer::Worker(worker), body);
    }

    fn put(&self, peer: &Peer, body: Body) {
        let kind = body.kind();
        if !self.peers.send_to(peer, self.epoch, body) {
            metrics::counter!("interrex_effects_dropped_total", "kind" => kind).increment(1);
            tracing::debug!(
                epoch = self.epoch.0,
                ?peer,
                kind,
                "receiver is away: dropped"
            );
        }
    }
}

/// An order as a frame.
#[must_use]
pub fn order_body(order: WorkerOrder) -> Body {
    match order {
        WorkerOrder::LaunchDriver {
            driver,
            attempt,
            spec,
            resources,
        } => Body::LaunchDriver(v1::LaunchDriver {
            driver_id: driver.to_string(),
            attempt: attempt.0,
            spec: Some(driver_spec_message(&spec)),
            resources: addresses_message(&resources),
            traceparent: String::new(),
        }),
        WorkerOrder::KillDriver { driver, attempt } => Body::KillDriver(v1::KillDriver {
            driver_id: driver.to_string(),
            attempt: attempt.0,
        }),
        WorkerOrder::LaunchExecutor {
            app,
            executor,
            app_name,
            profile,
            command,
            cores,
            memory,
            resources,
        } => Body::LaunchExecutor(v1::LaunchExecutor {
            app_id: app.to_string(),
            executor_id: executor.0,
            app_name,
            resource_profile: profile.0,
            command: Some(command_line_message(&command)),
            cores: cores.0,
            memory_mib: memory.0,
            resources: addresses_message(&resources),
        }),
        WorkerOrder::KillExecutor { app, executor } => Body::KillExecutor(v1::KillExecutor {
            app_id: app.to_string(),
            executor_id: executor.0,
        }),
        WorkerOrder::Acknowledge { sequences } => Body::ReportAck(v1::ReportAck {
            sequences: sequences.into_iter().map(|sequence| sequence.0).collect(),
        }),
    }
}

/// A notice to an application as a frame; `view` tells where executors are.
#[must_use]
pub fn notice_body(app: &AppId, notice: AppNotice, view: &ClusterView) -> Body {
    let info = |executor: &Executor| Some(executor_info(view, executor));
    match notice {
        AppNotice::ExecutorAdded(executor) => Body::ExecutorAdded(v1::ExecutorAdded {
            executor: info(&executor),
        }),
        AppNotice::ExecutorUpdated(executor) => Body::ExecutorUpdated(v1::ExecutorUpdated {
            executor: info(&executor),
        }),
        AppNotice::WorkerRemoved {
            worker,
            host,
            message,
        } => Body::WorkerRemoved(v1::WorkerRemoved {
            worker_id: worker.to_string(),
            host,
            message,
        }),
        AppNotice::Removed { state, message } => Body::ApplicationRemoved(v1::ApplicationRemoved {
            app_id: app.to_string(),
            state: state.to_owned(),
            message,
        }),
    }
}
