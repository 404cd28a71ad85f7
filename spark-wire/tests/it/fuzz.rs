//! Captured messages, mutilated: whatever comes, the reader answers, and stays within its limits.

use std::{
    collections::BTreeSet,
    sync::LazyLock,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use interrex_spark_wire::{
    Body, FrameCodec, Inbound, Recogniser,
    java::{self, Limits},
    view::View,
};
use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, TestRunner},
};
use tokio_util::codec::Decoder;

use crate::support::{envelope, files, frames};

/// Set: how many seconds to go on for.
const SECONDS: &str = "INTERREX_FUZZ_SECONDS";

static STREAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut streams: Vec<Vec<u8>> = frames()
        .iter()
        .map(|c| envelope(&c.bytes).payload.to_vec())
        .collect();
    for folder in ["captures/generated/spark-35", "captures/generated/spark-41"] {
        streams.extend(files(folder).into_iter().map(|c| c.bytes));
    }
    streams
});

static FRAMES: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| frames().into_iter().map(|c| c.bytes).collect());

/// One way to damage bytes.
#[derive(Debug, Clone)]
enum Damage {
    Flip(Index, u8),
    Overwrite(Index, Vec<u8>),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Truncate(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let tags = proptest::sample::select((0x70..=0x7f).collect::<Vec<u8>>());
    let byte = prop_oneof![tags, any::<u8>(), Just(0), Just(0xff)];
    let bytes = proptest::collection::vec(byte, 1..8);
    let place = any::<Index>;
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(i, b)| Damage::Flip(i, b)),
        (place(), bytes.clone()).prop_map(|(i, b)| Damage::Overwrite(i, b)),
        (place(), bytes).prop_map(|(i, b)| Damage::Insert(i, b)),
        (place(), 1..40usize).prop_map(|(i, n)| Damage::Remove(i, n)),
        (place(), 1..60usize, 1..40usize).prop_map(|(i, n, t)| Damage::Repeat(i, n, t)),
        place().prop_map(Damage::Truncate),
    ]
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match damage {
            Damage::Flip(at, mask) => bytes[at.index(length)] ^= mask,
            Damage::Overwrite(at, with) => {
                let at = at.index(length);
                for (place, byte) in bytes[at..].iter_mut().zip(with) {
                    *place = *byte;
                }
            }
            Damage::Insert(at, what) => {
                let at = at.index(length);
                bytes.splice(at..at, what.iter().copied());
            }
            Damage::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..(at + count).min(length));
            }
            Damage::Repeat(at, count, times) => {
                let at = at.index(length);
                let piece = bytes[at..(at + count).min(length)].to_vec();
                bytes.splice(at..at, piece.repeat(*times));
            }
            Damage::Truncate(at) => bytes.truncate(at.index(length)),
        }
    }
    bytes
}

fn limits() -> Limits {
    Limits {
        nodes: 2000,
        slots: 5000,
        ..Limits::default()
    }
}

/// What a master does with a stream. Everything that was read can be written and read again.
fn chew_stream(stream: &[u8]) -> Result<(), TestCaseError> {
    let limits = limits();
    let Ok(graph) = java::read(stream, &limits) else {
        return Ok(());
    };
    let mut recogniser = Recogniser::default();
    recogniser.observe(&graph);
    drop(recogniser.describe(3));
    drop(Inbound::read(&graph));
    let root = View::root(&graph);
    drop((root.seq(), root.map(), root.option(), root.enumeration()));
    let written = java::emit(&graph);
    let written = written.map_err(|e| TestCaseError::fail(e.to_string()))?;
    let again = java::read(&written, &limits);
    prop_assert_eq!(again.as_ref(), Ok(&graph));
    Ok(())
}

fn chew_frames(bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut codec = FrameCodec::new(1024 * 1024);
    let mut input = BytesMut::from(bytes);
    while let Ok(Some(frame)) = codec.decode(&mut input) {
        use interrex_spark_wire::Frame::{Failure, OneWay, Request, Response};
        match frame {
            Request { body, .. } | OneWay { body } => {
                if let Ok(Body::Message(envelope)) = Body::decode(body) {
                    chew_stream(&envelope.payload)?;
                }
            }
            Response { body, .. } => chew_stream(&body)?,
            Failure { .. } => {}
        }
    }
    Ok(())
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    proptest::collection::vec(damage(), 1..6)
}

proptest! {
    #[test]
    fn a_damaged_stream_is_read_or_refused(seed in any::<Index>(), damages in damages()) {
        let stream = seed.get(&STREAMS).clone();
        chew_stream(&damaged(stream, &damages))?;
    }

    #[test]
    fn damaged_frames_are_read_or_refused(seed in any::<Index>(), damages in damages()) {
        let frames = seed.get(&FRAMES).clone();
        chew_frames(&damaged(frames, &damages))?;
    }

    #[test]
    fn garbage_behind_the_magic_is_refused(garbage in proptest::collection::vec(0x70u8..0x80, 0..200)) {
        let mut stream = vec![0xac, 0xed, 0, 5];
        stream.extend(garbage);
        chew_stream(&stream)?;
    }
}

#[test]
fn every_truncation_of_every_stream_is_refused() {
    let streams: BTreeSet<&Vec<u8>> = STREAMS.iter().collect();
    for stream in streams {
        // All lengths of the short ones, and enough of the others.
        for length in (0..stream.len()).step_by(1 + stream.len() / 400) {
            let cut = java::read(&stream[..length], &Limits::default());
            assert!(
                cut.is_err(),
                "{length} of {} bytes were taken",
                stream.len()
            );
        }
    }
}

#[test]
fn limits_are_hard() {
    let class = b"\x72\0\x13[Ljava.lang.Object;\0\0\0\0\0\0\0\x01\x02\0\0\x78\x70";
    // Arrays in arrays in arrays.
    let mut deep = vec![0xac, 0xed, 0, 5, 0x75];
    deep.extend_from_slice(class);
    for _ in 0..100_000 {
        deep.extend_from_slice(b"\0\0\0\x01\x75\x71\0\x7e\0\0");
    }
    let refused = java::read(&deep, &Limits::default()).expect_err("too deep");
    assert!(
        refused.to_string().contains("more than 100 levels"),
        "{refused}"
    );
    // An array that says it is large.
    let mut large = vec![0xac, 0xed, 0, 5, 0x75];
    large.extend_from_slice(class);
    large.extend_from_slice(b"\x7f\xff\xff\xff");
    let refused = java::read(&large, &Limits::default()).expect_err("too large");
    assert!(
        refused.to_string().contains("fields and elements"),
        "{refused}"
    );
    // A class above itself.
    let mut circle = vec![0xac, 0xed, 0, 5, 0x73];
    circle.extend_from_slice(b"\x72\0\x01A\0\0\0\0\0\0\0\x01\x02\0\0\x78\x71\0\x7e\0\0");
    let refused = java::read(&circle, &Limits::default()).expect_err("a circle");
    assert!(
        refused.to_string().contains("before it is complete"),
        "{refused}"
    );
    // More bytes than are looked at.
    let small = Limits {
        bytes: 10,
        ..Limits::default()
    };
    assert!(java::read(&STREAMS[0], &small).is_err());
}

/// Goes on for as long as the environment says; the three properties above run a few hundred cases each time.
#[test]
fn hours_of_damage_change_nothing() {
    let Some(seconds) = std::env::var(SECONDS).ok().and_then(|s| s.parse().ok()) else {
        println!("skipped: {SECONDS} is not set");
        return;
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut cases = 0u64;
    while Instant::now() < end {
        let mut runner = TestRunner::new(Config {
            cases: 2000,
            failure_persistence: None,
            ..Config::default()
        });
        let strategy = (any::<Index>(), any::<bool>(), damages());
        let result = runner.run(&strategy, |(seed, whole, damages)| {
            if whole {
                chew_frames(&damaged(seed.get(&FRAMES).clone(), &damages))
            } else {
                chew_stream(&damaged(seed.get(&STREAMS).clone(), &damages))
            }
        });
        result.expect("read or refused");
        cases += 2000;
    }
    println!("{cases} damaged messages in {seconds} s");
    assert!(cases > 0);
}
