//! gRPC over the simulated TCP: how masters are dialled, and what their servers accept.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{Stream, stream};
use hyper_util::rt::TokioIo;
use interrex_proto::channel::Dialler;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::{
    Uri,
    server::{Connected, TcpConnectInfo},
};
use turmoil::net::{TcpListener, TcpStream};

/// Where every master listens, on a host of its own.
pub(super) const PORT: u16 = 7077;

/// An accepted connection, in the form that servers want.
pub(super) struct Accepted(TcpStream);

/// Dials simulated hosts by their names.
pub(super) fn dialler() -> Dialler {
    Dialler::with(|endpoint| {
        endpoint.connect_with_connector_lazy(tower::service_fn(|uri: Uri| async move {
            let host = uri.host().unwrap_or_default().to_owned();
            let stream = TcpStream::connect((host, PORT)).await?;
            io::Result::Ok(TokioIo::new(stream))
        }))
    })
}

/// Everybody who dials this host.
pub(super) async fn listen() -> io::Result<impl Stream<Item = io::Result<Accepted>>> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, PORT)).await?;
    Ok(stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await;
        Some((accepted.map(|(stream, _)| Accepted(stream)), listener))
    }))
}

// === impl Accepted ===

impl Connected for Accepted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        TcpConnectInfo {
            local_addr: self.0.local_addr().ok(),
            remote_addr: self.0.peer_addr().ok(),
        }
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
