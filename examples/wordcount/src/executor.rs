//! An executor: takes pieces from the driver, one at a time, until there are none.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    count,
    frame::{self, Order, Report},
};

/// How long connecting to the driver may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Counts for the driver at `address` until it says that all is done.
pub(crate) async fn run(address: &str) -> Result<()> {
    let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let connected =
        connecting.with_context(|| format!("no answer from the driver at {address}"))?;
    let mut stream = connected.with_context(|| format!("the driver at {address}"))?;
    let executor = std::env::var("INTERREX_EXECUTOR_ID").unwrap_or_default();
    frame::write(&mut stream, &Report::Hello { executor }).await?;
    loop {
        match frame::read(&mut stream).await? {
            Some(Order::Count {
                shard,
                text,
                delay_ms,
            }) => {
                let counts = count::words(&text);
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
                frame::write(&mut stream, &Report::Counted { shard, counts }).await?;
            }
            Some(Order::Done) => return Ok(()),
            None => bail!("the driver is gone"),
        }
    }
}
