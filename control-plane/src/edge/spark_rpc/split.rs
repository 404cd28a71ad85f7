//! One port, two protocols: the first byte of a connection says whose it is.
//!
//! A frame of Spark begins with the highest byte of an 8-byte length, which is zero; HTTP/2 begins with a letter. The
//! byte is only looked at, never taken, so that whoever serves the connection finds it whole.

use std::{io, sync::Arc, time::Duration};

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
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that may wait for the gRPC server to take them.
const WAITING_MAX: usize = 128;
/// After an error of the listener: it is about file descriptors, and passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long the answer to somebody in the wrong place may take.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// What HTTP/1 begins with, but for methods with a P, which are left to the gRPC server.
const HTTP1_FIRST: &[u8] = b"GHDCOT";
const HTTP1_REFUSAL: &str = "This port speaks gRPC and Spark's RPC. Spark's REST API is on port 6066, health and metrics on 8080 (see the master's --rest and --web).\n";

/// Connections for the gRPC server.
pub(crate) type Http2 = std::pin::Pin<Box<dyn Stream<Item = io::Result<TcpStream>> + Send>>;

/// Accepts until `stop`; what is not Spark's comes out of the stream.
pub(crate) fn split(
    listener: TcpListener,
    spark: Arc<SparkRpc>,
    tasks: &Tasks,
    stop: CancellationToken,
) -> Http2 {
    let (http2, rx) = mpsc::channel(WAITING_MAX);
    let work = accept(listener, spark, http2, tasks.clone(), stop);
    tasks.spawn_detached("accept", OnEnd::Alarm, work);
    Box::pin(futures::stream::unfold(rx, |mut rx| async move {
        let socket = rx.recv().await?;
        Some((Ok(socket), rx))
    }))
}

async fn accept(
    listener: TcpListener,
    spark: Arc<SparkRpc>,
    http2: mpsc::Sender<TcpStream>,
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
        let (spark, http2) = (Arc::clone(&spark), http2.clone());
        let work = route(socket, permit, spark, http2);
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
    http2: mpsc::Sender<TcpStream>,
) {
    let mut first = [0];
    match timeout(FIRST_BYTE_TIMEOUT, socket.peek(&mut first)).await {
        Ok(Ok(1..)) => {}
        // A port scan, or a health check of a load balancer.
        Ok(Ok(0) | Err(_)) | Err(_) => return,
    }
    drop(permit);
    if first == [0] {
        spark.accept(socket);
    } else if HTTP1_FIRST.contains(&first[0]) {
        refuse_http1(socket).await;
    } else if http2.send(socket).await.is_err() {
        tracing::debug!("the gRPC server has stopped");
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
