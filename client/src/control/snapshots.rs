//! Snapshots out of a cluster and into one. Streams, so they have deadlines of their own: one for each piece.

use std::{collections::BTreeMap, time::Duration};

use futures::Stream;
use interrex_proto::{
    channel,
    credentials::MasterChannel,
    limits,
    v1::{
        RestoreSnapshotRequest, RestoreSnapshotResponse, SaveSnapshotRequest, SnapshotPiece,
        snapshots_client::SnapshotsClient,
    },
};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status, Streaming};

use super::{
    error::{ClientError, Tried},
    options::{ClientOptions, OptionsError},
    verdict::Verdict,
};
use crate::masters;

/// How long a master may take to begin, and to send the next piece.
const PIECE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one restore may take from its first piece to its answer.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(660);
/// Pause between rounds of all masters.
const PAUSE: Duration = Duration::from_millis(200);

/// Saves and restores snapshots.
#[derive(Debug)]
pub struct SnapshotClient {
    options: ClientOptions,
    masters: Vec<String>,
}

/// A snapshot on its way here.
#[derive(Debug)]
pub struct Saving {
    /// The master that sends it.
    pub master: String,
    pieces: Streaming<SnapshotPiece>,
}

/// What became of one attempt.
enum Attempt<T> {
    Done(T),
    /// No other attempt will fare better.
    Final(ClientError),
    /// Try another, this one first.
    Elsewhere(String, Option<String>),
}

// === impl SnapshotClient ===

impl SnapshotClient {
    /// A client; nothing is dialled before the first call.
    ///
    /// # Errors
    /// [`OptionsError`] when the options are bad.
    pub fn new(options: ClientOptions) -> Result<Self, OptionsError> {
        let (masters, _) = options.validate()?;
        Ok(Self { options, masters })
    }

    /// Begins to save a snapshot, from any master. With `stale_ok` it is what that master has, though nobody confirms that
    /// it is everything.
    ///
    /// # Errors
    /// [`ClientError`]; `NoLeader` when no master could give one, with what each said.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn save(&self, stale_ok: bool) -> Result<Saving, ClientError> {
        self.somewhere(
            async |master: String, mut client: SnapshotsClient<MasterChannel>| match timeout(
                PIECE_TIMEOUT,
                client.save(SaveSnapshotRequest { stale_ok }),
            )
            .await
            {
                Ok(Ok(response)) => Attempt::Done(Saving {
                    pieces: response.into_inner(),
                    master,
                }),
                Ok(Err(status)) => judge(&status),
                Err(_elapsed) => Attempt::Elsewhere("no answer".to_owned(), None),
            },
        )
        .await
    }

    /// Has the leader take a snapshot over; `pieces` makes the file's bytes, in pieces of at most 1 MiB, for each attempt
    /// anew. Repeating it is safe, and is done here when the leader dies on the way.
    ///
    /// # Errors
    /// [`ClientError`]; `Conflict` when the cluster is not a new one, or the snapshot cannot be taken over as it is.
    ///
    /// # Cancel safety
    /// The restore may go on when the future is dropped.
    pub async fn restore<S>(
        &self,
        keep_quarantined: bool,
        pieces: impl Fn() -> S,
    ) -> Result<RestoreSnapshotResponse, ClientError>
    where
        S: Stream<Item = Vec<u8>> + Send + 'static,
    {
        self.somewhere(
            async |_master, mut client: SnapshotsClient<MasterChannel>| {
                let requests =
                    futures::StreamExt::map(pieces(), move |data| RestoreSnapshotRequest {
                        keep_quarantined,
                        data,
                    });
                match timeout(RESTORE_TIMEOUT, client.restore(requests)).await {
                    Ok(Ok(response)) => Attempt::Done(response.into_inner()),
                    Ok(Err(status)) if status.code() == Code::Aborted => {
                        Attempt::Final(ClientError::Refused {
                            message: status.message().to_owned(),
                        })
                    }
                    Ok(Err(status)) => judge(&status),
                    Err(_elapsed) => Attempt::Elsewhere("no answer".to_owned(), None),
                }
            },
        )
        .await
    }

    /// Tries one master after the other until one answers, or none has for the total deadline.
    async fn somewhere<T>(
        &self,
        attempt: impl AsyncFn(String, SnapshotsClient<MasterChannel>) -> Attempt<T>,
    ) -> Result<T, ClientError> {
        let mut tried: BTreeMap<String, String> = BTreeMap::new();
        let mut until = Instant::now() + self.options.total_deadline;
        let mut hint: Option<String> = None;
        loop {
            let hinted = hint.take().filter(|hint| masters::is_address(hint));
            let round: Vec<String> = hinted.into_iter().chain(self.masters.clone()).collect();
            for master in round {
                let began = Instant::now();
                let channel = channel::dial(&master, &self.options.channel);
                let channel = channel.map_err(|error| ClientError::Invalid {
                    message: error.to_string(),
                })?;
                let client = SnapshotsClient::new(channel)
                    .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
                    .max_encoding_message_size(limits::MESSAGE_BYTES_MAX);
                match attempt(master.clone(), client).await {
                    Attempt::Done(done) => return Ok(done),
                    Attempt::Final(error) => return Err(error),
                    Attempt::Elsewhere(said, leader) => {
                        tried.insert(master, said);
                        // Work that was under way does not count as looking for a leader.
                        until += began.elapsed().saturating_sub(PIECE_TIMEOUT);
                        if leader.is_some() {
                            hint = leader;
                            break;
                        }
                    }
                }
            }
            if Instant::now() >= until {
                let tried = tried.into_iter();
                let tried = tried.map(|(master, said)| Tried { master, said });
                return Err(ClientError::NoLeader {
                    tried: tried.collect(),
                });
            }
            sleep(PAUSE).await;
        }
    }
}

fn judge<T>(status: &Status) -> Attempt<T> {
    match Verdict::of(status) {
        Verdict::Final(error) => Attempt::Final(error),
        Verdict::Redirect { hint, said } => Attempt::Elsewhere(said, Some(hint.rpc)),
        Verdict::NotServed { said }
        | Verdict::Unreachable { said }
        | Verdict::Busy { said }
        | Verdict::Unknown { said } => Attempt::Elsewhere(said, None),
    }
}

// === impl Saving ===

impl Saving {
    /// The next bytes of the file; `None` at the end of the stream. Only the file itself tells whether it is whole.
    ///
    /// # Errors
    /// [`ClientError`]; begin again.
    ///
    /// # Cancel safety
    /// A piece may be lost: begin again.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        match timeout(PIECE_TIMEOUT, self.pieces.message()).await {
            Ok(Ok(piece)) => Ok(piece.map(|piece| piece.data)),
            Ok(Err(status)) => Err(ClientError::NoLeader {
                tried: vec![Tried {
                    master: self.master.clone(),
                    said: format!("it stopped half-way: {}", status.message()),
                }],
            }),
            Err(_elapsed) => Err(ClientError::Timeout {
                waited: PIECE_TIMEOUT,
                outcome_unknown: false,
            }),
        }
    }
}
