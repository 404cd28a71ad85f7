//! The `Session` service: one stream between an agent or application and this master, leader or not.
//!
//! Each stream has a task that reads frames and turns them into commands; what goes out comes from the session's
//! queue in [`Peers`]. The task holds no state of the cluster. Answers to a registration are sent from within the
//! leader's loop, so that they come before the first order.

pub mod frames;
mod inbound;
pub mod registrations;
pub mod requests;

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::Stream;
use interrex_proto::{
    limits::SESSION_MESSAGE_BYTES_MAX,
    v1::{
        MasterFrame, PeerFrame, peer_frame,
        session_server::{Session, SessionServer},
    },
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use self::inbound::Inbound;
use crate::{
    edge::spark_rpc::builds::Builds,
    runtime::{
        handle::MasterHandle,
        peers::{Attached, FrameQueue, Peers, SESSIONS_MAX},
        tasks::{OnEnd, Tasks},
    },
};

/// A stream on which nothing was said for this long after its start is closed.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    pub(crate) handle: MasterHandle,
    pub(crate) peers: Arc<Peers>,
    pub(crate) tasks: Tasks,
    /// Told to peers; a fraction of the worker timeout.
    pub(crate) heartbeat_interval: Duration,
    /// How long an at-most-once attempt may live without a leader.
    pub(crate) at_most_once_lease: Duration,
    /// Builds of Spark that agents teach.
    pub(crate) builds: Arc<Builds>,
    /// Whether peers of unknown builds of Spark are asked what their classes look like.
    pub(crate) spark_probe: bool,
}

// === impl Sessions ===

impl Sessions {
    /// The service, ready to be mounted, with its message bounds.
    pub(crate) fn into_service(self) -> SessionServer<Self> {
        SessionServer::new(self)
            .max_decoding_message_size(SESSION_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(SESSION_MESSAGE_BYTES_MAX)
    }
}

type Frames = Pin<Box<dyn Stream<Item = Result<MasterFrame, Status>> + Send>>;

#[tonic::async_trait]
impl Session for Sessions {
    type AttachStream = Frames;

    async fn attach(
        &self,
        request: Request<Streaming<PeerFrame>>,
    ) -> Result<Response<Frames>, Status> {
        let Attached { id, frames, closed } = self.peers.attach().ok_or_else(|| {
            Status::resource_exhausted(format!("{SESSIONS_MAX} sessions are open; try again later"))
        })?;
        let inbound = Inbound {
            handle: self.handle.clone(),
            peers: Arc::clone(&self.peers),
            id,
            heartbeat_interval: self.heartbeat_interval,
            at_most_once_lease: self.at_most_once_lease,
            builds: Arc::clone(&self.builds),
        };
        let work = read(inbound, request.into_inner(), closed.clone());
        self.tasks.spawn_detached("session", OnEnd::Expected, work);
        Ok(Response::new(outbound(frames, closed)))
    }
}

/// Reads frames until the peer goes, misbehaves, or the session is closed.
async fn read(inbound: Inbound, mut frames: Streaming<PeerFrame>, closed: CancellationToken) {
    let reading = async {
        match timeout(FIRST_FRAME_TIMEOUT, frames.message()).await {
            Ok(Ok(Some(first))) if is_registration(&first) => inbound.handle(first).await,
            Ok(Ok(Some(_other))) => {
                return inbound.refuse("the first frame of a session is a registration", false);
            }
            Ok(Ok(None)) => return,
            Ok(Err(status)) => return inbound.gone(&status),
            Err(_elapsed) => return inbound.refuse("no registration came in time", false),
        }
        loop {
            match frames.message().await {
                Ok(Some(frame)) => inbound.handle(frame).await,
                Ok(None) => break,
                Err(status) => return inbound.gone(&status),
            }
        }
    };
    if closed.run_until_cancelled(reading).await.is_none() {
        tracing::debug!("session closed by this master");
    }
    // The queue ends with this; what is in it is still sent.
    inbound.peers.detach(inbound.id);
}

/// What is sent: the queue, until it ends or the session is closed.
fn outbound(frames: FrameQueue, closed: CancellationToken) -> Frames {
    let next = |(mut frames, closed): (FrameQueue, CancellationToken)| async move {
        let frame = closed.run_until_cancelled(frames.next()).await.flatten()?;
        Some((Ok(frame), (frames, closed)))
    };
    Box::pin(futures::stream::unfold((frames, closed), next))
}

fn is_registration(frame: &PeerFrame) -> bool {
    matches!(
        frame.body,
        Some(peer_frame::Body::RegisterWorker(_) | peer_frame::Body::RegisterApplication(_))
    )
}
