//! The service `Control`: submissions, kills, status, lists, and the cluster itself.
//!
//! Stateless. What is wrong is refused before it reaches the leader's queue; everything else is the core's to
//! decide. Status and lists are linearizable unless the caller takes stale answers, and "not found" is only
//! ever said after a linearizable read.

use std::{future::Future, sync::Arc, time::Duration};

use interrex_core::{
    command::Command,
    ids::RequestId,
    transition::{Rejection, Reply},
};
use interrex_persistence::error::AdminError;
use interrex_proto::{
    limits::{MESSAGE_BYTES_MAX, WAIT_MAX},
    trace,
    v1::{self, control_server::ControlServer},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tonic::{Request, Response, Status};
use tracing::Instrument;

use super::{deadline, drains, drains::request_key, errors, events, list};
use crate::{
    access::audit,
    edge::{cluster, convert, explain, status, validate},
    metrics::{self, Queue, Source},
    runtime::{handle::MasterHandle, traces, view::ClusterView},
};

/// How often a `Wait` asks the quorum again, so that a leader that was deposed unnoticed does not keep it.
pub const WAIT_RECONFIRM: Duration = Duration::from_secs(2);
/// Longest wait for a transfer of leadership.
pub const TRANSFER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a change of membership (a new master has to catch up).
pub const MEMBERSHIP_TIMEOUT: Duration = Duration::from_secs(60);

/// A submission, as traces name it.
const SUBMIT: &str = "interrex.v1.Control/Submit";

/// Explanations made at a time; each may look at every worker and driver.
pub const EXPLAIN_CONCURRENT_MAX: usize = 2;

/// Answers with a message or a status.
type Answer<T> = Result<Response<T>, Status>;

/// The service.
#[derive(Debug, Clone)]
pub struct Control {
    handle: MasterHandle,
    /// Turns of those who want an explanation.
    explanations: Arc<Semaphore>,
    /// Room for those who follow the event log.
    watchers: Arc<Semaphore>,
}

/// The service, ready to be mounted, with its message bounds.
#[must_use]
pub fn service(handle: MasterHandle) -> ControlServer<Control> {
    let explanations = Arc::new(Semaphore::new(EXPLAIN_CONCURRENT_MAX));
    handle.watch_places(Queue::Explanations, &explanations, EXPLAIN_CONCURRENT_MAX);
    let watchers = Arc::new(Semaphore::new(events::WATCHERS_MAX));
    handle.watch_places(Queue::EventWatchers, &watchers, events::WATCHERS_MAX);
    let control = Control {
        handle,
        explanations,
        watchers,
    };
    ControlServer::new(control)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(usize::MAX)
}

// === impl Control ===

#[tonic::async_trait]
impl v1::control_server::Control for Control {
    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Answer<v1::SubmitResponse> {
        let caller = trace::extract(request.metadata());
        let span = traces::submission(SUBMIT, caller.as_ref());
        observed("Submit", self.do_submit(request).instrument(span)).await
    }

    async fn kill(&self, request: Request<v1::KillRequest>) -> Answer<v1::KillResponse> {
        observed("Kill", self.do_kill(request)).await
    }

    async fn kill_all(&self, request: Request<v1::KillAllRequest>) -> Answer<v1::KillAllResponse> {
        observed("KillAll", async {
            let limit = deadline(request.metadata());
            let request = request_key(request.into_inner().request_id, "kill all", "")?;
            let count = self.counted(Command::KillAllDrivers { request }, limit);
            let count = count.await?;
            Ok(v1::KillAllResponse { drivers: count })
        })
        .await
    }

    async fn clear_completed(
        &self,
        request: Request<v1::ClearCompletedRequest>,
    ) -> Answer<v1::ClearCompletedResponse> {
        observed("ClearCompleted", async {
            let limit = deadline(request.metadata());
            let request = request_key(request.into_inner().request_id, "clear", "")?;
            let count = self.counted(Command::ClearCompleted { request }, limit);
            let count = count.await?;
            Ok(v1::ClearCompletedResponse { removed: count })
        })
        .await
    }

    async fn drain_workers(
        &self,
        request: Request<v1::DrainWorkersRequest>,
    ) -> Answer<v1::DrainWorkersResponse> {
        observed("DrainWorkers", async {
            let limit = deadline(request.metadata());
            let command = drains::drain(request.into_inner())?;
            let workers = self.counted(command, limit).await?;
            Ok(v1::DrainWorkersResponse { workers })
        })
        .await
    }

    async fn undrain_workers(
        &self,
        request: Request<v1::UndrainWorkersRequest>,
    ) -> Answer<v1::UndrainWorkersResponse> {
        observed("UndrainWorkers", async {
            let limit = deadline(request.metadata());
            let command = drains::undrain(request.into_inner())?;
            let workers = self.counted(command, limit).await?;
            Ok(v1::UndrainWorkersResponse { workers })
        })
        .await
    }

    async fn get_status(&self, request: Request<v1::StatusRequest>) -> Answer<v1::StatusResponse> {
        observed("GetStatus", async {
            let limit = deadline(request.metadata());
            let v1::StatusRequest { id, stale_ok } = request.into_inner();
            validate::id("id", &id).map_err(|e| errors::field(&e))?;
            if stale_ok && let Some(found) = status::find(&self.handle.view(), &id) {
                return Ok(v1::StatusResponse {
                    stale: true,
                    ..found
                });
            }
            let view = self.read(limit).await?;
            status::find(&view, &id).ok_or_else(|| not_found(id))
        })
        .await
    }

    async fn wait(&self, request: Request<v1::WaitRequest>) -> Answer<v1::StatusResponse> {
        observed("Wait", self.do_wait(request)).await
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Answer<v1::ListResponse> {
        observed("List", async {
            let limit = deadline(request.metadata());
            let request = request.into_inner();
            let view = match request.stale_ok && !self.handle.view().is_empty() {
                true => self.handle.view(),
                false => self.read(limit).await?,
            };
            list::page(&view, &request)
        })
        .await
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Answer<v1::ExplainResponse> {
        observed("Explain", self.do_explain(request)).await
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Answer<v1::ListEventsResponse> {
        observed("ListEvents", async {
            let view = self.read(deadline(request.metadata())).await?;
            events::page(&view, request.into_inner())
        })
        .await
    }

    type WatchEventsStream = events::Events;

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Answer<events::Events> {
        observed("WatchEvents", async {
            let view = self.read(deadline(request.metadata())).await?;
            let handle = self.handle.clone();
            events::watch(handle, &self.watchers, &view, request.into_inner())
        })
        .await
    }

    async fn get_cluster(&self, _: Request<v1::ClusterRequest>) -> Answer<v1::ClusterResponse> {
        observed("GetCluster", async { Ok(cluster::describe(&self.handle)) }).await
    }

    async fn transfer_leader(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> Answer<v1::TransferLeaderResponse> {
        observed("TransferLeader", async {
            let to = Some(request.into_inner().to).filter(|to| !to.is_empty());
            if let Some(to) = &to {
                validate::id("to", to).map_err(|e| errors::field(&e))?;
            }
            let transfer = self.handle.transfer_leader(to);
            let leader = self.bounded(TRANSFER_TIMEOUT, transfer).await?;
            let epoch = self.handle.epoch_of(&leader).await.0;
            Ok(v1::TransferLeaderResponse { leader, epoch })
        })
        .await
    }

    async fn add_master(
        &self,
        request: Request<v1::AddMasterRequest>,
    ) -> Answer<v1::AddMasterResponse> {
        observed("AddMaster", async {
            let v1::AddMasterRequest { id, rpc } = request.into_inner();
            validate::id("id", &id).map_err(|e| errors::field(&e))?;
            validate::id("rpc", &rpc).map_err(|e| errors::field(&e))?;
            let of = format!("{id} at {rpc}");
            let message = self.administer(MEMBERSHIP_TIMEOUT, |a| async move {
                a.add_master(id, rpc).await
            });
            let message = message.await;
            audit::change("add master", &of, &message);
            Ok(v1::AddMasterResponse { message: message? })
        })
        .await
    }

    async fn remove_master(
        &self,
        request: Request<v1::RemoveMasterRequest>,
    ) -> Answer<v1::RemoveMasterResponse> {
        observed("RemoveMaster", async {
            let id = request.into_inner().id;
            validate::id("id", &id).map_err(|e| errors::field(&e))?;
            self.leave_first(&id).await?;
            let of = id.clone();
            let message =
                self.administer(
                    MEMBERSHIP_TIMEOUT,
                    |a| async move { a.remove_master(id).await },
                );
            let message = message.await;
            audit::change("remove master", &of, &message);
            Ok(v1::RemoveMasterResponse { message: message? })
        })
        .await
    }
}

impl Control {
    async fn do_submit(
        &self,
        request: Request<v1::SubmitRequest>,
    ) -> Result<v1::SubmitResponse, Status> {
        let began = Instant::now();
        let limit = deadline(request.metadata());
        let result = async {
            let v1::SubmitRequest { request_id, spec } = request.into_inner();
            validate::request_id("request_id", &request_id).map_err(|e| errors::field(&e))?;
            traces::named(&request_id);
            let spec =
                convert::driver_spec(spec.unwrap_or_default()).map_err(|e| errors::field(&e))?;
            let command = Command::SubmitDriver {
                request: RequestId::from(request_id),
                fingerprint: convert::driver_fingerprint(&spec),
                spec: Arc::new(spec),
            };
            let reply = self.submit_command(command, limit).await?;
            let Reply::DriverSubmitted { driver, replayed } = reply else {
                return Err(errors::unexpected_reply("Submit"));
            };
            let driver = Some(status::driver_status(&self.handle.view(), &driver, None));
            Ok(v1::SubmitResponse { driver, replayed })
        }
        .await;
        let outcome = match &result {
            Ok(response) if response.replayed => "replayed",
            Ok(_) => "accepted",
            Err(status) => errors::submission_label(status.code()),
        };
        metrics::submission(Source::Grpc, outcome, began.elapsed());
        traces::came_to(outcome);
        result
    }

    async fn do_kill(&self, request: Request<v1::KillRequest>) -> Result<v1::KillResponse, Status> {
        let limit = deadline(request.metadata());
        let v1::KillRequest { request_id, id } = request.into_inner();
        validate::id("id", &id).map_err(|e| errors::field(&e))?;
        let request = request_key(request_id, "kill", &id)?;
        let command = Command::Kill { request, id };
        let reply = self.submit_command(command, limit).await?;
        if let Reply::DriverKilled {
            driver,
            already_over,
        } = reply
        {
            return Ok(v1::KillResponse {
                id: driver.id.to_string(),
                state: driver.state.name().to_owned(),
                message: driver.message.clone(),
                already_over,
            });
        }
        let Reply::AppKilled { app, already_over } = reply else {
            return Err(errors::unexpected_reply("Kill"));
        };
        Ok(v1::KillResponse {
            id: app.id.to_string(),
            state: app.state.name().to_owned(),
            message: app.message.clone(),
            already_over,
        })
    }

    /// Answers when it is over, or as it is when the time has passed; every answer is a linearizable read.
    async fn do_wait(
        &self,
        request: Request<v1::WaitRequest>,
    ) -> Result<v1::StatusResponse, Status> {
        let limit = deadline(request.metadata());
        let v1::WaitRequest { id, timeout_ms } = request.into_inner();
        validate::id("id", &id).map_err(|e| errors::field(&e))?;
        let until = Instant::now() + Duration::from_millis(timeout_ms).min(WAIT_MAX);
        let mut views = self.handle.watch();
        loop {
            views.mark_unchanged();
            let view = self.read(limit).await?;
            let over = status::is_over(&view, &id).ok_or_else(|| not_found(id.clone()))?;
            if over || Instant::now() >= until {
                return status::find(&view, &id).ok_or_else(|| not_found(id));
            }
            let reconfirm = until.min(Instant::now() + WAIT_RECONFIRM);
            let change = views.wait_for(|view| status::is_over(view, &id) != Some(false));
            // A change, the end of the wait and the end of this master all lead to one more read.
            let _woken = tokio::time::timeout_at(reconfirm, change).await.is_ok();
        }
    }

    /// Looks at every worker and driver of a view: on a thread for such work, and for few callers at a time.
    async fn do_explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<v1::ExplainResponse, Status> {
        let limit = deadline(request.metadata());
        let id = request.into_inner().id;
        validate::id("id", &id).map_err(|e| errors::field(&e))?;
        let began = Instant::now();
        let Ok(turn) = timeout(limit, self.explanations.clone().acquire_owned()).await else {
            metrics::refused(Queue::Explanations);
            return Err(Status::resource_exhausted(format!(
                "{EXPLAIN_CONCURRENT_MAX} explanations are being made and others wait; try again"
            )));
        };
        let view = self.read(limit.saturating_sub(began.elapsed())).await?;
        let (now, asked) = (self.handle.now(), id.clone());
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            explain::find(&view, &asked, now)
        });
        match work.await {
            Ok(found) => found.ok_or_else(|| not_found(id)),
            Err(error) => Err(Status::internal(format!("the explanation failed: {error}"))),
        }
    }

    /// A leader that is to be removed hands over in order first; then its heir is to be asked.
    async fn leave_first(&self, id: &str) -> Result<(), Status> {
        let members = self.handle.admin().members();
        let others = members.iter().any(|m| m.voter && m.id != id);
        if self.handle.status().me.id != id || self.handle.port().is_err() || !others {
            return Ok(());
        }
        let transfer = self.handle.transfer_leader(None);
        let leader = self.bounded(TRANSFER_TIMEOUT, transfer).await?;
        let _heard_of = self.handle.epoch_of(&leader).await;
        Err(errors::admin(&AdminError::NotLeader, &self.handle.status()))
    }

    async fn counted(&self, command: Command, limit: Duration) -> Result<u32, Status> {
        let reply = self.submit_command(command, limit).await?;
        let Reply::Count(count) = reply else {
            return Err(errors::unexpected_reply("something that is counted"));
        };
        Ok(count)
    }

    async fn submit_command(&self, command: Command, limit: Duration) -> Result<Reply, Status> {
        self.handle
            .submit(command, limit)
            .await
            .map_err(|e| errors::request(&e))
    }

    async fn read(&self, limit: Duration) -> Result<Arc<ClusterView>, Status> {
        self.handle
            .read(limit)
            .await
            .map_err(|e| errors::request(&e))
    }

    async fn administer<F>(
        &self,
        limit: Duration,
        action: impl FnOnce(Arc<dyn interrex_persistence::backend::BackendAdmin>) -> F,
    ) -> Result<String, Status>
    where
        F: Future<Output = Result<String, interrex_persistence::error::AdminError>>,
    {
        self.bounded(limit, action(self.handle.admin())).await
    }

    async fn bounded(
        &self,
        limit: Duration,
        change: impl Future<Output = Result<String, interrex_persistence::error::AdminError>>,
    ) -> Result<String, Status> {
        match timeout(limit, change).await {
            Ok(result) => result.map_err(|e| errors::admin(&e, &self.handle.status())),
            Err(_elapsed) => Err(Status::deadline_exceeded(format!(
                "not finished within {} s; ask for the cluster's status",
                limit.as_secs()
            ))),
        }
    }
}

/// Runs a call and counts it.
async fn observed<T>(
    method: &'static str,
    call: impl Future<Output = Result<T, Status>>,
) -> Answer<T> {
    let began = Instant::now();
    let result = call.await;
    let code = result
        .as_ref()
        .map_or_else(Status::code, |_| tonic::Code::Ok);
    metrics::grpc_handled(method, code, began.elapsed());
    result.map(Response::new)
}

fn not_found(id: String) -> Status {
    errors::rejection(&Rejection::NotFound { id })
}
