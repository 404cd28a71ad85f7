//! One stream to one master: a task that dials, writes what is queued and hands on what it reads. It decides
//! nothing, and ends at the first fault.

use std::{
    collections::VecDeque,
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt};
use interrex_proto::{
    channel::{self, ChannelOptions},
    limits,
    v1::{MasterFrame, PeerFrame, session_client::SessionClient},
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::event::StreamId;

/// What a stream's task tells the owner.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are frames")]
pub(super) enum StreamEvent {
    Opened,
    Frame(MasterFrame),
    Ended { reason: String },
}

/// What a stream's task is given.
#[derive(Debug)]
pub(super) struct StreamTask {
    pub(super) stream: StreamId,
    pub(super) address: String,
    pub(super) channel: ChannelOptions,
    pub(super) outbound: mpsc::Receiver<PeerFrame>,
    pub(super) owner: mpsc::Sender<(StreamId, StreamEvent)>,
    pub(super) dropped: CancellationToken,
}

/// The frames of this peer. The transport polls it first when the connection is made and the request is on its
/// way: that is when the stream counts as opened. (Waiting for the response headers instead would dead-lock with
/// a master that reads the registration before it answers.)
struct Outbound {
    opened: VecDeque<Pin<Box<dyn Future<Output = ()> + Send>>>,
    frames: ReceiverStream<PeerFrame>,
}

// === impl StreamTask ===

impl StreamTask {
    /// Runs until the stream ends or is dropped. Always ends with `Ended`, unless it was dropped.
    pub(super) async fn run(self) {
        let Self {
            stream,
            address,
            channel,
            outbound,
            owner,
            dropped,
        } = self;
        let talk = async {
            let reason = match talk(stream, &address, channel, outbound, &owner).await {
                Ok(()) => "the master closed the stream".to_owned(),
                Err(error) => describe(error.as_ref()),
            };
            // A closed owner needs no report.
            owner
                .send((stream, StreamEvent::Ended { reason }))
                .await
                .unwrap_or_default();
        };
        tokio::select! {
            () = talk => {}
            () = dropped.cancelled() => {}
        }
    }
}

async fn talk(
    stream: StreamId,
    address: &str,
    options: ChannelOptions,
    outbound: mpsc::Receiver<PeerFrame>,
    owner: &mpsc::Sender<(StreamId, StreamEvent)>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    // A channel of its own for every attempt: names are resolved again, and nothing is shared with a dead one.
    let channel = channel::dial(address, &options)?;
    let mut client = SessionClient::new(channel)
        .max_decoding_message_size(limits::SESSION_MESSAGE_BYTES_MAX)
        .max_encoding_message_size(limits::SESSION_MESSAGE_BYTES_MAX);
    let opened = owner.clone();
    let outbound = Outbound {
        opened: VecDeque::from([Box::pin(async move {
            opened
                .send((stream, StreamEvent::Opened))
                .await
                .unwrap_or_default();
        }) as Pin<Box<dyn Future<Output = ()> + Send>>]),
        frames: ReceiverStream::new(outbound),
    };
    let mut frames = client.attach(outbound).await?.into_inner();
    while let Some(frame) = frames.message().await? {
        if owner
            .send((stream, StreamEvent::Frame(frame)))
            .await
            .is_err()
        {
            break;
        }
    }
    Ok(())
}

// === impl Outbound ===

impl Stream for Outbound {
    type Item = PeerFrame;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<PeerFrame>> {
        if let Some(opened) = self.opened.front_mut() {
            std::task::ready!(opened.as_mut().poll(context));
            self.opened.clear();
        }
        self.frames.poll_next_unpin(context)
    }
}

/// The error with its causes on one line: transport errors hide the useful part in their sources.
pub(crate) fn describe(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
