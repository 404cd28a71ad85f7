//! Every captured byte is understood and can be written again.

use bytes::BytesMut;
use interrex_spark_wire::{Body, Frame, FrameCodec, Recogniser, dictionary::built_in, java};
use tokio_util::codec::{Decoder, Encoder};

use crate::support::{body, captured, envelope, files, frame, frames, graph};

fn encoded(frame: Frame) -> Vec<u8> {
    let mut out = BytesMut::new();
    FrameCodec::default()
        .encode(frame, &mut out)
        .expect("it fits");
    out.to_vec()
}

#[test]
fn every_frame_is_written_again_as_it_came() {
    for capture in frames() {
        assert_eq!(
            encoded(frame(&capture.bytes)),
            capture.bytes,
            "{}",
            capture.name
        );
    }
}

#[test]
fn every_envelope_is_written_again_as_it_came() {
    for capture in frames() {
        let envelope = envelope(&capture.bytes);
        let body = body(frame(&capture.bytes));
        assert_eq!(envelope.encode().expect("short"), body, "{}", capture.name);
    }
}

#[test]
fn every_stream_is_written_again_as_it_came() {
    for capture in frames() {
        let payload = envelope(&capture.bytes).payload;
        let read = graph(&payload);
        let written = java::emit(&read).expect("it was read");
        assert_eq!(written, payload, "{}", capture.name);
        assert_eq!(graph(&written), read, "{}", capture.name);
    }
}

#[test]
fn every_generated_stream_is_written_again_as_it_came() {
    for folder in ["captures/generated/spark-35", "captures/generated/spark-41"] {
        for capture in files(folder) {
            let written = java::emit(&graph(&capture.bytes)).expect("it was read");
            assert_eq!(written, capture.bytes, "{folder}/{}", capture.name);
        }
    }
}

#[test]
fn whole_connections_are_frames_without_a_rest() {
    for capture in files("captures/whole-connections") {
        let mut input = BytesMut::from(capture.bytes.as_slice());
        let mut codec = FrameCodec::default();
        let mut out = Vec::new();
        while let Some(frame) = codec.decode(&mut input).expect("frames") {
            match &frame {
                Frame::Response { body, .. } => drop(graph(body)),
                Frame::Request { body, .. } | Frame::OneWay { body } => {
                    let body = Body::decode(body.clone()).expect("a body");
                    let Body::Message(envelope) = body else {
                        panic!("{}: {body:?}", capture.name);
                    };
                    drop(graph(&envelope.payload));
                }
                Frame::Failure { text, .. } => panic!("{}: {text}", capture.name),
            }
            out.extend(encoded(frame));
        }
        assert_eq!(out, capture.bytes, "{}", capture.name);
    }
}

#[test]
fn authentication_is_told_by_the_first_byte() {
    let found: Vec<Body> = files("captures/auth")
        .iter()
        .map(|c| Body::decode(body(frame(&c.bytes))).expect("a body"))
        .collect();
    assert_eq!(found, [Body::AuthEngine, Body::Sasl]);
}

#[test]
fn every_message_is_of_the_line_that_sent_it() {
    for (line, major, folder) in [
        ("3.5", "3.", "captures/spark-35"),
        ("4.1", "4.", "captures/spark-41"),
    ] {
        for capture in files(folder) {
            let mut recogniser = Recogniser::default();
            recogniser.observe(&graph(&envelope(&capture.bytes).payload));
            let found = recogniser.candidates(built_in());
            assert!(found.iter().any(|d| d.line == line), "{}", capture.name);
            assert!(
                found.iter().all(|d| d.line.starts_with(major)),
                "{}",
                capture.name
            );
        }
    }
}

#[test]
fn a_registration_tells_4_0_from_4_1_where_a_greeting_does_not() {
    let lines = |name: &str| {
        let mut recogniser = Recogniser::default();
        recogniser.observe(&captured("spark-41", name));
        let found = recogniser.candidates(built_in());
        found.iter().map(|d| d.line.clone()).collect::<Vec<_>>()
    };
    assert_eq!(lines("CheckExistence"), ["4.0", "4.1"]);
    assert_eq!(lines("RegisterApplication"), ["4.1"]);
}

#[test]
fn an_unknown_build_has_no_candidate_and_is_described() {
    let read = captured("spark-41", "CheckExistence");
    let mut stream = java::emit(&read).expect("it was read");
    // The serial version UID follows the name of the class.
    let name = b"CheckExistence";
    let at = stream
        .windows(name.len())
        .position(|w| w == name)
        .expect("its name")
        + name.len();
    stream[at] ^= 1;
    let mut recogniser = Recogniser::default();
    recogniser.observe(&graph(&stream));
    assert!(recogniser.candidates(built_in()).is_empty());
    let described = recogniser.describe(5);
    assert!(
        described.contains("RpcEndpointVerifier$CheckExistence 4ba51e9ee4c19ac4"),
        "{described}"
    );
}
