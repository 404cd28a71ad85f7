//! The calls a client can make. Mutations take the caller's request id: keep it, and repeat with it.

use std::{sync::Arc, time::Duration};

use interrex_proto::{
    credentials::MasterChannel,
    limits,
    v1::{
        AddMasterRequest, AddMasterResponse, ApplicationStatus, ClearCompletedRequest,
        ClearCompletedResponse, ClusterRequest, ClusterResponse, DrainWorkersRequest,
        DrainWorkersResponse, DriverSpec, DriverStatus, ExplainRequest, ExplainResponse,
        KillAllRequest, KillAllResponse, KillRequest, KillResponse, ListKind, ListRequest,
        ListResponse, RemoveMasterRequest, RemoveMasterResponse, StatusRequest, StatusResponse,
        SubmitRequest, SubmitResponse, TransferLeaderRequest, TransferLeaderResponse,
        UndrainWorkersRequest, UndrainWorkersResponse, WaitRequest, WorkerStatus,
        control_client::ControlClient as GrpcClient,
    },
};
use tokio::time::Instant;
use tonic::Request;

use super::{
    call::{Caller, Policy},
    error::ClientError,
    options::{ClientOptions, OptionsError},
};

/// Longest server-side wait asked for in one `Wait` call: short enough that a silent leader is noticed.
const WAIT_SLICE: Duration = Duration::from_secs(15);
/// How long a server-side wait is left alone before other masters are asked who leads now.
const WAIT_HEDGE: Duration = Duration::from_secs(2);
/// How often a long wait asks who the masters are.
const WAIT_LEARN_INTERVAL: Duration = Duration::from_secs(60);
/// Pause after a server-side wait that came back early, in case a master answers without waiting.
const WAIT_PAUSE: Duration = Duration::from_millis(100);
/// Most entries gathered by [`ControlClient::list`].
const LIST_ENTRIES_MAX: usize = 1_000_000;
/// How long such a call is left alone before other masters are asked who leads now.
const MEMBERSHIP_HEDGE: Duration = Duration::from_secs(5);
/// How long one call that changes the masters may take: longer than the leader works on it.
const MEMBERSHIP_ATTEMPT: Duration = Duration::from_secs(65);
/// How long the leader itself is asked for the cluster's picture, when another master has answered.
const LEADER_PICTURE_TIMEOUT: Duration = Duration::from_secs(1);

/// Talks to the cluster. Clones share connections and what is known of the masters.
#[derive(Debug, Clone)]
pub struct ControlClient {
    pub(super) caller: Arc<Caller>,
}

/// All pages of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// Drivers, where drivers were asked for.
    pub drivers: Vec<DriverStatus>,
    /// Applications, where applications were asked for.
    pub applications: Vec<ApplicationStatus>,
    /// Workers, where workers were asked for.
    pub workers: Vec<WorkerStatus>,
    /// There are more than one list may gather (a million).
    pub truncated: bool,
}

// === impl ControlClient ===

/// # Cancel safety
/// A mutation dropped before it returns may have had its effect; repeat it with the same request id.
impl ControlClient {
    /// A client; nothing is dialled before the first call.
    ///
    /// # Errors
    /// [`OptionsError`] when the options are bad.
    pub fn new(options: ClientOptions) -> Result<Self, OptionsError> {
        Ok(Self {
            caller: Arc::new(Caller::new(options)?),
        })
    }

    /// Submits a driver under `request_id`, which is also its submission id. Repeating it is safe.
    ///
    /// # Errors
    /// [`ClientError`]; `Conflict` when the id was used for another driver.
    pub async fn submit(
        &self,
        request_id: &str,
        spec: DriverSpec,
    ) -> Result<SubmitResponse, ClientError> {
        let request = SubmitRequest {
            request_id: request_id.to_owned(),
            spec: Some(spec),
        };
        let submit = |mut c: GrpcClient<MasterChannel>, r| async move { c.submit(r).await };
        self.caller.call(request, self.mutation(), submit).await
    }

    /// Ends a driver (by id or submission id) or an application. Repeating it is safe.
    ///
    /// # Errors
    /// [`ClientError`]; `NotFound` when there is nothing under `id`.
    pub async fn kill(&self, request_id: &str, id: &str) -> Result<KillResponse, ClientError> {
        let request = KillRequest {
            request_id: request_id.to_owned(),
            id: id.to_owned(),
        };
        let kill = |mut c: GrpcClient<MasterChannel>, r| async move { c.kill(r).await };
        self.caller.call(request, self.mutation(), kill).await
    }

    /// Ends all drivers. Repeating it is safe.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn kill_all(&self, request_id: &str) -> Result<KillAllResponse, ClientError> {
        let request = KillAllRequest {
            request_id: request_id.to_owned(),
        };
        let kill_all = |mut c: GrpcClient<MasterChannel>, r| async move { c.kill_all(r).await };
        self.caller.call(request, self.mutation(), kill_all).await
    }

    /// Forgets drivers and applications that are over. Repeating it is safe.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn clear_completed(
        &self,
        request_id: &str,
    ) -> Result<ClearCompletedResponse, ClientError> {
        let request = ClearCompletedRequest {
            request_id: request_id.to_owned(),
        };
        let clear = |mut c: GrpcClient<MasterChannel>, r| async move { c.clear_completed(r).await };
        self.caller.call(request, self.mutation(), clear).await
    }

    /// Empties workers. Repeating it with the same request id is safe, and does not move the deadline.
    ///
    /// # Errors
    /// [`ClientError`]; `NotFound` when the worker that is named is not known, `Refused` when it is dead.
    pub async fn drain_workers(
        &self,
        request: DrainWorkersRequest,
    ) -> Result<DrainWorkersResponse, ClientError> {
        let drain = |mut c: GrpcClient<MasterChannel>, r| async move { c.drain_workers(r).await };
        self.caller.call(request, self.mutation(), drain).await
    }

    /// Lets drained workers have work again. Repeating it is safe.
    ///
    /// # Errors
    /// [`ClientError`]; `NotFound` when the worker that is named is not known.
    pub async fn undrain_workers(
        &self,
        request: UndrainWorkersRequest,
    ) -> Result<UndrainWorkersResponse, ClientError> {
        let undrain =
            |mut c: GrpcClient<MasterChannel>, r| async move { c.undrain_workers(r).await };
        self.caller.call(request, self.mutation(), undrain).await
    }

    /// The status of a driver or application; with `stale_ok` any master may answer from memory.
    ///
    /// # Errors
    /// [`ClientError`]; `NotFound` when there is nothing under `id`.
    pub async fn status(&self, id: &str, stale_ok: bool) -> Result<StatusResponse, ClientError> {
        let request = StatusRequest {
            id: id.to_owned(),
            stale_ok,
        };
        let status = |mut c: GrpcClient<MasterChannel>, r| async move { c.get_status(r).await };
        self.caller.call(request, self.read(stale_ok), status).await
    }

    /// Why a driver or application waits, where it runs or how it ended; what runs on a worker.
    ///
    /// # Errors
    /// [`ClientError`]; `NotFound` when there is nothing under `id`.
    pub async fn explain(&self, id: &str) -> Result<ExplainResponse, ClientError> {
        let request = ExplainRequest { id: id.to_owned() };
        let explain = |mut c: GrpcClient<MasterChannel>, r| async move { c.explain(r).await };
        self.caller.call(request, self.read(false), explain).await
    }

    /// Waits until a driver or application is over, through failovers, for at most `deadline`. Once a leader has
    /// answered, it goes on for `outage_max` while none can be asked; before that, a call's usual deadline holds.
    ///
    /// # Errors
    /// [`ClientError`]; `Timeout` when `deadline` has passed.
    pub async fn wait(
        &self,
        id: &str,
        deadline: Option<Duration>,
    ) -> Result<StatusResponse, ClientError> {
        let began = Instant::now();
        let mut last_answer = None;
        let mut learnt = began;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(ClientError::Timeout {
                    waited: began.elapsed(),
                    outcome_unknown: false,
                });
            }
            let asked = Instant::now();
            // The first question is answered at once: whoever waits at the wrong place is told so.
            let slice = last_answer.map_or(Duration::ZERO, |_| WAIT_SLICE);
            match self.wait_once(id, slice, left).await {
                Ok(status) if status.over => return Ok(status),
                Ok(_) => {
                    let first = last_answer.replace(Instant::now()).is_none();
                    if learnt.elapsed() >= WAIT_LEARN_INTERVAL {
                        // The masters may all be replaced while this waits. Without an answer the old list does.
                        let named = tokio::time::timeout(LEADER_PICTURE_TIMEOUT, self.cluster());
                        drop(named.await);
                        learnt = Instant::now();
                    }
                    if !first && asked.elapsed() < WAIT_PAUSE {
                        tokio::time::sleep(WAIT_PAUSE).await;
                    }
                }
                Err(error)
                    if error.retryable()
                        && last_answer
                            .is_some_and(|at| at.elapsed() < self.caller.options().outage_max) =>
                {
                    tracing::debug!(%error, "still waiting for a leader");
                    tokio::time::sleep(self.caller.options().backoff_max).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Asks once; the leader answers after `slice` if it is not over by then.
    async fn wait_once(
        &self,
        id: &str,
        slice: Duration,
        left: Option<Duration>,
    ) -> Result<StatusResponse, ClientError> {
        let slice = left.unwrap_or(slice).min(slice).min(limits::WAIT_MAX);
        let timeout_ms = u64::try_from(slice.as_millis()).unwrap_or(u64::MAX).max(1);
        let request = WaitRequest {
            id: id.to_owned(),
            timeout_ms,
        };
        let mut policy = self.read(false);
        if !slice.is_zero() {
            policy.hedge = WAIT_HEDGE;
        }
        policy.attempt += slice;
        policy.total = left.unwrap_or(policy.total).min(policy.total) + slice;
        let wait = |mut c: GrpcClient<MasterChannel>, r| async move { c.wait(r).await };
        self.caller.call(request, policy, wait).await
    }

    /// One page of a list, as the request asks for it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn list_page(&self, request: ListRequest) -> Result<ListResponse, ClientError> {
        let policy = self.read(request.stale_ok);
        let list = |mut c: GrpcClient<MasterChannel>, r| async move { c.list(r).await };
        self.caller.call(request, policy, list).await
    }

    /// Every driver, application or worker, in `state` only where one is given. Pages are read one after the
    /// other: what changes meanwhile may be seen in either state.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn list(&self, kind: ListKind, state: Option<&str>) -> Result<Listing, ClientError> {
        let mut all = Listing::default();
        let mut page_token = String::new();
        loop {
            let page = self
                .list_page(ListRequest {
                    kind: kind.into(),
                    page_size: limits::PAGE_SIZE_MAX,
                    page_token: page_token.clone(),
                    state: state.unwrap_or_default().to_owned(),
                    stale_ok: false,
                })
                .await?;
            all.drivers.extend(page.drivers);
            all.applications.extend(page.applications);
            all.workers.extend(page.workers);
            // A token that does not move on would never end.
            if page.next_page_token.is_empty() || page.next_page_token == page_token {
                return Ok(all);
            }
            if all.drivers.len() + all.applications.len() + all.workers.len() >= LIST_ENTRIES_MAX {
                all.truncated = true;
                return Ok(all);
            }
            page_token = page.next_page_token;
        }
    }

    /// The cluster as the leader sees it, or as any master that answers sees it: works without a leader.
    ///
    /// # Errors
    /// [`ClientError`]; `NoLeader` when no master at all could be asked.
    pub async fn cluster(&self) -> Result<ClusterResponse, ClientError> {
        let ask = |mut c: GrpcClient<MasterChannel>, r| async move { c.get_cluster(r).await };
        let mut picture = self
            .caller
            .call(ClusterRequest {}, self.read(true), ask)
            .await?;
        if picture.leader.is_empty() {
            // A master that has just been started, or whose disk has failed, knows least and answers all the same.
            let others = self.caller.masters().into_iter();
            let asked = others.map(|master| {
                let request = ClusterRequest {};
                self.caller
                    .attempt(master, request, LEADER_PICTURE_TIMEOUT, &ask)
            });
            let answers = futures::future::join_all(asked).await;
            let mut answers = answers.into_iter().filter_map(|(_, answer)| answer.ok());
            if let Some(better) = answers.find(|answer| !answer.leader.is_empty()) {
                picture = better;
            }
        }
        if picture.leader.is_empty() || picture.leader == picture.answered_by {
            return Ok(self.noted(picture));
        }
        let Some(leader) = picture
            .masters
            .iter()
            .find(|master| master.id == picture.leader)
        else {
            return Ok(self.noted(picture));
        };
        let rpc = leader.rpc.clone();
        let (_, better) = self
            .caller
            .attempt(rpc, ClusterRequest {}, LEADER_PICTURE_TIMEOUT, &ask)
            .await;
        Ok(self.noted(better.unwrap_or(picture)))
    }

    /// Remembers who the masters are, where somebody leads them: for calls that outlive the list that was given.
    fn noted(&self, picture: ClusterResponse) -> ClusterResponse {
        if !picture.leader.is_empty() {
            let named = picture.masters.iter().map(|master| master.rpc.clone());
            self.caller.learn(named);
        }
        picture
    }

    /// Hands the leadership to master `to`, or to the most up-to-date standby. Not repeated after a lost answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn transfer_leader(
        &self,
        to: Option<&str>,
    ) -> Result<TransferLeaderResponse, ClientError> {
        let request = TransferLeaderRequest {
            to: to.unwrap_or_default().to_owned(),
        };
        let transfer = |mut c: GrpcClient<MasterChannel>, r: Request<_>| async move {
            c.transfer_leader(r).await
        };
        self.caller.call(request, self.once(), transfer).await
    }

    /// Adds a master, or notes that it has moved; waits until it votes. Repeating it is safe, and is what this does
    /// when the leader changes meanwhile, or when catching up takes longer than one call.
    ///
    /// # Errors
    /// [`ClientError`]; `Conflict` when it is refused.
    pub async fn add_master(&self, id: &str, rpc: &str) -> Result<AddMasterResponse, ClientError> {
        let request = AddMasterRequest {
            id: id.to_owned(),
            rpc: rpc.to_owned(),
        };
        let add = |mut c: GrpcClient<MasterChannel>, r| async move { c.add_master(r).await };
        self.caller.call(request, self.membership(), add).await
    }

    /// Removes a master. Not repeated after a lost answer: the second one would be that there is no such master.
    ///
    /// # Errors
    /// [`ClientError`]; `Conflict` when it is refused.
    pub async fn remove_master(&self, id: &str) -> Result<RemoveMasterResponse, ClientError> {
        let request = RemoveMasterRequest { id: id.to_owned() };
        let remove = |mut c: GrpcClient<MasterChannel>, r| async move { c.remove_master(r).await };
        let policy = Policy {
            repeatable: false,
            ..self.membership()
        };
        self.caller.call(request, policy, remove).await
    }

    /// A change of the masters: the leader works on it for up to a minute.
    fn membership(&self) -> Policy {
        Policy {
            attempt: MEMBERSHIP_ATTEMPT,
            hedge: MEMBERSHIP_HEDGE,
            ..self.mutation()
        }
    }

    /// A read; `any_master`: not the leader only.
    pub(super) fn read(&self, any_master: bool) -> Policy {
        Policy {
            repeatable: true,
            mutates: false,
            any_master,
            ..self.once()
        }
    }

    /// A mutation with a request id.
    fn mutation(&self) -> Policy {
        Policy {
            repeatable: true,
            ..self.once()
        }
    }

    /// A mutation without a request id.
    fn once(&self) -> Policy {
        let options = self.caller.options();
        Policy {
            repeatable: false,
            mutates: true,
            any_master: false,
            hedge: options.hedge_after,
            attempt: options.call_timeout,
            total: options.total_deadline,
        }
    }
}
