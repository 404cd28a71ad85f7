//! Incoming calls of other masters.
//!
//! A frame for another node is refused before it is looked into: a wiped disk keeps its address but not its number,
//! and must not be fed what was meant for its predecessor, nor vote in its name.

use std::{
    fs::File,
    io::Write,
    sync::{Arc, OnceLock},
};

use futures::{StreamExt, stream};
use interrex_proto::{
    limits::RAFT_MESSAGE_BYTES_MAX,
    v1::{
        HelloRequest, HelloResponse, RaftFrame, ReadIndexRequest, ReadIndexResponse,
        raft_peer_server::{RaftPeer, RaftPeerServer},
    },
};
use openraft::{Snapshot, base::BoxStream, raft::AppendEntriesRequest};
use tonic::{Request, Response, Status, Streaming, service::Routes};

use super::{
    fresh,
    node::Node,
    running::Running,
    snapshot::{SnapshotFile, TempFile},
    state_machine::blocking,
    types::Types,
    wire::{SnapshotHeader, decode, encode},
};

/// The service, to be mounted by whoever runs the gRPC server.
#[derive(Debug)]
pub(super) struct PeerService {
    node: Arc<Node>,
}

// === impl PeerService ===

impl PeerService {
    pub(super) fn routes(node: Arc<Node>) -> Routes {
        let server = RaftPeerServer::new(Self { node })
            .max_decoding_message_size(RAFT_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(RAFT_MESSAGE_BYTES_MAX);
        Routes::new(server)
    }

    /// The run that is on. What comes while the disk has failed is refused here: openraft would log each call.
    fn run(&self) -> Result<Arc<Running>, Status> {
        let running = self.node.running();
        if running.has_ended() {
            return Err(Status::unavailable("raft has stopped on this master"));
        }
        Ok(running)
    }

    /// The frame's body, if it is for this node.
    fn accept<T: serde::de::DeserializeOwned>(&self, frame: &RaftFrame) -> Result<T, Status> {
        self.check(frame)?;
        decode(&frame.body)
    }

    fn check(&self, frame: &RaftFrame) -> Result<(), Status> {
        addressed(frame, self.node.number())?;
        welcome(frame, &self.node)
    }

    fn answer(&self, to: u64, body: &impl serde::Serialize) -> Result<Response<RaftFrame>, Status> {
        let body = encode(body)?;
        Ok(Response::new(RaftFrame {
            to_node: to,
            from_node: self.node.number(),
            body,
        }))
    }

    /// Writes the stream's bytes to a file and reads it through.
    async fn receive(
        &self,
        frames: &mut Streaming<RaftFrame>,
        header: &SnapshotHeader,
        temp: TempFile,
    ) -> Result<SnapshotFile, Status> {
        let at = temp.0.clone();
        let mut file = blocking(move || File::create(at)).await.map_err(broken)?;
        let mut left = header.bytes;
        while let Some(frame) = frames.message().await? {
            self.check(&frame)?;
            left = left
                .checked_sub(frame.body.len() as u64)
                .ok_or_else(|| Status::invalid_argument("snapshot is longer than announced"))?;
            file = blocking(move || file.write_all(&frame.body).map(|()| file))
                .await
                .map_err(broken)?;
        }
        if left > 0 {
            return Err(Status::data_loss(format!(
                "snapshot ended {left} bytes early"
            )));
        }
        let meta = header.meta.clone();
        blocking(move || {
            file.sync_all()?;
            SnapshotFile::received(temp, &meta)
        })
        .await
        .map_err(broken)
    }
}

#[tonic::async_trait]
impl RaftPeer for PeerService {
    type AppendStreamStream = BoxStream<'static, Result<RaftFrame, Status>>;

    async fn hello(
        &self,
        request: Request<HelloRequest>,
    ) -> Result<Response<HelloResponse>, Status> {
        if self.node.closing().is_cancelled() {
            return Err(Status::unavailable("this master is closing"));
        }
        Ok(Response::new(self.node.greeted(request.into_inner())))
    }

    async fn append(&self, request: Request<RaftFrame>) -> Result<Response<RaftFrame>, Status> {
        let frame = request.into_inner();
        let entries = self.accept(&frame)?;
        self.node.hearing.heard();
        let answer = self
            .run()?
            .raft
            .append_entries(entries)
            .await
            .map_err(stopped)?;
        self.answer(frame.from_node, &answer)
    }

    async fn append_stream(
        &self,
        request: Request<Streaming<RaftFrame>>,
    ) -> Result<Response<Self::AppendStreamStream>, Status> {
        let (me, node) = (self.node.number(), Arc::clone(&self.node));
        let run = self.run()?;
        // The first frame that cannot be taken ends the stream, and its reason ends the answers.
        let refused = Arc::new(OnceLock::new());
        let refusal = Arc::clone(&refused);
        let requests = request.into_inner().scan((), move |(), frame| {
            let taken = frame.and_then(|frame| {
                addressed(&frame, me)?;
                welcome(&frame, &node)?;
                node.hearing.heard();
                decode::<AppendEntriesRequest<Types>>(&frame.body)
            });
            let request = match taken {
                Ok(request) => Some(request),
                Err(status) => {
                    // Set once: the stream ends here.
                    drop(refusal.set(status));
                    None
                }
            };
            std::future::ready(request)
        });
        // A leader that has nothing to send says nothing for seconds; the server waits for its streams to end.
        let requests = requests.take_until(run.ended.clone().cancelled_owned());
        let answers = run
            .raft
            .stream_append(Box::pin(requests))
            .map(move |answer| {
                let body = encode(&answer.map_err(stopped)?)?;
                Ok(RaftFrame {
                    to_node: 0,
                    from_node: me,
                    body,
                })
            });
        let last = stream::once(async move { refused.get().cloned().map(Err) });
        let answers = answers.chain(last.filter_map(std::future::ready));
        let answers = answers.take_until(run.ended.clone().cancelled_owned());
        Ok(Response::new(Box::pin(answers)))
    }

    async fn vote(&self, request: Request<RaftFrame>) -> Result<Response<RaftFrame>, Status> {
        let frame = request.into_inner();
        let answer = self
            .run()?
            .raft
            .vote(self.accept(&frame)?)
            .await
            .map_err(stopped)?;
        self.answer(frame.from_node, &answer)
    }

    async fn pre_vote(&self, request: Request<RaftFrame>) -> Result<Response<RaftFrame>, Status> {
        let frame = request.into_inner();
        let answer = self
            .run()?
            .raft
            .pre_vote(self.accept(&frame)?)
            .await
            .map_err(stopped)?;
        self.answer(frame.from_node, &answer)
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<RaftFrame>>,
    ) -> Result<Response<RaftFrame>, Status> {
        let mut frames = request.into_inner();
        let first = frames
            .message()
            .await?
            .ok_or_else(|| Status::invalid_argument("snapshot without a header"))?;
        let header: SnapshotHeader = self.accept(&first)?;
        let temp = self.node.applied().snapshots.temp();
        let snapshot = self.receive(&mut frames, &header, temp).await?;
        let snapshot = Snapshot {
            meta: header.meta,
            snapshot,
        };
        let answer = self
            .run()?
            .raft
            .install_full_snapshot(header.vote, snapshot)
            .await
            .map_err(stopped)?;
        self.answer(first.from_node, &answer)
    }

    async fn read_index(
        &self,
        request: Request<ReadIndexRequest>,
    ) -> Result<Response<ReadIndexResponse>, Status> {
        let answer = fresh::answer(&self.node, request.get_ref()).await?;
        Ok(Response::new(answer))
    }

    async fn transfer_leader(
        &self,
        request: Request<RaftFrame>,
    ) -> Result<Response<RaftFrame>, Status> {
        let frame = request.into_inner();
        let answer = self
            .run()?
            .raft
            .handle_transfer_leader(self.accept(&frame)?)
            .await
            .map_err(stopped)?;
        self.answer(frame.from_node, &answer)
    }
}

fn addressed(frame: &RaftFrame, me: u64) -> Result<(), Status> {
    if frame.to_node == me {
        return Ok(());
    }
    Err(Status::failed_precondition(format!(
        "this is node {me:016x}, not {:016x}: its data directory was replaced, or the address is another master's",
        frame.to_node
    )))
}

/// A node that was left behind is not listened to, whatever term it has reached with its like.
fn welcome(frame: &RaftFrame, node: &Node) -> Result<(), Status> {
    if node.applied().is_expelled(frame.from_node) {
        return Err(Status::permission_denied(format!(
            "node {:016x} was left behind when this cluster was recovered",
            frame.from_node
        )));
    }
    Ok(())
}

fn stopped(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}

fn broken(error: std::io::Error) -> Status {
    Status::internal(error.to_string())
}
