//! A master of a few lines: it takes every worker, acknowledges every report, and orders what a test says.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt};
use interrex_proto::v1::{
    CommandLine, DriverChanged, DriverSpec, HeartbeatAck, LaunchDriver, MasterFrame, PeerFrame,
    ProcessState, Refused, RegisterWorker, Registered, ReportAck, WorkReport, master_frame,
    peer_frame,
    session_server::{Session, SessionServer},
    work_report,
};
use tokio::{net::TcpListener, runtime::Runtime, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming, transport::server::TcpIncoming};

use crate::support::{eventually, soon};

pub(crate) const CLUSTER: &str = "c1";
/// What it gives to what runs at most once.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// What a master has heard, and where it can answer.
#[derive(Clone)]
pub(crate) struct Hears {
    epoch: Arc<AtomicU64>,
    refuses: bool,
    frames: mpsc::Sender<peer_frame::Body>,
    streams: Arc<Mutex<Vec<mpsc::Sender<Result<MasterFrame, Status>>>>>,
}

/// A leader without a memory.
pub(crate) struct Master {
    pub(crate) address: String,
    hears: Hears,
    frames: mpsc::Receiver<peer_frame::Body>,
    kept: Vec<DriverChanged>,
    runtime: Option<Runtime>,
}

#[tonic::async_trait]
impl Session for Hears {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<MasterFrame, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<PeerFrame>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (answers, stream) = mpsc::channel(64);
        self.streams.lock().unwrap().push(answers.clone());
        let (hears, mut frames) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            while let Some(Ok(frame)) = frames.next().await {
                for body in hears.answers(frame.body.as_ref().unwrap()) {
                    let epoch = hears.epoch.load(Ordering::SeqCst);
                    let answer = MasterFrame {
                        epoch,
                        body: Some(body),
                    };
                    drop(answers.send(Ok(answer)).await);
                }
                drop(hears.frames.send(frame.body.unwrap()).await);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

impl Hears {
    fn answers(&self, body: &peer_frame::Body) -> Vec<master_frame::Body> {
        let ack = |sequences| master_frame::Body::ReportAck(ReportAck { sequences });
        match body {
            peer_frame::Body::RegisterWorker(_) if self.refuses => {
                let reason = "this is cluster c2, not c1".to_owned();
                vec![master_frame::Body::Refused(Refused {
                    reason,
                    permanent: true,
                })]
            }
            peer_frame::Body::RegisterWorker(registration) => {
                let mut answers = vec![master_frame::Body::Registered(Registered {
                    cluster_id: CLUSTER.to_owned(),
                    master_id: "m1".to_owned(),
                    heartbeat_interval_ms: 100,
                    at_most_once_lease_ms: u64::try_from(LEASE.as_millis()).unwrap(),
                    ..Registered::default()
                })];
                if !registration.unacknowledged.is_empty() {
                    let sequences = registration
                        .unacknowledged
                        .iter()
                        .map(|report| report.sequence)
                        .collect();
                    answers.push(ack(sequences));
                }
                answers
            }
            peer_frame::Body::Heartbeat(heartbeat) => {
                let sequence = heartbeat.sequence;
                vec![master_frame::Body::HeartbeatAck(HeartbeatAck { sequence })]
            }
            peer_frame::Body::Report(report) => vec![ack(vec![report.sequence])],
            _ => Vec::new(),
        }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Master {
    pub(crate) async fn start(epoch: u64) -> Self {
        Self::listen("127.0.0.1:0", epoch, false).await
    }

    pub(crate) async fn listen(address: &str, epoch: u64, refuses: bool) -> Self {
        let (frames_tx, frames) = mpsc::channel(1_024);
        let hears = Hears {
            epoch: Arc::new(AtomicU64::new(epoch)),
            refuses,
            frames: frames_tx,
            streams: Arc::default(),
        };
        // Of its own, so that it can die with all its connections.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = eventually("the port", || {
            let listener = std::net::TcpListener::bind(address).ok()?;
            listener.set_nonblocking(true).ok()?;
            Some(listener)
        })
        .await;
        let address = listener.local_addr().unwrap().to_string();
        let service = SessionServer::new(hears.clone());
        runtime.spawn(async move {
            let incoming = TcpIncoming::from(TcpListener::from_std(listener).unwrap());
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        Self {
            address,
            hears,
            frames,
            kept: Vec::new(),
            runtime: Some(runtime),
        }
    }

    /// Dies as a killed process does: the port and every connection close.
    pub(crate) fn die(self) -> String {
        self.address.clone()
    }

    pub(crate) async fn order(&self, body: master_frame::Body) {
        let epoch = self.hears.epoch.load(Ordering::SeqCst);
        let stream = self.hears.streams.lock().unwrap().last().unwrap().clone();
        stream
            .send(Ok(MasterFrame {
                epoch,
                body: Some(body),
            }))
            .await
            .unwrap();
    }

    pub(crate) async fn launch(&self, attempt: u32, command: CommandLine) {
        self.launch_spec("d1", attempt, command, false).await;
    }

    /// A driver that may run at most once. The agent does not take it without a lease, so it has to have beaten first.
    pub(crate) async fn launch_once(&mut self, command: CommandLine) {
        let beats = |body| matches!(body, peer_frame::Body::Heartbeat(_)).then_some(());
        self.hear("a heartbeat", beats).await;
        // Its acknowledgement is on its way, and nothing overtakes it there.
        self.launch_spec("d1", 1, command, true).await;
    }

    pub(crate) async fn launch_spec(
        &self,
        driver_id: &str,
        attempt: u32,
        command: CommandLine,
        at_most_once: bool,
    ) {
        let spec = DriverSpec {
            command: Some(command),
            cores: 1,
            memory_mib: 64,
            at_most_once,
            ..DriverSpec::default()
        };
        self.order(master_frame::Body::LaunchDriver(LaunchDriver {
            driver_id: driver_id.to_owned(),
            attempt,
            spec: Some(spec),
            ..LaunchDriver::default()
        }))
        .await;
    }

    pub(crate) async fn hear<T>(
        &mut self,
        what: &str,
        pick: impl Fn(peer_frame::Body) -> Option<T>,
    ) -> T {
        soon(what, async {
            loop {
                if let Some(found) = pick(self.frames.recv().await.unwrap()) {
                    return found;
                }
            }
        })
        .await
    }

    pub(crate) async fn registration(&mut self) -> RegisterWorker {
        self.hear("a registration", |body| match body {
            peer_frame::Body::RegisterWorker(registration) => Some(registration),
            _ => None,
        })
        .await
    }

    /// The next report about `d1` in `state`. Reports about other attempts may come before it or after it, so those
    /// that are passed over here are kept for later calls.
    pub(crate) async fn driver(&mut self, state: ProcessState) -> DriverChanged {
        self.driver_in(&[state]).await
    }

    /// The next report in one of `states`.
    pub(crate) async fn driver_in(&mut self, states: &[ProcessState]) -> DriverChanged {
        let wanted = |driver: &DriverChanged| states.contains(&driver.state());
        if let Some(found) = self.kept.iter().position(wanted) {
            return self.kept.remove(found);
        }
        loop {
            let driver = self
                .hear(&format!("{states:?}"), |body| match body {
                    peer_frame::Body::Report(WorkReport {
                        body: Some(work_report::Body::Driver(driver)),
                        ..
                    }) => Some(driver),
                    _ => None,
                })
                .await;
            if wanted(&driver) {
                return driver;
            }
            self.kept.push(driver);
        }
    }
}
