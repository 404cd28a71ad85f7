//! A peer by hand: says exactly what a test wants said, and shows every frame that comes.

use interrex_control_plane::app::RunningMaster;
use interrex_proto::{
    channel::{ChannelOptions, dial},
    v1::{
        self, MasterFrame, PeerFrame, master_frame, peer_frame::Body, session_client::SessionClient,
    },
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::PATIENCE;

/// One session with one master.
pub(crate) struct Peer {
    frames_out: mpsc::Sender<PeerFrame>,
    frames_in: Streaming<MasterFrame>,
    pub(crate) seen: u64,
}

impl Peer {
    /// Opens a session and says `first`.
    pub(crate) async fn attach(master: &RunningMaster, first: Body) -> Self {
        let channel =
            dial(&master.rpc_addr.to_string(), &ChannelOptions::default()).expect("address");
        let (frames_out, frames) = mpsc::channel(64);
        let first = PeerFrame {
            seen_epoch: 0,
            body: Some(first),
        };
        frames_out.send(first).await.expect("room");
        let frames_in = SessionClient::new(channel)
            .attach(ReceiverStream::new(frames))
            .await
            .expect("a session")
            .into_inner();
        Self {
            frames_out,
            frames_in,
            seen: 0,
        }
    }

    /// An agent that has registered with the leader.
    pub(crate) async fn agent(master: &RunningMaster, id: &str) -> (Self, v1::Registered) {
        let mut agent = Self::attach(master, register(id, vec![])).await;
        let registered = agent.registered().await;
        (agent, registered)
    }

    /// An application of this name that has registered with the leader, and its id.
    pub(crate) async fn application(master: &RunningMaster, name: &str) -> (Self, String) {
        let spec = v1::ApplicationSpec {
            name: name.to_owned(),
            command: Some(v1::CommandLine {
                program: "true".to_owned(),
                ..Default::default()
            }),
            memory_mib_per_executor: 64,
            ..Default::default()
        };
        let registration = v1::RegisterApplication {
            request_id: format!("register-{name}"),
            spec: Some(spec),
            ..Default::default()
        };
        let mut app = Self::attach(master, Body::RegisterApplication(registration)).await;
        let id = app.registered().await.app_id;
        (app, id)
    }

    pub(crate) async fn say(&self, body: Body) {
        let frame = PeerFrame {
            seen_epoch: self.seen,
            body: Some(body),
        };
        self.frames_out
            .send(frame)
            .await
            .expect("the session lives");
    }

    /// The next frame; `None` when the session has ended.
    pub(crate) async fn next(&mut self) -> Option<MasterFrame> {
        let next = timeout(PATIENCE, self.frames_in.message())
            .await
            .expect("a frame in time");
        let frame = next.ok().flatten()?;
        self.seen = self.seen.max(frame.epoch);
        Some(frame)
    }

    /// Skips frames until one is what the test wants.
    pub(crate) async fn wait<T>(
        &mut self,
        what: &str,
        want: impl Fn(u64, master_frame::Body) -> Option<T>,
    ) -> T {
        let waiting = async {
            while let Some(frame) = self.next().await {
                if let Some(found) = frame.body.and_then(|body| want(frame.epoch, body)) {
                    return found;
                }
            }
            panic!("the session ended before: {what}");
        };
        match timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_elapsed) => panic!("not told in time: {what}"),
        }
    }

    pub(crate) async fn registered(&mut self) -> v1::Registered {
        self.wait("registered", |_, body| match body {
            master_frame::Body::Registered(registered) => Some(registered),
            _ => None,
        })
        .await
    }

    pub(crate) async fn refused(&mut self) -> v1::Refused {
        self.wait("refused", |_, body| match body {
            master_frame::Body::Refused(refused) => Some(refused),
            _ => None,
        })
        .await
    }

    /// The next order to start a driver, with the epoch of its sender.
    pub(crate) async fn launch(&mut self) -> (u64, v1::LaunchDriver) {
        self.wait("launch driver", |epoch, body| match body {
            master_frame::Body::LaunchDriver(launch) => Some((epoch, launch)),
            _ => None,
        })
        .await
    }

    /// Waits for the acknowledgement of a report.
    pub(crate) async fn acknowledged(&mut self, sequence: u64) {
        self.wait("acknowledgement", |_, body| match body {
            master_frame::Body::ReportAck(ack) => ack.sequences.contains(&sequence).then_some(()),
            _ => None,
        })
        .await;
    }
}

/// A worker with eight cores that runs `drivers`.
pub(crate) fn register(id: &str, drivers: Vec<v1::RunningDriver>) -> Body {
    Body::RegisterWorker(v1::RegisterWorker {
        spec: Some(v1::WorkerSpec {
            id: id.into(),
            host: "127.0.0.1".into(),
            web: "127.0.0.1:1".into(),
            cores: 8,
            memory_mib: 8192,
            incarnation: "first".into(),
            ..Default::default()
        }),
        drivers,
        ..Default::default()
    })
}

/// A report of an attempt's state.
pub(crate) fn report(
    sequence: u64,
    launch: &v1::LaunchDriver,
    state: v1::ProcessState,
    code: Option<i32>,
) -> Body {
    Body::Report(v1::WorkReport {
        sequence,
        body: Some(v1::work_report::Body::Driver(v1::DriverChanged {
            driver_id: launch.driver_id.clone(),
            attempt: launch.attempt,
            state: state.into(),
            exit: code.map(|code| v1::Exit {
                code: Some(code),
                signal: None,
            }),
            ..Default::default()
        })),
    })
}
