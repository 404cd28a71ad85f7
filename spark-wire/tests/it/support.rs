//! Where the captures are, and how to open them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bytes::{Bytes, BytesMut};
use interrex_spark_wire::{
    Body, Dictionary, Envelope, Frame, FrameCodec, dictionary::built_in, java,
};
use tokio_util::codec::Decoder;

/// One captured frame.
pub(crate) struct Capture {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

/// All files of a folder, by name.
pub(crate) fn files(name: &str) -> Vec<Capture> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder(name)).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let bytes = fs::read(entry.path()).expect("a file");
        found.push(Capture { name, bytes });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!found.is_empty(), "{name} is empty");
    found
}

/// The frames that both lines of Spark sent to a master.
pub(crate) fn frames() -> Vec<Capture> {
    let mut frames = files("captures/spark-35");
    frames.extend(files("captures/spark-41"));
    frames
}

pub(crate) fn frame(bytes: &[u8]) -> Frame {
    let mut input = BytesMut::from(bytes);
    let frame = FrameCodec::default().decode(&mut input).expect("a frame");
    assert!(input.is_empty(), "more than one frame");
    frame.expect("a whole frame")
}

pub(crate) fn body(frame: Frame) -> Bytes {
    match frame {
        Frame::Request { body, .. } | Frame::OneWay { body } | Frame::Response { body, .. } => body,
        Frame::Failure { text, .. } => panic!("a failure: {text}"),
    }
}

pub(crate) fn envelope(bytes: &[u8]) -> Envelope {
    match Body::decode(body(frame(bytes))).expect("a body") {
        Body::Message(envelope) => envelope,
        other @ (Body::Sasl | Body::AuthEngine) => panic!("{other:?}"),
    }
}

pub(crate) fn graph(stream: &[u8]) -> java::Graph {
    java::read(stream, &java::Limits::default()).expect("a stream")
}

pub(crate) fn dictionary(line: &str) -> &'static Dictionary {
    built_in()
        .iter()
        .find(|d| d.line == line)
        .expect("built in")
}

/// The message of the capture whose name ends so.
pub(crate) fn captured(line: &str, name: &str) -> java::Graph {
    let captures = files(&format!("captures/{line}"));
    let capture = captures
        .iter()
        .find(|c| c.name.ends_with(&format!("{name}.frame.bin")));
    let capture = capture.unwrap_or_else(|| panic!("no {name} in {line}"));
    graph(&envelope(&capture.bytes).payload)
}
