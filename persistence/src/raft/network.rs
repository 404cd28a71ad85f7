//! Outgoing calls to other masters, each with a deadline.
//!
//! Replication is one pipelined stream a peer; heartbeats have a connection of their own, so that a large batch
//! cannot delay them, and so do snapshots. The stream itself has no idle time-out (a silent leader is not a broken
//! link): HTTP/2 keep-alive ends it when the peer is gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use interrex_proto::{
    channel::{ChannelOptions, Dialler},
    credentials::{Credentials, MasterChannel},
    limits::RAFT_MESSAGE_BYTES_MAX,
    v1::{HelloRequest, HelloResponse, RaftFrame, raft_peer_client::RaftPeerClient},
};
use openraft::{
    OptionalSend, RaftNetworkFactory, RaftNetworkV2,
    alias::SnapshotOf,
    base::{BoxFuture, BoxStream},
    errors::{RPCError, ReplicationClosed, StreamingError, Unreachable},
    network::RPCOption,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
        TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
    },
};
use serde::Serialize;
use tokio::time::Instant;
use tonic::{Request, Status};

use super::{
    metrics,
    options::RaftTiming,
    reach::Reach,
    snapshot::SnapshotFile,
    types::{NodeInfo, Types, Vote},
    wire::{SnapshotHeader, decode, encode, internal, piece, reason, within},
};

/// A peer that answers no ping for twice this is taken for gone.
const KEEPALIVE: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
/// Pauses before a stream to a peer that cannot be reached is tried again: doubled from the first to the last.
const REOPEN_PAUSE_MIN: Duration = Duration::from_millis(10);
const REOPEN_PAUSE_MAX: Duration = Duration::from_millis(200);
/// Connections that are kept.
const CHANNELS_MAX: usize = 64;
/// No answer is waited for less long than this, however short the heartbeat: a loaded machine takes its time.
const CALL_TIMEOUT_MIN: Duration = Duration::from_millis(150);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Replication and votes.
    Data,
    /// Heartbeats and greetings.
    Control,
    /// Snapshots.
    Snapshot,
}

/// Connections to the other masters, by where they are.
#[derive(Debug)]
pub(super) struct Peers {
    node: u64,
    /// Configured addresses, which win over those that masters joined with.
    configured: BTreeMap<String, String>,
    /// Where members have answered, by their number: wins over what is configured or was true when they joined.
    located: Mutex<BTreeMap<u64, String>>,
    channels: Mutex<BTreeMap<(String, Lane), MasterChannel>>,
    dialler: Dialler,
    credentials: Credentials,
}

/// Makes a [`PeerLink`] for each peer; openraft's side of [`Peers`].
#[derive(Debug, Clone)]
pub(super) struct Network {
    peers: Arc<Peers>,
    timing: RaftTiming,
}

/// Calls to one peer.
#[derive(Debug)]
pub(super) struct PeerLink {
    from: u64,
    to: u64,
    member: NodeInfo,
    lane: Lane,
    peers: Arc<Peers>,
    timing: RaftTiming,
    /// Streams that could not be opened since the last one that could.
    failures: u32,
    /// Of the link for heartbeats.
    reach: Option<Reach>,
}

// === impl Peers ===

impl Peers {
    pub(super) fn new(
        node: u64,
        configured: BTreeMap<String, String>,
        dialler: Dialler,
        credentials: Credentials,
    ) -> Self {
        Self {
            node,
            dialler,
            credentials,
            configured,
            located: Mutex::default(),
            channels: Mutex::default(),
        }
    }

    /// Where to dial the member with this number.
    pub(super) fn address(&self, number: u64, member: &NodeInfo) -> String {
        let located = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        let known = located
            .get(&number)
            .or_else(|| self.configured.get(&member.id));
        known.unwrap_or(&member.rpc).clone()
    }

    /// The member with this number has answered at `address`.
    pub(super) fn locate(&self, number: u64, address: &str) {
        let mut located = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        if located.get(&number).map(String::as_str) != Some(address) {
            located.insert(number, address.to_owned());
        }
    }

    /// Forgets where those are that are no members any more.
    pub(super) fn keep_located(&self, members: &BTreeSet<u64>) {
        let mut located = self.located.lock().unwrap_or_else(PoisonError::into_inner);
        located.retain(|number, _| members.contains(number));
    }

    /// A client for `address`; connections are shared by all callers of a lane.
    pub(super) fn client(
        &self,
        address: &str,
        lane: Lane,
    ) -> Result<RaftPeerClient<MasterChannel>, Status> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (address.to_owned(), lane);
        if channels.len() >= CHANNELS_MAX && !channels.contains_key(&key) {
            // Of masters that have moved or gone; the others are dialled anew.
            channels.clear();
        }
        let channel = match channels.get(&key) {
            Some(channel) => channel.clone(),
            None => {
                let options = ChannelOptions {
                    connect_timeout: CONNECT_TIMEOUT,
                    keepalive_interval: KEEPALIVE,
                    keepalive_timeout: KEEPALIVE,
                    credentials: self.credentials.clone(),
                };
                let dialled = self.dialler.dial(address, &options);
                let channel =
                    dialled.map_err(|error| Status::invalid_argument(error.to_string()))?;
                channels.insert(key, channel.clone());
                channel
            }
        };
        Ok(RaftPeerClient::new(channel)
            .max_decoding_message_size(RAFT_MESSAGE_BYTES_MAX)
            .max_encoding_message_size(RAFT_MESSAGE_BYTES_MAX))
    }

    /// Greets the master at `address`.
    ///
    /// # Errors
    /// What went wrong, in words; greeting again is always right.
    pub(super) async fn hello(
        &self,
        address: &str,
        request: HelloRequest,
        deadline: Duration,
    ) -> Result<HelloResponse, String> {
        let mut client = self
            .client(address, Lane::Control)
            .map_err(|s| s.message().to_owned())?;
        match within(deadline, client.hello(request)).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(reason(&status)),
        }
    }
}

// === impl Network ===

impl Network {
    pub(super) fn new(peers: Arc<Peers>, timing: RaftTiming) -> Self {
        Self { peers, timing }
    }

    fn link(&self, to: u64, member: &NodeInfo, lane: Lane) -> PeerLink {
        PeerLink {
            from: self.peers.node,
            to,
            member: member.clone(),
            lane,
            peers: Arc::clone(&self.peers),
            timing: self.timing,
            failures: 0,
            reach: (lane == Lane::Control).then(Reach::default),
        }
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = PeerLink;

    async fn new_client(&mut self, target: u64, node: &NodeInfo) -> PeerLink {
        self.link(target, node, Lane::Data)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &NodeInfo) -> PeerLink {
        self.link(target, node, Lane::Control)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &NodeInfo) -> PeerLink {
        self.link(target, node, Lane::Snapshot)
    }
}

// === impl PeerLink ===

impl PeerLink {
    /// At the address where the peer is now.
    fn client(&self) -> Result<RaftPeerClient<MasterChannel>, Status> {
        let address = self.peers.address(self.to, &self.member);
        self.peers.client(&address, self.lane)
    }

    fn frame(&self, body: &impl Serialize) -> Result<RaftFrame, Status> {
        let body = encode(body)?;
        Ok(RaftFrame {
            to_node: self.to,
            from_node: self.from,
            body,
        })
    }

    /// Waits after a stream that could not be opened. openraft backs off inside the requests of a stream, which
    /// nobody reads when there is no connection: without this a dead peer would be dialled thousands of times
    /// a second.
    async fn pace(&mut self, opened: bool) {
        if opened {
            self.failures = 0;
            return;
        }
        let doubled = REOPEN_PAUSE_MIN.saturating_mul(1 << self.failures.min(8));
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(doubled.min(REOPEN_PAUSE_MAX)).await;
    }

    /// A stream is about to be opened; each heartbeat is one.
    fn asked(&mut self) {
        if let Some(reach) = &mut self.reach
            && reach.asked(Instant::now())
        {
            let peer = &self.member.id;
            tracing::warn!(peer, "this master does not answer; its copy falls behind");
        }
    }

    /// It was opened, `began` then.
    fn answered(&mut self, began: Instant) {
        let Some(reach) = &mut self.reach else { return };
        let peer = &self.member.id;
        metrics::peer_answered(peer, began.elapsed());
        if let Some(after) = reach.answered(Instant::now()) {
            tracing::info!(peer, ?after, "this master answers again");
        }
    }

    fn deadline(option: &RPCOption) -> Duration {
        option.hard_ttl().max(CALL_TIMEOUT_MIN)
    }

    async fn try_stream<S>(
        &self,
        input: S,
        option: &RPCOption,
    ) -> Result<BoxStream<'static, Result<StreamAppendResult<Types>, RPCError<Types>>>, Status>
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        let mut client = self.client()?;
        let (to_node, from_node) = (self.to, self.from);
        // An entry that cannot be encoded ends the stream; the next one begins where this one stopped.
        let frames = input.scan((), move |(), request| {
            let frame = match encode(&request) {
                Ok(body) => Some(RaftFrame {
                    to_node,
                    from_node,
                    body,
                }),
                Err(status) => {
                    tracing::error!(to_node, "an append cannot be encoded: {}", status.message());
                    None
                }
            };
            std::future::ready(frame)
        });
        let answers = within(Self::deadline(option), client.append_stream(frames))
            .await?
            .into_inner();
        Ok(Box::pin(answers.map(|answer| {
            answer
                .and_then(|frame| decode(&frame.body))
                .map_err(unreachable)
        })))
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: SnapshotOf<Types, SnapshotFile>,
        deadline: Duration,
    ) -> Result<SnapshotResponse<Types>, Status> {
        let mut client = self.client()?;
        let SnapshotFile { file, .. } = snapshot.snapshot;
        let bytes = file.metadata().map_err(internal)?.len();
        let header = self.frame(&SnapshotHeader {
            vote,
            meta: snapshot.meta,
            bytes,
        })?;
        let (to_node, from_node) = (self.to, self.from);
        let pieces = stream::unfold(Some((file, 0)), move |state| async move {
            let (file, at) = state?;
            match tokio::task::spawn_blocking(move || piece(file, at)).await {
                Ok(Ok((_, body))) if body.is_empty() => None,
                Ok(Ok((file, body))) => {
                    let next = Some((file, at + body.len() as u64));
                    Some((
                        RaftFrame {
                            to_node,
                            from_node,
                            body,
                        },
                        next,
                    ))
                }
                // The receiver notices that bytes are missing, and the snapshot is sent again.
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a snapshot cannot be read for sending");
                    None
                }
                Err(_) => None,
            }
        });
        let frames = stream::iter([header]).chain(pieces);
        let answer = within(deadline, client.snapshot(frames)).await?;
        decode(&answer.get_ref().body)
    }
}

/// One unary call: the method of the generated client, as one name.
macro_rules! unary {
    ($link:expr, $method:ident, $body:expr, $option:expr) => {{
        let call = async {
            let mut client = $link.client()?;
            let request = Request::new($link.frame($body)?);
            let answer = within(Self::deadline($option), client.$method(request)).await?;
            decode(&answer.get_ref().body)
        };
        call.await.map_err(unreachable)
    }};
}

impl RaftNetworkV2<Types> for PeerLink {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        unary!(self, append, &request, &option)
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<
        's,
        Result<BoxStream<'s, Result<StreamAppendResult<Types>, RPCError<Types>>>, RPCError<Types>>,
    >
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            self.asked();
            let began = Instant::now();
            let opened = self.try_stream(input, &option).await;
            if opened.is_ok() {
                self.answered(began);
            }
            self.pace(opened.is_ok()).await;
            opened.map_err(unreachable)
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        unary!(self, vote, &request, &option)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        unary!(self, pre_vote, &request, &option)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<Types, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        tokio::select! {
            sent = self.send_snapshot(vote, snapshot, option.hard_ttl()) => {
                sent.map_err(|status| StreamingError::Unreachable(Unreachable::from_string(reason(&status))))
            }
            closed = cancel => Err(StreamingError::Closed(closed)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        _: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let option = RPCOption::new(self.timing.transfer_deadline);
        unary!(self, transfer_leader, &request, &option)
    }
}

fn unreachable(status: Status) -> RPCError<Types> {
    RPCError::Unreachable(Unreachable::from_string(reason(&status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_cannot_be_reached_is_dialled_less_and_less_often() {
        let timing = RaftTiming::default();
        let network = Network::new(
            Arc::new(Peers::new(
                1,
                BTreeMap::new(),
                Dialler::default(),
                Credentials::default(),
            )),
            timing,
        );
        // Nothing listens at the discard port.
        let dead = NodeInfo {
            id: "m2".into(),
            rpc: "127.0.0.1:9".into(),
            ..NodeInfo::default()
        };
        let mut link = network.link(2, &dead, Lane::Data);
        let began = tokio::time::Instant::now();
        for _ in 0..5 {
            let option = RPCOption::new(timing.heartbeat);
            let opened = link.stream_append(stream::pending(), option).await;
            assert!(opened.is_err());
        }
        let pauses = Duration::from_millis(10 + 20 + 40 + 80 + 160);
        assert!(began.elapsed() >= pauses, "{:?}", began.elapsed());
        link.pace(true).await;
        assert_eq!(link.failures, 0);
    }
}
