//! A listener whose patience is bounded: so many connections at a time, and none that takes nothing for long.
//!
//! For whatever anybody may ask. What must never happen: that readers who open a page and do not read it take the sockets
//! and the memory that the process needs. Those who ask nothing are for [`server`](crate::server) to send away.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};

/// Connections to the pages, health and metrics of one process at a time; one more is closed at once.
pub const WEB_CONNECTIONS_MAX: usize = 512;
/// A reader that takes nothing for this long is cut off.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Accepts connections while there are places.
#[derive(Debug)]
pub struct Patient<L> {
    inner: L,
    places: Arc<Semaphore>,
    /// Called for each connection that found no place.
    refused: fn(),
}

/// A connection that holds a place, and errs when its reader takes nothing for [`STALL_MAX`].
#[derive(Debug)]
pub struct PatientStream<S> {
    stream: S,
    /// Runs while a write waits.
    stall: Pin<Box<Sleep>>,
    waits: bool,
    _place: OwnedSemaphorePermit,
}

// === impl Patient ===

impl<L> Patient<L> {
    /// Takes its places from `places`, which several listeners may share; a connection that finds none is closed, and
    /// `refused` called.
    pub fn new(inner: L, places: Arc<Semaphore>, refused: fn()) -> Self {
        Self {
            inner,
            places,
            refused,
        }
    }
}

impl<L: Listener> Listener for Patient<L> {
    type Io = PatientStream<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // axum's own: it waits where the system has no more sockets.
            let (stream, from) = Listener::accept(&mut self.inner).await;
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(place) => return (PatientStream::new(stream, place), from),
                Err(_full) => (self.refused)(),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

// === impl PatientStream ===

impl<S> PatientStream<S> {
    fn new(stream: S, place: OwnedSemaphorePermit) -> Self {
        Self {
            stream,
            stall: Box::pin(sleep(STALL_MAX)),
            waits: false,
            _place: place,
        }
    }

    /// What a write has come to, with the reader's time running while it waits.
    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = false;
            return written;
        }
        if !std::mem::replace(&mut self.waits, true) {
            self.stall.as_mut().reset(Instant::now() + STALL_MAX);
        }
        self.stall.as_mut().poll(cx).map(|()| {
            let text = format!("the reader took nothing for {STALL_MAX:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut_off_and_its_place_is_free_again() {
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let (near, _far) = tokio::io::duplex(16);
        let mut stream = PatientStream::new(near, place);
        let began = Instant::now();
        let error = stream.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), STALL_MAX);
        assert_eq!(places.available_permits(), 0);
        drop(stream);
        assert_eq!(places.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_that_goes_on_reading_is_served() {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (near, mut far) = tokio::io::duplex(16);
        let mut stream = PatientStream::new(near, place);
        let reader = async {
            let mut taken = [0; 16];
            for _ in 0..4 {
                sleep(STALL_MAX - Duration::from_secs(1)).await;
                far.read_exact(&mut taken).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(&[0; 64]), reader);
        written.unwrap();
    }

    #[tokio::test]
    async fn one_connection_too_many_is_closed_at_once() {
        let inner = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = inner.local_addr().unwrap();
        let mut listener = Patient::new(inner, Arc::new(Semaphore::new(1)), || ());
        let _first = TcpStream::connect(address).await.unwrap();
        let (held, _) = listener.accept().await;
        let mut second = TcpStream::connect(address).await.unwrap();
        let closed = async {
            let mut nothing = [0; 1];
            second.read(&mut nothing).await
        };
        tokio::select! {
            _another = listener.accept() => panic!("there is only one place"),
            read = closed => assert_eq!(read.unwrap_or(0), 0),
        }
        drop(held);
        let _third = TcpStream::connect(address).await.unwrap();
        listener.accept().await;
    }
}
