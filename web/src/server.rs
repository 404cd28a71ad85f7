//! An HTTP/1 server that sends away whoever asks nothing.
//!
//! What `axum::serve` does, with one thing more: a connection on which no request comes in time is closed, whether it has
//! never asked, asks very slowly, or was kept open after its last answer. What must never happen: that connections which
//! ask nothing take all places, so that the probes of liveness find none. An answer that takes long (a log that is
//! followed) is not idle.

use std::{pin::pin, time::Duration};

use axum::{Router, body::Body, serve::Listener};
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

/// How long a connection may be without a whole head of a request. Less than the half minute after which Kubernetes gives
/// up a process whose probes fail (three of them, 10 s apart).
pub const REQUEST_WITHIN: Duration = Duration::from_secs(20);
/// How long our own clients keep a connection on which they ask nothing: they close first.
pub const KEPT_IDLE: Duration = Duration::from_secs(10);

/// Serves `router` on `listener` until `stop`; returns when the answers that were under way by then have ended. Whoever
/// cannot wait for them drops it.
///
/// # Cancel safety
/// Dropping it closes the listener; connections go on until their answers have ended.
pub async fn serve<L: Listener>(mut listener: L, router: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    while let Some((io, _from)) = stop.run_until_cancelled(listener.accept()).await {
        let router = router.clone();
        let stop = stop.clone();
        connections.spawn(async move {
            if let Err(error) = connection(io, router, stop).await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Serves one connection until its peer or `stop` ends it.
async fn connection<I>(io: I, router: Router, stop: CancellationToken) -> Result<(), hyper::Error>
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let answer = service_fn(move |request: Request<Incoming>| {
        router.clone().oneshot(request.map(Body::new))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .serve_connection(TokioIo::new(io), answer);
    let mut served = pin!(served);
    if let Some(ended) = stop.run_until_cancelled(served.as_mut()).await {
        return ended;
    }
    served.as_mut().graceful_shutdown();
    served.await
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
        sync::{Notify, mpsc},
        time::{Instant, timeout},
    };

    use super::*;

    /// Connections that a test opens.
    struct Opened(mpsc::Receiver<DuplexStream>);

    impl Listener for Opened {
        type Io = DuplexStream;
        type Addr = ();

        async fn accept(&mut self) -> (DuplexStream, ()) {
            match self.0.recv().await {
                Some(opened) => (opened, ()),
                None => std::future::pending().await,
            }
        }

        fn local_addr(&self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Server {
        open: mpsc::Sender<DuplexStream>,
        go_on: Arc<Notify>,
        stop: CancellationToken,
        serves: tokio::task::JoinHandle<()>,
    }

    fn server() -> Server {
        let (open, opened) = mpsc::channel(4);
        let (go_on, stop) = (Arc::new(Notify::new()), CancellationToken::new());
        let waits = Arc::clone(&go_on);
        let slow = async move || {
            waits.notified().await;
            "late"
        };
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/slow", get(slow));
        let serves = tokio::spawn(serve(Opened(opened), router, stop.clone()));
        Server {
            open,
            go_on,
            stop,
            serves,
        }
    }

    impl Server {
        async fn connect(&self) -> DuplexStream {
            let (near, far) = tokio::io::duplex(1 << 16);
            self.open.send(far).await.expect("served");
            near
        }
    }

    /// What comes until the connection is closed.
    async fn rest(connection: &mut DuplexStream) -> String {
        let mut text = String::new();
        let read = timeout(3 * REQUEST_WITHIN, connection.read_to_string(&mut text));
        read.await.expect("closed").expect("text");
        text
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_asks_nothing_or_half_a_question_is_closed() {
        let server = server();
        for half in ["", "GET / HT"] {
            let mut connection = server.connect().await;
            let began = Instant::now();
            connection.write_all(half.as_bytes()).await.expect("taken");
            assert!(!rest(&mut connection).await.contains("200"));
            assert_eq!(began.elapsed().as_secs(), REQUEST_WITHIN.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_kept_for_the_next_question_and_not_for_ever() {
        let server = server();
        let mut connection = server.connect().await;
        for _ in 0..3 {
            tokio::time::sleep(REQUEST_WITHIN / 2).await;
            connection
                .write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
                .await
                .expect("taken");
        }
        let began = Instant::now();
        assert_eq!(rest(&mut connection).await.matches("here").count(), 3);
        assert_eq!(began.elapsed().as_secs(), REQUEST_WITHIN.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_may_take_longer_than_a_question() {
        let server = server();
        let mut connection = server.connect().await;
        let ask = b"GET /slow HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
        connection.write_all(ask).await.expect("taken");
        tokio::time::sleep(10 * REQUEST_WITHIN).await;
        server.go_on.notify_one();
        assert!(rest(&mut connection).await.ends_with("late"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_stops_ends_idle_connections_and_finishes_answers() {
        let server = server();
        let (mut idle, mut asked) = (server.connect().await, server.connect().await);
        let ask = b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n";
        asked.write_all(ask).await.expect("taken");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        server.stop.cancel();
        assert_eq!(rest(&mut idle).await, "");
        assert!(!server.serves.is_finished());
        server.go_on.notify_one();
        assert!(rest(&mut asked).await.ends_with("late"));
        server.serves.await.expect("ended");
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
