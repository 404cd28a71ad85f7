//! Scripted masters. A test takes each stream or call from a queue and answers it by hand.

use std::{pin::Pin, time::Duration};

use futures::Stream;
use interrex_client::session::{SessionOptions, SessionTimings};
use interrex_proto::{
    leader_hint::LeaderHint,
    v1::{
        self, MasterAddress, MasterFrame, PeerFrame, control_server, master_frame, peer_frame,
        session_server,
    },
};
use tokio::{
    net::TcpListener,
    sync::{Mutex, mpsc, oneshot},
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::TcpIncoming},
};

/// Longer than anything here takes; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("waited too long for {what}"),
    }
}

/// A master that says what the test tells it to say. Dropping it cuts every connection.
pub(crate) struct FakeMaster {
    pub(crate) address: String,
    streams: Mutex<mpsc::Receiver<FakePeer>>,
    calls: Mutex<mpsc::Receiver<Call>>,
    stop: CancellationToken,
}

/// A stream that a peer has opened.
pub(crate) struct FakePeer {
    inbound: Streaming<PeerFrame>,
    outbound: mpsc::Sender<Result<MasterFrame, Status>>,
}

/// A call that waits for its answer; dropping it makes the call hang until the client gives up.
#[expect(
    clippy::large_enum_variant,
    reason = "a handful of them exist in a test"
)]
pub(crate) enum Call {
    Watch(
        v1::WatchEventsRequest,
        oneshot::Sender<Result<mpsc::Receiver<Result<v1::WatchEventsResponse, Status>>, Status>>,
    ),
    Submit(
        v1::SubmitRequest,
        oneshot::Sender<Result<v1::SubmitResponse, Status>>,
    ),
    Wait(
        v1::WaitRequest,
        oneshot::Sender<Result<v1::StatusResponse, Status>>,
    ),
    Status(
        v1::StatusRequest,
        oneshot::Sender<Result<v1::StatusResponse, Status>>,
    ),
    List(
        v1::ListRequest,
        oneshot::Sender<Result<v1::ListResponse, Status>>,
    ),
    Cluster(oneshot::Sender<Result<v1::ClusterResponse, Status>>),
    Transfer(oneshot::Sender<Result<v1::TransferLeaderResponse, Status>>),
}

#[derive(Clone)]
struct Service {
    streams: mpsc::Sender<FakePeer>,
    calls: mpsc::Sender<Call>,
}

// === impl FakeMaster ===

impl FakeMaster {
    /// A master on a port that the system picks.
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0")
    }

    /// A master at `address`, which another one may have had before.
    pub(crate) fn start_at(address: &str) -> Self {
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (to_streams, streams) = mpsc::channel(16);
        let (to_calls, calls) = mpsc::channel(64);
        let service = Service {
            streams: to_streams,
            calls: to_calls,
        };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        // A runtime of its own: when it goes, every connection is cut, as with a killed process.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let server = Server::builder()
                    .add_service(session_server::SessionServer::new(service.clone()))
                    .add_service(control_server::ControlServer::new(service))
                    .serve_with_incoming(TcpIncoming::from(listener));
                tokio::select! {
                    served = server => served.unwrap(),
                    () = stopped.cancelled() => {}
                }
            });
        });
        Self {
            address,
            streams: Mutex::new(streams),
            calls: Mutex::new(calls),
            stop,
        }
    }

    /// The next stream that a peer opens.
    pub(crate) async fn accept(&self) -> FakePeer {
        within("a stream", async {
            self.streams.lock().await.recv().await.unwrap()
        })
        .await
    }

    /// The next call of a client.
    pub(crate) async fn call(&self) -> Call {
        within("a call", async {
            self.calls.lock().await.recv().await.unwrap()
        })
        .await
    }

    pub(crate) async fn submit(
        &self,
    ) -> (
        v1::SubmitRequest,
        oneshot::Sender<Result<v1::SubmitResponse, Status>>,
    ) {
        match self.call().await {
            Call::Submit(request, answer) => (request, answer),
            _ => panic!("another call than a submission"),
        }
    }

    /// How this master is named in hints.
    pub(crate) fn named(&self, id: &str) -> MasterAddress {
        MasterAddress {
            id: id.into(),
            rpc: self.address.clone(),
            ..MasterAddress::default()
        }
    }
}

impl Drop for FakeMaster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

// === impl FakePeer ===

impl FakePeer {
    pub(crate) async fn recv(&mut self) -> PeerFrame {
        within("a frame", self.inbound.message())
            .await
            .unwrap()
            .expect("the stream has ended")
    }

    pub(crate) async fn body(&mut self) -> peer_frame::Body {
        self.recv().await.body.expect("a body")
    }

    pub(crate) async fn application(&mut self) -> v1::RegisterApplication {
        match self.body().await {
            peer_frame::Body::RegisterApplication(registration) => registration,
            other => panic!("{other:?} instead of a registration"),
        }
    }

    pub(crate) async fn send(&self, epoch: u64, body: master_frame::Body) {
        let frame = MasterFrame {
            epoch,
            body: Some(body),
        };
        within("room for a frame", self.outbound.send(Ok(frame)))
            .await
            .unwrap();
    }

    pub(crate) async fn standby(&self, leader: Option<MasterAddress>) {
        let standby = v1::Standby {
            leader,
            leader_epoch: 0,
            ..v1::Standby::default()
        };
        self.send(0, master_frame::Body::Standby(standby)).await;
    }

    pub(crate) async fn changed(&self, epoch: u64) {
        self.send(
            epoch,
            master_frame::Body::MasterChanged(v1::MasterChanged::default()),
        )
        .await;
    }

    pub(crate) async fn registered(&self, epoch: u64, registered: v1::Registered) {
        self.send(epoch, master_frame::Body::Registered(registered))
            .await;
    }

    /// Reads until the peer closes its side; returns what came before.
    pub(crate) async fn rest(&mut self) -> Vec<PeerFrame> {
        let mut frames = Vec::new();
        while let Some(frame) = within("the end", self.inbound.message())
            .await
            .unwrap_or(None)
        {
            frames.push(frame);
        }
        frames
    }
}

// === impl Service ===

type Frames = Pin<Box<dyn Stream<Item = Result<MasterFrame, Status>> + Send>>;

#[tonic::async_trait]
impl session_server::Session for Service {
    type AttachStream = Frames;

    async fn attach(
        &self,
        request: Request<Streaming<PeerFrame>>,
    ) -> Result<Response<Frames>, Status> {
        let (outbound, frames) = mpsc::channel(64);
        let peer = FakePeer {
            inbound: request.into_inner(),
            outbound,
        };
        self.streams
            .send(peer)
            .await
            .map_err(|_closed| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(frames))))
    }
}

impl Service {
    async fn answer<R>(
        &self,
        call: impl FnOnce(oneshot::Sender<Result<R, Status>>) -> Call,
    ) -> Result<Response<R>, Status> {
        let (answer, answered) = oneshot::channel();
        self.calls
            .send(call(answer))
            .await
            .map_err(|_closed| Status::unavailable("over"))?;
        match answered.await {
            Ok(result) => result.map(Response::new),
            Err(_) => std::future::pending().await,
        }
    }
}

#[tonic::async_trait]
impl control_server::Control for Service {
    async fn submit(
        &self,
        request: Request<v1::SubmitRequest>,
    ) -> Result<Response<v1::SubmitResponse>, Status> {
        self.answer(|answer| Call::Submit(request.into_inner(), answer))
            .await
    }

    async fn wait(
        &self,
        request: Request<v1::WaitRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        self.answer(|answer| Call::Wait(request.into_inner(), answer))
            .await
    }

    async fn get_status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        self.answer(|answer| Call::Status(request.into_inner(), answer))
            .await
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        self.answer(|answer| Call::List(request.into_inner(), answer))
            .await
    }

    async fn get_cluster(
        &self,
        _request: Request<v1::ClusterRequest>,
    ) -> Result<Response<v1::ClusterResponse>, Status> {
        self.answer(Call::Cluster).await
    }

    async fn transfer_leader(
        &self,
        _request: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::TransferLeaderResponse>, Status> {
        self.answer(Call::Transfer).await
    }

    async fn list_events(
        &self,
        _request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        Err(Status::unimplemented("list_events"))
    }

    type WatchEventsStream = ReceiverStream<Result<v1::WatchEventsResponse, Status>>;

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let events = self.answer(|answer| Call::Watch(request.into_inner(), answer));
        Ok(events.await?.map(ReceiverStream::new))
    }

    async fn kill(
        &self,
        _request: Request<v1::KillRequest>,
    ) -> Result<Response<v1::KillResponse>, Status> {
        Err(Status::unimplemented("kill"))
    }

    async fn kill_all(
        &self,
        _request: Request<v1::KillAllRequest>,
    ) -> Result<Response<v1::KillAllResponse>, Status> {
        Err(Status::unimplemented("kill_all"))
    }

    async fn clear_completed(
        &self,
        _request: Request<v1::ClearCompletedRequest>,
    ) -> Result<Response<v1::ClearCompletedResponse>, Status> {
        Err(Status::unimplemented("clear_completed"))
    }

    async fn drain_workers(
        &self,
        _request: Request<v1::DrainWorkersRequest>,
    ) -> Result<Response<v1::DrainWorkersResponse>, Status> {
        Err(Status::unimplemented("drain_workers"))
    }

    async fn undrain_workers(
        &self,
        _request: Request<v1::UndrainWorkersRequest>,
    ) -> Result<Response<v1::UndrainWorkersResponse>, Status> {
        Err(Status::unimplemented("undrain_workers"))
    }

    async fn explain(
        &self,
        _request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        Err(Status::unimplemented("explain"))
    }

    async fn add_master(
        &self,
        _request: Request<v1::AddMasterRequest>,
    ) -> Result<Response<v1::AddMasterResponse>, Status> {
        Err(Status::unimplemented("add_master"))
    }

    async fn remove_master(
        &self,
        _request: Request<v1::RemoveMasterRequest>,
    ) -> Result<Response<v1::RemoveMasterResponse>, Status> {
        Err(Status::unimplemented("remove_master"))
    }
}

/// What a standby answers to a call.
pub(crate) fn not_leader(leader: Option<&FakeMaster>) -> Status {
    let mut status = Status::unavailable("not the leader");
    if let Some(leader) = leader {
        LeaderHint::new(&leader.named("leader"), 5).attach(&mut status);
    }
    status
}

/// A port where connections are accepted (by the kernel) and nothing ever answers.
pub(crate) fn black_hole() -> (String, std::net::TcpListener) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap().to_string(), listener)
}

/// A port where nobody listens.
pub(crate) fn dead_address() -> String {
    black_hole().0
}

/// Timings with which only what masters say can move a session within a test: no retry comes to its help.
pub(crate) fn unhurried() -> SessionTimings {
    let hour = Duration::from_secs(3600);
    SessionTimings {
        open_timeout: hour,
        registration_timeout: hour,
        registration_interval: hour,
        redial_min: hour,
        redial_max: hour,
        ..SessionTimings::default()
    }
}

pub(crate) fn session_options(masters: &[&FakeMaster]) -> SessionOptions {
    SessionOptions {
        masters: masters
            .iter()
            .map(|master| master.address.clone())
            .collect(),
        seed: 1,
        ..SessionOptions::default()
    }
}
