//! One port, three protocols: the first bytes of a connection say whose it is.
//!
//! A frame of Spark begins with the highest byte of an 8-byte length, which is zero; gRPC with `PRI`; a method of HTTP/1 is
//! Spark's REST API, so that `spark-submit` needs one URL for everything. The bytes are only looked at, never taken, so
//! that whoever serves the connection finds it whole.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::serve::Listener;
use futures::Stream;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    edge::spark_rpc::SparkRpc,
    metrics::{self, Queue},
    runtime::tasks::{OnEnd, Tasks},
};

/// Connections that have not said anything yet.
const SILENT_MAX: usize = 1024;
/// How long a connection may say nothing.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to look for the second byte where the first leaves the protocol open.
const SECOND_BYTE_PAUSE: Duration = Duration::from_millis(20);
/// Connections that may wait for the gRPC server, or for the REST server, to take them.
const WAITING_MAX: usize = 128;
/// After an error of the listener: it is about file descriptors, and passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long the answer to somebody in the wrong place may take.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

const HTTP1_REFUSAL: &str = "This port speaks gRPC and Spark's RPC; this master serves no REST (--rest). Health and metrics are on 8080 (--web).\n";

/// Connections for the gRPC server.
pub(crate) type Http2 = std::pin::Pin<Box<dyn Stream<Item = io::Result<TcpStream>> + Send>>;

/// Connections for the REST server.
#[derive(Debug)]
pub(crate) struct Http1 {
    connections: mpsc::Receiver<TcpStream>,
    local: SocketAddr,
}

/// Where connections go that are not Spark's.
#[derive(Debug, Clone)]
struct Others {
    http2: mpsc::Sender<TcpStream>,
    http1: mpsc::Sender<TcpStream>,
}

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Spark,
    Http1,
    /// Or nothing that is known: the gRPC server finds the words.
    Http2,
}

// === impl Http1 ===

impl Listener for Http1 {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Some(socket) = self.connections.recv().await else {
                // This master stops, and so will the server.
                return std::future::pending().await;
            };
            if let Ok(from) = socket.peer_addr() {
                return (socket, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.local)
    }
}

// === impl Speaks ===

impl Speaks {
    /// `None`: more must come.
    fn of(first: &[u8]) -> Option<Self> {
        match first {
            [] | [b'P'] => None,
            [0, ..] => Some(Self::Spark),
            // POST, PUT and PATCH; gRPC begins with PRI.
            [b'P', b'O' | b'U' | b'A', ..] => Some(Self::Http1),
            [b'G' | b'H' | b'D' | b'C' | b'O' | b'T', ..] => Some(Self::Http1),
            [_, ..] => Some(Self::Http2),
        }
    }
}

/// Accepts until `stop`; what is not Spark's comes out of the stream and the listener. A listener that is dropped refuses.
pub(crate) fn split(
    listener: TcpListener,
    spark: Arc<SparkRpc>,
    tasks: &Tasks,
    stop: CancellationToken,
) -> io::Result<(Http2, Http1)> {
    let local = listener.local_addr()?;
    let (http2, rx) = mpsc::channel(WAITING_MAX);
    let (http1, connections) = mpsc::channel(WAITING_MAX);
    let others = Others { http2, http1 };
    let work = accept(listener, spark, others, tasks.clone(), stop);
    tasks.spawn_detached("accept", OnEnd::Alarm, work);
    let http2 = futures::stream::unfold(rx, |mut rx| async move {
        let socket = rx.recv().await?;
        Some((Ok(socket), rx))
    });
    Ok((Box::pin(http2), Http1 { connections, local }))
}

async fn accept(
    listener: TcpListener,
    spark: Arc<SparkRpc>,
    others: Others,
    tasks: Tasks,
    stop: CancellationToken,
) {
    let silent = Arc::new(Semaphore::new(SILENT_MAX));
    spark
        .handle
        .watch_places(Queue::NewConnections, &silent, SILENT_MAX);
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let socket = match accepted {
            Ok((socket, _from)) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection is gone already");
            continue;
        }
        let Ok(permit) = Arc::clone(&silent).try_acquire_owned() else {
            metrics::refused(Queue::NewConnections);
            continue;
        };
        let work = route(socket, permit, Arc::clone(&spark), others.clone());
        let stop = stop.clone();
        tasks.spawn_detached("new connection", OnEnd::Expected, async move {
            stop.run_until_cancelled(work).await;
        });
    }
}

async fn route(
    socket: TcpStream,
    permit: OwnedSemaphorePermit,
    spark: Arc<SparkRpc>,
    others: Others,
) {
    // Nothing comes from a port scan, or a health check of a load balancer.
    let Ok(Some(speaks)) = timeout(FIRST_BYTES_TIMEOUT, spoken(&socket)).await else {
        return;
    };
    drop(permit);
    match speaks {
        Speaks::Spark => spark.accept(socket),
        Speaks::Http1 => {
            if let Err(mpsc::error::SendError(socket)) = others.http1.send(socket).await {
                refuse_http1(socket).await;
            }
        }
        Speaks::Http2 => {
            if others.http2.send(socket).await.is_err() {
                tracing::debug!("the gRPC server has stopped");
            }
        }
    }
}

/// What a connection speaks; `None`: it has gone.
async fn spoken(socket: &TcpStream) -> Option<Speaks> {
    let mut first = [0; 2];
    loop {
        let there = socket.peek(&mut first).await.ok()?;
        let come = first.get(..there).filter(|come| !come.is_empty())?;
        if let Some(speaks) = Speaks::of(come) {
            return Some(speaks);
        }
        sleep(SECOND_BYTE_PAUSE).await;
    }
}

async fn refuse_http1(mut socket: TcpStream) {
    metrics::spark_refused("http1");
    let length = HTTP1_REFUSAL.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{HTTP1_REFUSAL}"
    );
    let answered = timeout(REFUSAL_TIMEOUT, async {
        socket.write_all(answer.as_bytes()).await?;
        socket.shutdown().await
    });
    if !matches!(answered.await, Ok(Ok(()))) {
        tracing::debug!("somebody who spoke HTTP/1 has gone");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_say_whose_a_connection_is() {
        assert_eq!(Speaks::of(&[0]), Some(Speaks::Spark));
        assert_eq!(Speaks::of(b"PRI * HTTP/2.0"), Some(Speaks::Http2));
        for method in ["GET /", "POST /", "PUT /", "DELETE /"] {
            assert_eq!(
                Speaks::of(method.as_bytes()),
                Some(Speaks::Http1),
                "{method}"
            );
        }
        assert_eq!(Speaks::of(b"P"), None);
        assert_eq!(Speaks::of(&[0x16, 3]), Some(Speaks::Http2));
    }
}
