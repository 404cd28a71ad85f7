//! What driver and executors say to each other: a length and as many bytes of JSON.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::count::Counts;

/// Largest message, in bytes.
pub(crate) const FRAME_BYTES_MAX: usize = 64 << 20;

/// From the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Count the words of this piece, and take at least so long.
    Count {
        shard: u32,
        text: String,
        delay_ms: u64,
    },
    /// There is nothing more to do.
    Done,
}

/// From an executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Who it is; said once, first.
    Hello { executor: String },
    /// What a piece holds.
    Counted { shard: u32, counts: Counts },
}

/// Writes one message.
pub(crate) async fn write(
    stream: &mut (impl AsyncWriteExt + Unpin),
    message: &impl Serialize,
) -> Result<()> {
    let body = serde_json::to_vec(message)?;
    ensure!(
        body.len() <= FRAME_BYTES_MAX,
        "a message of {} bytes is too long",
        body.len()
    );
    let length = u32::try_from(body.len())?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(&body).await?;
    stream.flush().await?;
    Ok(())
}

/// Reads one message; `None` when the other side has closed between two messages.
pub(crate) async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncReadExt + Unpin),
) -> Result<Option<T>> {
    let mut length = [0_u8; 4];
    match stream.read_exact(&mut length).await {
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => bail!(e),
    }
    let length = usize::try_from(u32::from_be_bytes(length))?;
    ensure!(
        length <= FRAME_BYTES_MAX,
        "a message of {length} bytes is too long"
    );
    let mut body = vec![0; length];
    stream
        .read_exact(&mut body)
        .await
        .context("the connection ended in a message")?;
    Ok(Some(serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_comes_out_as_it_went_in() {
        let sent = Order::Count {
            shard: 7,
            text: "a b".into(),
            delay_ms: 1,
        };
        let mut wire = Vec::new();
        write(&mut wire, &sent).await.unwrap();
        let mut wire = wire.as_slice();
        assert_eq!(read(&mut wire).await.unwrap(), Some(sent));
        assert_eq!(read::<Order>(&mut wire).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_length_beyond_the_limit_is_refused_before_anything_is_read() {
        let mut wire: &[u8] = &u32::MAX.to_be_bytes();
        assert!(read::<Order>(&mut wire).await.is_err());
    }

    #[tokio::test]
    async fn half_a_message_is_an_error() {
        let mut wire: &[u8] = &[0, 0, 0, 9, b'{'];
        assert!(read::<Order>(&mut wire).await.is_err());
    }
}
