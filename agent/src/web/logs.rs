//! Logs: a slice of a file, or the file as it grows.
//!
//! `offset` (bytes from the start; negative: from the end) and `limit` (bytes) choose the slice; the header
//! `x-interrex-offset` says where the body begins, and, where it is known before the body is sent,
//! `x-interrex-next-offset` where to go on. With `follow` the answer is chunked, and ends when the process has ended
//! and its file is read to the end; a reader that was cut off goes on at `x-interrex-offset` + the bytes it got.

use std::{
    io::{self, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    extract::{Path as Segments, Query, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::stream;
use serde::Deserialize;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt},
    sync::OwnedSemaphorePermit,
};

use super::{Shared, WebError};
use crate::{
    metrics::{self, Queue},
    process::LogOwner,
};

/// Bytes of a slice where the request names no limit.
const LIMIT_DEFAULT: u64 = 1 << 20;
/// Most bytes of one slice (not of a followed log).
const LIMIT_MAX: u64 = 16 << 20;
/// Bytes of one chunk of a followed log.
const CHUNK_BYTES: u64 = 64 * 1024;
/// How often a followed file is looked at.
const FOLLOW_POLL: Duration = Duration::from_millis(100);

const OFFSET: HeaderName = HeaderName::from_static("x-interrex-offset");
const NEXT_OFFSET: HeaderName = HeaderName::from_static("x-interrex-next-offset");

/// Which part of a log is wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Slice {
    offset: Option<i64>,
    limit: Option<u64>,
    follow: Option<String>,
}

/// A log that is being followed.
struct Follower {
    shared: Arc<Shared>,
    owner: LogOwner,
    path: PathBuf,
    file: Option<File>,
    start: u64,
    left: u64,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn driver(
    State(shared): State<Arc<Shared>>,
    Segments((driver_id, output)): Segments<(String, String)>,
    Query(slice): Query<Slice>,
) -> Result<Response, WebError> {
    log(shared, LogOwner::Driver(driver_id), &output, slice).await
}

pub(super) async fn executor(
    State(shared): State<Arc<Shared>>,
    Segments((app_id, executor_id, output)): Segments<(String, u32, String)>,
    Query(slice): Query<Slice>,
) -> Result<Response, WebError> {
    log(
        shared,
        LogOwner::Executor(app_id, executor_id),
        &output,
        slice,
    )
    .await
}

/// A part of a log that is not followed: from `offset` on (negative: from the end), at most `limit` bytes.
pub(super) async fn slice(
    shared: Arc<Shared>,
    owner: LogOwner,
    output: &str,
    offset: i64,
    limit: u64,
) -> Result<Response, WebError> {
    let slice = Slice {
        offset: Some(offset),
        limit: Some(limit),
        follow: None,
    };
    log(shared, owner, output, slice).await
}

/// Where the body of an answer begins in its log.
pub(super) fn begin_of(answer: &Response) -> u64 {
    let begin = answer.headers().get(&OFFSET);
    let begin = begin.and_then(|value| value.to_str().ok()?.parse().ok());
    begin.unwrap_or_default()
}

async fn log(
    shared: Arc<Shared>,
    owner: LogOwner,
    output: &str,
    slice: Slice,
) -> Result<Response, WebError> {
    let path = path_of(&shared.site.work_dir, &owner, output)?;
    let permit = Arc::clone(&shared.readers)
        .try_acquire_owned()
        .map_err(|_full| {
            metrics::refused(Queue::LogReaders);
            WebError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many log readers: try again",
            )
        })?;
    let mut file = open(&shared.site.work_dir, &path).await?;
    if file.is_none() && !shared.site.board.is_live(&owner) {
        return Err(WebError::new(
            StatusCode::NOT_FOUND,
            "no such log on this worker",
        ));
    }
    let length = match &file {
        Some(file) => file.metadata().await.map_err(internal)?.len(),
        None => 0,
    };
    let start = match slice.offset.unwrap_or(0) {
        back @ ..0 => length.saturating_sub(back.unsigned_abs()),
        forward @ 0.. => forward.unsigned_abs(),
    };
    if let Some(file) = &mut file {
        file.seek(SeekFrom::Start(start)).await.map_err(internal)?;
    }
    let content_type = (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned());
    let begins = (OFFSET, start.to_string());
    if slice.follows() {
        let left = slice.limit.unwrap_or(u64::MAX);
        let follower = Follower {
            shared,
            owner,
            path,
            file,
            start,
            left,
            _permit: permit,
        };
        let chunks = stream::try_unfold(follower, Follower::next);
        return Ok(([content_type, begins], Body::from_stream(chunks)).into_response());
    }
    let limit = slice.limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX);
    let mut content = Vec::new();
    if let Some(file) = file {
        file.take(limit)
            .read_to_end(&mut content)
            .await
            .map_err(internal)?;
    }
    let next = start.saturating_add(u64::try_from(content.len()).unwrap_or(u64::MAX));
    Ok((
        [content_type, begins, (NEXT_OFFSET, next.to_string())],
        content,
    )
        .into_response())
}

fn path_of(work_dir: &Path, owner: &LogOwner, output: &str) -> Result<PathBuf, WebError> {
    if !matches!(output, "stdout" | "stderr") {
        let message = format!("output {output:?} does not exist: ask for stdout or stderr");
        return Err(WebError::new(StatusCode::NOT_FOUND, message));
    }
    let directory = owner
        .directory(work_dir)
        .map_err(|error| WebError::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    Ok(directory.join(output))
}

/// Opens a log; `None` where it does not exist. A program can put anything into its directory, links included: what
/// leads out of the work directory, or is no plain file, is not served.
async fn open(work_dir: &Path, path: &Path) -> Result<Option<File>, WebError> {
    let forbidden = || WebError::new(StatusCode::FORBIDDEN, "not a log file of this worker");
    let real = match tokio::fs::canonicalize(path).await {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(internal(error)),
    };
    let root = tokio::fs::canonicalize(work_dir).await.map_err(internal)?;
    let plain = tokio::fs::symlink_metadata(path)
        .await
        .map_err(internal)?
        .is_file();
    if !plain || !real.starts_with(&root) {
        return Err(forbidden());
    }
    File::open(&real).await.map(Some).map_err(internal)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as a function to map errors with"
)]
fn internal(error: io::Error) -> WebError {
    WebError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

// === impl Slice ===

impl Slice {
    fn follows(&self) -> bool {
        match self.follow.as_deref() {
            None | Some("false" | "0") => false,
            Some(_) => true,
        }
    }
}

// === impl Follower ===

impl Follower {
    /// The next chunk; `None` at the end. Holds one chunk at most, and reads the next only when it was taken.
    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        loop {
            // Before the read: what was written before the process ended is then surely read.
            let live = self.shared.site.board.is_live(&self.owner);
            let chunk = self.read().await?;
            if !chunk.is_empty() {
                self.left -= u64::try_from(chunk.len())
                    .unwrap_or(self.left)
                    .min(self.left);
                return Ok(Some((Bytes::from(chunk), self)));
            }
            if !live || self.left == 0 {
                return Ok(None);
            }
            tokio::select! {
                () = tokio::time::sleep(FOLLOW_POLL) => {}
                () = self.shared.stopped.cancelled() => return Ok(None),
            }
        }
    }

    async fn read(&mut self) -> io::Result<Vec<u8>> {
        if self.file.is_none() {
            let opened = open(&self.shared.site.work_dir, &self.path).await;
            self.file = opened.map_err(|error| io::Error::other(error.message))?;
            if let Some(file) = &mut self.file {
                file.seek(SeekFrom::Start(self.start)).await?;
            }
        }
        let mut chunk = Vec::new();
        if let Some(file) = &mut self.file {
            file.take(CHUNK_BYTES.min(self.left))
                .read_to_end(&mut chunk)
                .await?;
        }
        Ok(chunk)
    }
}
