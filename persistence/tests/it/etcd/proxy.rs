//! A TCP proxy between one master and etcd, to cut and to silence.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

/// What happens to bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// They pass.
    Open,
    /// They vanish, both ways, and connections stay: half-open.
    Silent,
    /// Connections are broken, and no new ones are made.
    Cut,
    /// They pass late, both ways.
    Slow(Duration),
}

/// A proxy; dropping it ends it.
pub(super) struct Proxy {
    address: String,
    mode: watch::Sender<Mode>,
    stop: CancellationToken,
}

impl Proxy {
    pub(super) async fn before(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (mode, modes) = watch::channel(Mode::Open);
        let stop = CancellationToken::new();
        let accept = async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(client, target.clone(), modes.clone()));
            }
        };
        let stopped = stop.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(accept).await });
        Self {
            address,
            mode,
            stop,
        }
    }

    pub(super) fn address(&self) -> String {
        self.address.clone()
    }

    pub(super) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Mode::Cut);
        self.stop.cancel();
    }
}

async fn serve(client: TcpStream, target: String, mut modes: watch::Receiver<Mode>) {
    if *modes.borrow() == Mode::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    let (up, down) = (modes.clone(), modes.clone());
    tokio::select! {
        () = pump(client_in, server_out, up) => {}
        () = pump(server_in, client_out, down) => {}
        _ = modes.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}

async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    modes: watch::Receiver<Mode>,
) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let Ok(read @ 1..) = from.read(&mut bytes).await else {
            return;
        };
        let mode = *modes.borrow();
        match mode {
            Mode::Open => {}
            // A connection that has lost bytes is of no more use, and has to be found out.
            Mode::Silent | Mode::Cut => std::future::pending().await,
            Mode::Slow(delay) => tokio::time::sleep(delay).await,
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
