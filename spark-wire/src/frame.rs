//! Frames of Spark's transport: an 8-byte length, a type, a body. Both ends may send all of them at any time.
//!
//! A frame longer than the codec's limit is refused as soon as its length has been read, so that nobody can make us
//! collect it. Types that belong to block transfer never come to a master and are refused by name.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// Longest frame that is accepted by default: 16 MiB. The registration of an application has about 5 kB.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Length, type: what every frame begins with.
const PREFIX: usize = 9;

/// One frame. Request ids of the two directions are separate spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Wants one [`Frame::Response`] or [`Frame::Failure`] with the same id.
    Request {
        /// Chosen by the sender.
        id: i64,
        /// See [`crate::Body`].
        body: Bytes,
    },
    /// The answer to a request: one Java stream, without an envelope.
    Response {
        /// Of the request.
        id: i64,
        /// One Java stream.
        body: Bytes,
    },
    /// The answer to a request that went wrong: text that the peer prints.
    Failure {
        /// Of the request.
        id: i64,
        /// For a human; Spark sends stack traces.
        text: String,
    },
    /// Wants no answer.
    OneWay {
        /// See [`crate::Body`].
        body: Bytes,
    },
}

/// Why the bytes of a peer are no frames of Spark's RPC. The connection is of no use after that.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// More than the codec accepts.
    #[error("a frame of {length} bytes; at most {max} are accepted")]
    TooLong {
        /// As announced.
        length: u64,
        /// See [`FrameCodec::new`].
        max: usize,
    },
    /// The length says that there is no room for what the type needs.
    #[error("a frame of {length} bytes is too short for its type")]
    TooShort {
        /// As announced.
        length: u64,
    },
    /// A frame of block transfer, or garbage.
    #[error("frames of type {kind} have no place at this endpoint")]
    UnknownType {
        /// The byte behind the length.
        kind: u8,
    },
    /// The length of the body does not agree with that of the frame.
    #[error("a body of {body} bytes in a frame that has room for {room}")]
    BodyLength {
        /// As the header says.
        body: i32,
        /// As the frame's length says.
        room: usize,
    },
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Reads and writes [`Frame`]s.
#[derive(Debug, Clone)]
pub struct FrameCodec {
    max: usize,
}

// === impl FrameCodec ===

impl FrameCodec {
    /// A codec that refuses frames of more than `max` bytes, their length included.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max }
    }
}

impl Default for FrameCodec {
    fn default() -> Self {
        Self::new(FRAME_BYTES_MAX)
    }
}

impl Decoder for FrameCodec {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(length) = input.first_chunk::<8>() else {
            return Ok(None);
        };
        let length = u64::from_be_bytes(*length);
        let whole = usize::try_from(length).unwrap_or(usize::MAX);
        if whole > self.max {
            return Err(FrameError::TooLong {
                length,
                max: self.max,
            });
        }
        if whole < PREFIX {
            return Err(FrameError::TooShort { length });
        }
        if input.len() < whole {
            // The bound above keeps this small.
            input.reserve(whole - input.len());
            return Ok(None);
        }
        let mut frame = input.split_to(whole).freeze();
        frame.advance(8);
        decode_frame(frame, length).map(Some)
    }
}

impl Encoder<Frame> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, frame: Frame, out: &mut BytesMut) -> Result<(), FrameError> {
        let (kind, id, body) = match &frame {
            Frame::Request { id, body } => (3, Some(*id), body.as_ref()),
            Frame::Response { id, body } => (4, Some(*id), body.as_ref()),
            Frame::Failure { id, text } => (5, Some(*id), text.as_bytes()),
            Frame::OneWay { body } => (9, None, body.as_ref()),
        };
        let whole = PREFIX + id.map_or(0, |_| 8) + 4 + body.len();
        let length = u64::try_from(whole).unwrap_or(u64::MAX);
        if whole > self.max {
            return Err(FrameError::TooLong {
                length,
                max: self.max,
            });
        }
        out.reserve(whole);
        out.put_u64(length);
        out.put_u8(kind);
        if let Some(id) = id {
            out.put_i64(id);
        }
        out.put_i32(i32::try_from(body.len()).unwrap_or(i32::MAX));
        out.put_slice(body);
        Ok(())
    }
}

fn decode_frame(mut frame: Bytes, length: u64) -> Result<Frame, FrameError> {
    let kind = frame.get_u8();
    let has_id = matches!(kind, 3..=5);
    if !has_id && kind != 9 {
        return Err(FrameError::UnknownType { kind });
    }
    if frame.len() < if has_id { 12 } else { 4 } {
        return Err(FrameError::TooShort { length });
    }
    let id = if has_id { frame.get_i64() } else { 0 };
    let body = frame.get_i32();
    if usize::try_from(body) != Ok(frame.len()) {
        return Err(FrameError::BodyLength {
            body,
            room: frame.len(),
        });
    }
    Ok(match kind {
        3 => Frame::Request { id, body: frame },
        4 => Frame::Response { id, body: frame },
        5 => Frame::Failure {
            id,
            text: String::from_utf8_lossy(&frame).into_owned(),
        },
        _ => Frame::OneWay { body: frame },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
        FrameCodec::default().decode(&mut BytesMut::from(bytes))
    }

    #[test]
    fn every_type_comes_back_as_it_was_sent() {
        let body = Bytes::from_static(b"body");
        let frames = [
            Frame::Request {
                id: -7,
                body: body.clone(),
            },
            Frame::Response {
                id: 8,
                body: body.clone(),
            },
            Frame::Failure {
                id: 9,
                text: "no".to_owned(),
            },
            Frame::OneWay { body },
        ];
        let mut codec = FrameCodec::default();
        let mut wire = BytesMut::new();
        for frame in &frames {
            codec.encode(frame.clone(), &mut wire).expect("it fits");
        }
        for frame in frames {
            assert_eq!(codec.decode(&mut wire).expect("valid"), Some(frame));
        }
        assert_eq!(codec.decode(&mut wire).expect("nothing left"), None);
    }

    #[test]
    fn a_frame_is_waited_for_until_it_is_whole() {
        let mut wire = BytesMut::new();
        let frame = Frame::OneWay {
            body: Bytes::from_static(b"0123456789"),
        };
        let mut codec = FrameCodec::default();
        codec.encode(frame.clone(), &mut wire).expect("it fits");
        for length in 0..wire.len() {
            assert_eq!(decode(&wire[..length]).expect("not yet"), None);
        }
        assert_eq!(decode(&wire).expect("valid"), Some(frame));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_come() {
        let huge = 17u64 * 1024 * 1024;
        let refused = decode(&huge.to_be_bytes());
        assert!(matches!(refused, Err(FrameError::TooLong { length, .. }) if length == huge));
        let negative = decode(&u64::MAX.to_be_bytes());
        assert!(matches!(negative, Err(FrameError::TooLong { .. })));
    }

    #[test]
    fn text_of_another_protocol_is_refused() {
        // As a length these are astronomical.
        for hello in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"PRI * HTTP/2.0\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        ] {
            assert!(matches!(decode(hello), Err(FrameError::TooLong { .. })));
        }
    }

    #[test]
    fn lengths_that_disagree_are_refused() {
        let mut wire = BytesMut::new();
        wire.put_u64(14);
        wire.put_u8(9);
        wire.put_i32(2);
        wire.put_u8(0);
        assert!(matches!(
            decode(&wire),
            Err(FrameError::BodyLength { body: 2, room: 1 })
        ));
        let mut short = BytesMut::new();
        short.put_u64(10);
        short.put_u8(3);
        short.put_u8(0);
        assert!(matches!(
            decode(&short),
            Err(FrameError::TooShort { length: 10 })
        ));
        let mut shorter = BytesMut::new();
        shorter.put_u64(3);
        assert!(matches!(
            decode(&shorter),
            Err(FrameError::TooShort { length: 3 })
        ));
    }

    #[test]
    fn block_transfer_is_refused_by_its_type() {
        for kind in [0u8, 1, 2, 6, 7, 8, 10, 11, 12, 200] {
            let mut wire = BytesMut::new();
            wire.put_u64(9);
            wire.put_u8(kind);
            assert!(matches!(decode(&wire), Err(FrameError::UnknownType { kind: k }) if k == kind));
        }
    }
}
