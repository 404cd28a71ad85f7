//! What real peers of Spark have sent, for tests that play one by hand.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bytes::{Bytes, BytesMut};
use interrex_spark_wire::{Body, Envelope, Frame, FrameCodec};
use tokio_util::codec::Decoder;

pub(crate) fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../spark-wire/tests/captures")
}

/// The bytes of a captured frame, such as `spark-35/5-worker-Heartbeat`.
pub(crate) fn captured(name: &str) -> Vec<u8> {
    let path = captures().join(format!("{name}.frame.bin"));
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The same bytes with `to` wherever `from` stood.
pub(crate) fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut changed = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        if let Some(tail) = rest.strip_prefix(from) {
            changed.extend(to);
            rest = tail;
        } else {
            changed.push(*first);
            rest = &rest[1..];
        }
    }
    changed
}

pub(crate) fn decode(bytes: &[u8]) -> Frame {
    let mut input = BytesMut::from(bytes);
    let frame = FrameCodec::default().decode(&mut input);
    frame.expect("a frame").expect("a whole one")
}

/// The message in a frame; an answer has none.
pub(crate) fn envelope(frame: &Frame) -> Option<Envelope> {
    let (Frame::Request { body, .. } | Frame::OneWay { body }) = frame else {
        return None;
    };
    Some(message(body.clone()))
}

/// The message that a frame's body is.
pub(crate) fn message(body: Bytes) -> Envelope {
    match Body::decode(body).expect("a body") {
        Body::Message(envelope) => envelope,
        other @ (Body::Sasl | Body::AuthEngine) => panic!("{other:?}"),
    }
}
