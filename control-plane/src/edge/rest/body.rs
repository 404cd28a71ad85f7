//! Reading a request's body within bounds of size and time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::errors::RestError;

/// How much more of a body that is too large is read and dropped, so that the client, which is still sending,
/// gets to read the refusal instead of a broken connection.
const DRAIN_BYTES_MAX: usize = 64 << 20;

/// The whole body, at most `max` bytes, arrived within `limit`.
///
/// # Errors
/// 413 where it is larger, 408 where it is late, 400 where it breaks off.
pub(super) async fn read(body: Body, max: usize, limit: Duration) -> Result<Bytes, RestError> {
    let until = Instant::now() + limit;
    let mut stream = body.into_data_stream();
    let mut read: Vec<u8> = Vec::new();
    let mut dropped = 0;
    loop {
        let chunk = match timeout_at(until, stream.next()).await {
            Err(_elapsed) if dropped > 0 => return Err(RestError::too_large(max)),
            Err(_elapsed) => return Err(RestError::body_too_slow(limit)),
            Ok(None) if dropped > 0 => return Err(RestError::too_large(max)),
            Ok(None) => return Ok(read.into()),
            Ok(Some(Err(error))) => {
                return Err(RestError::bad_request(format!(
                    "Request body broke off: {error}."
                )));
            }
            Ok(Some(Ok(chunk))) => chunk,
        };
        if dropped == 0 && read.len() + chunk.len() <= max {
            read.extend_from_slice(&chunk);
            continue;
        }
        // At least 1, so that an empty chunk after this one changes nothing.
        dropped += chunk.len().max(1);
        read = Vec::new();
        if dropped > DRAIN_BYTES_MAX {
            return Err(RestError::too_large(max));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_body_of_exactly_the_limit_is_read() {
        let body = Body::from(vec![7_u8; 1000]);
        assert_eq!(read(body, 1000, LIMIT).await.map(|b| b.len()), Ok(1000));
    }

    #[tokio::test]
    async fn a_larger_body_is_read_to_its_end_and_refused_with_the_limit() {
        let chunks = (0..64).map(|_| Ok::<_, std::io::Error>(vec![0_u8; 100]));
        let error = read(
            Body::from_stream(futures::stream::iter(chunks)),
            1000,
            LIMIT,
        )
        .await
        .expect_err("must be refused");
        assert_eq!(error.status.as_u16(), 413);
        assert!(error.message.contains("1000 bytes"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let stalled = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let error = read(Body::from_stream(stalled), 1000, LIMIT)
            .await
            .expect_err("must be refused");
        assert_eq!(error.status.as_u16(), 408);
    }
}
