//! One connection through the proxy: two directions, each in order, each under the rule of its link.
//!
//! Bytes are read, wait their time in a bounded queue, and are written. A direction whose rule says `Hold` stops at
//! both ends of that queue, so that what has been sent arrives when the link is mended, or never, if one of the two
//! gives up before. The end of a stream goes the same way as its bytes: nobody is told over a cut link.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    links::{Count, Link, State},
    reset,
    rule::{Flow, Way},
};

/// Most bytes read at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks on their way in one direction; beyond that nothing more is read.
const QUEUE_LEN: usize = 64;

/// Which of the two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forth,
    Back,
}

/// What is on its way.
#[derive(Debug)]
struct Chunk {
    /// Empty: the end of the stream.
    bytes: Vec<u8>,
    due: Instant,
}

/// How a direction has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// In order: the other one goes on.
    Finished,
    /// One side is gone.
    Broken,
}

/// One direction's place in everything.
struct Lane<'a> {
    direction: Direction,
    link: &'a Link,
    rules: watch::Receiver<State>,
}

/// Carries bytes until both directions have ended, one breaks, or the link is reset.
pub(super) async fn run(
    client: TcpStream,
    server: TcpStream,
    link: &Link,
    rules: watch::Receiver<State>,
    resets: u64,
) {
    for stream in [&client, &server] {
        // Small frames are what there is; a stream that is gone is noticed below.
        stream.set_nodelay(true).unwrap_or_default();
    }
    let lane = |direction| Lane {
        direction,
        link,
        rules: rules.clone(),
    };
    let (client_read, mut client_write) = client.into_split();
    let (server_read, mut server_write) = server.into_split();
    let both = async {
        let mut forth = std::pin::pin!(carry(
            client_read,
            &mut server_write,
            lane(Direction::Forth)
        ));
        let mut back = std::pin::pin!(carry(server_read, &mut client_write, lane(Direction::Back)));
        let (mut forth_open, mut back_open) = (true, true);
        while forth_open || back_open {
            let end = tokio::select! {
                end = &mut forth, if forth_open => { forth_open = false; end }
                end = &mut back, if back_open => { back_open = false; end }
            };
            if end == End::Broken {
                return;
            }
        }
    };
    let mut watched = rules.clone();
    let was_reset = tokio::select! {
        () = both => false,
        () = until_reset(&mut watched, resets) => true,
    };
    if was_reset {
        link.count(Count::Touched);
        for half in [client_write, server_write] {
            reset(half.as_ref());
            // Dropped otherwise, it would say goodbye in order first.
            half.forget();
        }
    }
}

async fn until_reset(rules: &mut watch::Receiver<State>, resets: u64) {
    let reset = rules.wait_for(|state| state.resets != resets).await.is_ok();
    if !reset {
        std::future::pending::<()>().await;
    }
}

async fn carry(from: OwnedReadHalf, to: &mut OwnedWriteHalf, lane: Lane<'_>) -> End {
    let (queue, chunks) = mpsc::channel(QUEUE_LEN);
    let writer = Lane {
        direction: lane.direction,
        link: lane.link,
        rules: lane.rules.clone(),
    };
    let (read, written) = tokio::join!(lane.read(from, queue), writer.write(to, chunks));
    if read == End::Finished && written == End::Finished {
        End::Finished
    } else {
        End::Broken
    }
}

// === impl Lane ===

impl Lane<'_> {
    /// The rule of this direction as of now.
    fn way(&mut self) -> Way {
        let rule = self.rules.borrow_and_update().rule;
        match self.direction {
            Direction::Forth => rule.forth,
            Direction::Back => rule.back,
        }
    }

    /// Waits while bytes are held. False when the run is over.
    async fn pass(&mut self) -> bool {
        let mut told = false;
        while self.way().flow == Flow::Hold {
            if !told {
                self.link.count(Count::Touched);
                told = true;
            }
            if self.rules.changed().await.is_err() {
                return false;
            }
        }
        true
    }

    async fn read(mut self, mut from: OwnedReadHalf, queue: mpsc::Sender<Chunk>) -> End {
        let mut buffer = vec![0_u8; CHUNK_BYTES];
        loop {
            if !self.pass().await {
                return End::Broken;
            }
            // While this waits for bytes the link may be cut: then they wait in the queue, which is held as well.
            let read = tokio::select! {
                () = queue.closed() => return End::Broken,
                read = from.read(&mut buffer) => read,
            };
            let Ok(length) = read else {
                return End::Broken;
            };
            let way = self.way();
            if way.flow == Flow::Swallow {
                self.link.count(Count::Touched);
                return self.swallow(from, buffer, length).await;
            }
            if way.delay > Duration::ZERO || way.bytes_per_second.is_some() {
                self.link.count(Count::Touched);
            }
            let bytes = buffer.get(..length).unwrap_or_default().to_vec();
            let due = Instant::now() + way.delay;
            if queue.send(Chunk { bytes, due }).await.is_err() {
                return End::Broken;
            }
            if length == 0 {
                return End::Finished;
            }
        }
    }

    /// The rest of the stream goes nowhere, its end included: the connection is forgotten, whatever the rule says later.
    async fn swallow(self, mut from: OwnedReadHalf, mut buffer: Vec<u8>, first: usize) -> End {
        let mut length = first;
        while length > 0 {
            length = from.read(&mut buffer).await.unwrap_or(0);
        }
        // Without a chunk that says so: the other side is not told that this one has left.
        End::Finished
    }

    async fn write(mut self, to: &mut OwnedWriteHalf, mut chunks: mpsc::Receiver<Chunk>) -> End {
        while let Some(chunk) = chunks.recv().await {
            sleep_until(chunk.due).await;
            if !self.pass().await {
                return End::Broken;
            }
            let narrow = self.way().takes(chunk.bytes.len());
            if narrow > Duration::ZERO {
                tokio::time::sleep(narrow).await;
            }
            if chunk.bytes.is_empty() {
                return match to.shutdown().await {
                    Ok(()) => End::Finished,
                    Err(_) => End::Broken,
                };
            }
            if to.write_all(&chunk.bytes).await.is_err() {
                return End::Broken;
            }
            let length = chunk.bytes.len();
            self.link.count(match self.direction {
                Direction::Forth => Count::Forth(length),
                Direction::Back => Count::Back(length),
            });
        }
        End::Finished
    }
}
