//! Snapshots out of this cluster and into it, in pieces. A slow or silent client holds nothing up but its own stream, and
//! that for a bounded time.

use std::{
    io::{self, Read},
    time::Duration,
};

use bytes::{Buf, Bytes};
use futures::{StreamExt, stream::BoxStream};
use interrex_persistence::{
    backend::{Freshness, StoreSnapshot},
    snapshot_file::{SnapshotFile, SnapshotFileError},
};
use interrex_proto::{
    clock,
    limits::MESSAGE_BYTES_MAX,
    v1::{self, snapshots_server::SnapshotsServer},
};
use tokio::{sync::mpsc, time::timeout};
use tonic::{Request, Response, Status, Streaming};

use super::errors;
use crate::{
    access::audit,
    runtime::{
        handle::MasterHandle,
        restore::Restored,
        tasks::{OnEnd, Tasks},
    },
    snapshot::{self, Source},
};

/// Pieces of one snapshot that wait for the client, or for the disk of none.
const PIECES_MAX: usize = 4;
/// A client that takes, or sends, no piece for this long is given up.
const PIECE_DEADLINE: Duration = Duration::from_secs(30);
/// How long taking the cut may take.
const CUT_DEADLINE: Duration = Duration::from_secs(15);
/// How long storing a whole snapshot may take.
const RESTORE_DEADLINE: Duration = Duration::from_secs(600);
/// Largest snapshot that is taken in: it is read into memory, like the records of every cluster.
const RESTORE_BYTES_MAX: u64 = 8 << 30;

/// The service.
#[derive(Debug, Clone)]
pub struct Snapshots {
    handle: MasterHandle,
    tasks: Tasks,
}

/// The service, ready to be mounted, with its message bounds.
#[must_use]
pub(crate) fn service(handle: MasterHandle, tasks: Tasks) -> SnapshotsServer<Snapshots> {
    SnapshotsServer::new(Snapshots { handle, tasks })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// The pieces of a stream as one reader, for a thread that may block.
struct Incoming {
    pieces: mpsc::Receiver<Bytes>,
    piece: Bytes,
    left: u64,
}

// === impl Snapshots ===

#[tonic::async_trait]
impl v1::snapshots_server::Snapshots for Snapshots {
    type SaveStream = BoxStream<'static, Result<v1::SnapshotPiece, Status>>;

    async fn save(
        &self,
        request: Request<v1::SaveSnapshotRequest>,
    ) -> Result<Response<Self::SaveStream>, Status> {
        let freshness = match request.get_ref().stale_ok {
            true => Freshness::AsKnown,
            false => Freshness::Confirmed,
        };
        let admin = self.handle.admin();
        let cut = match timeout(CUT_DEADLINE, admin.snapshot(freshness)).await {
            Ok(Ok(cut)) => cut,
            Ok(Err(error)) => return Err(errors::admin(&error, &self.handle.status())),
            Err(_elapsed) => return Err(Status::deadline_exceeded("the store gives no snapshot")),
        };
        let (pieces, taken) = mpsc::channel(PIECES_MAX);
        let stop = self.tasks.stop().clone();
        self.tasks
            .spawn_detached("snapshot", OnEnd::Expected, async move {
                // `None`: the master stops.
                let _sent = stop.run_until_cancelled(send(cut, pieces)).await;
            });
        let stream = futures::stream::unfold(taken, |mut taken| async {
            let data = taken.recv().await?;
            Some((
                data.map(|data| v1::SnapshotPiece { data: data.into() }),
                taken,
            ))
        });
        Ok(Response::new(stream.boxed()))
    }

    async fn restore(
        &self,
        request: Request<Streaming<v1::RestoreSnapshotRequest>>,
    ) -> Result<Response<v1::RestoreSnapshotResponse>, Status> {
        if !self.handle.can_restore() {
            let status = self.handle.status();
            return Err(errors::not_leader(status.leader.as_ref(), status.epoch));
        }
        let source = receive(request.into_inner()).await?;
        // Before it is begun: whoever asked may be gone when it has ended.
        audit::change("restore", &source.name(), &Ok::<_, Status>(()));
        // In a task of its own: a client that goes away does not stop it half-way.
        let handle = self.handle.clone();
        let restored = tokio::spawn(async move { handle.restore(source).await });
        match timeout(RESTORE_DEADLINE, restored).await {
            Ok(Ok(Ok(restored))) => Ok(Response::new(response(restored))),
            Ok(Ok(Err(error))) => Err(errors::restore(&error, &self.handle.status())),
            Ok(Err(panicked)) => Err(Status::internal(panicked.to_string())),
            Err(_elapsed) => Err(Status::deadline_exceeded(
                "the restore has not ended; run the command again to see whether it has",
            )),
        }
    }
}

fn response(restored: Restored) -> v1::RestoreSnapshotResponse {
    let Restored {
        snapshot,
        cluster_id,
        formerly,
        records,
        floor,
        already,
    } = restored;
    v1::RestoreSnapshotResponse {
        snapshot,
        cluster_id,
        formerly,
        records,
        epoch_floor: floor,
        already,
    }
}

/// Sends the file of `cut`; ends early when the client does.
async fn send(cut: StoreSnapshot, pieces: mpsc::Sender<Result<Bytes, Status>>) {
    let now = clock::now_ms();
    let described = tokio::task::spawn_blocking(move || snapshot::describe(cut, now)).await;
    let Ok((header, store)) = described else {
        return;
    };
    for piece in header.encode(&store) {
        match timeout(PIECE_DEADLINE, pieces.send(Ok(piece))).await {
            Ok(Ok(())) => {}
            Ok(Err(_gone)) => return,
            Err(_elapsed) => {
                tracing::warn!("a client takes its snapshot too slowly: given up");
                return;
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Reads a snapshot to its end, and checks it and every record in it.
async fn receive(mut requests: Streaming<v1::RestoreSnapshotRequest>) -> Result<Source, Status> {
    let (pieces, incoming) = mpsc::channel(PIECES_MAX);
    let reader = Incoming {
        pieces: incoming,
        piece: Bytes::new(),
        left: RESTORE_BYTES_MAX,
    };
    let read = tokio::task::spawn_blocking(move || SnapshotFile::read(reader));
    let mut keep_quarantined = false;
    loop {
        let next = match timeout(PIECE_DEADLINE, requests.message()).await {
            Ok(next) => next?,
            Err(_elapsed) => {
                return Err(Status::deadline_exceeded(format!(
                    "no piece of the snapshot within {PIECE_DEADLINE:?}"
                )));
            }
        };
        let Some(request) = next else { break };
        keep_quarantined |= request.keep_quarantined;
        // The reader ends early only when it has found something wrong.
        if pieces.send(request.data.into()).await.is_err() {
            break;
        }
    }
    drop(pieces);
    let file = match read.await {
        Ok(Ok(file)) => file,
        Ok(Err(error)) => return Err(unreadable(&error)),
        Err(panicked) => return Err(Status::internal(panicked.to_string())),
    };
    let examine = move || Source::examine(file, keep_quarantined);
    match tokio::task::spawn_blocking(examine).await {
        Ok(Ok(source)) => Ok(source),
        Ok(Err(unfit)) => Err(Status::failed_precondition(unfit.to_string())),
        Err(panicked) => Err(Status::internal(panicked.to_string())),
    }
}

fn unreadable(error: &SnapshotFileError) -> Status {
    Status::invalid_argument(error.to_string())
}

// === impl Incoming ===

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let taken = self.piece.len().min(buffer.len());
        self.left = self.left.checked_sub(taken as u64).ok_or_else(|| {
            io::Error::other(format!(
                "it is larger than {RESTORE_BYTES_MAX} bytes, the most that is taken in"
            ))
        })?;
        self.piece.copy_to_slice(&mut buffer[..taken]);
        Ok(taken)
    }
}
