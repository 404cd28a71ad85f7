//! What frames between masters hold, and what the failures of calls mean in words.

use std::{
    fs::File,
    io::{self, Read, Seek},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tonic::{Code, Response, Status};

use super::types::{SnapshotMeta, Vote};

/// One piece of a snapshot on the wire.
const SNAPSHOT_CHUNK_BYTES: usize = 512 << 10;

/// First frame of a snapshot; the following ones are the bytes of its file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SnapshotHeader {
    pub(super) vote: Vote,
    pub(super) meta: SnapshotMeta,
    pub(super) bytes: u64,
}

/// The body of a frame.
pub(super) fn encode(body: &impl Serialize) -> Result<Vec<u8>, Status> {
    postcard::to_allocvec(body).map_err(internal)
}

/// What a frame's body says.
pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Status> {
    postcard::from_bytes(body)
        .map_err(|error| Status::invalid_argument(format!("frame cannot be read: {error}")))
}

/// `call`, given up after `deadline`.
pub(super) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<Response<T>, Status> {
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::deadline_exceeded(format!(
            "no answer within {deadline:?}"
        ))),
    }
}

/// A status in words: tonic puts the useful part of a connection error into its source.
pub(super) fn reason(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    let usual = [
        Code::Unavailable,
        Code::DeadlineExceeded,
        Code::FailedPrecondition,
    ];
    if usual.contains(&status.code()) {
        text
    } else {
        format!("{:?}: {text}", status.code())
    }
}

pub(super) fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// The next bytes of a snapshot; none at its end.
pub(super) fn piece(mut file: File, at: u64) -> io::Result<(File, Vec<u8>)> {
    let mut body = Vec::with_capacity(SNAPSHOT_CHUNK_BYTES);
    file.seek(io::SeekFrom::Start(at))?;
    io::Read::by_ref(&mut file)
        .take(SNAPSHOT_CHUNK_BYTES as u64)
        .read_to_end(&mut body)?;
    Ok((file, body))
}
