//! What stands around a message: who sends it, and to which endpoint.
//!
//! The first byte of a body also tells a message from an attempt to authenticate, which is not spoken here.

use std::fmt;

use bytes::{Buf, BufMut, Bytes};

use crate::java::mutf8;

/// Where an RPC environment listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// A name or an IP address, as the peer calls itself.
    pub host: String,
    /// A TCP port.
    pub port: u16,
}

/// The head of a request or a one-way message, and the Java stream behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Absent: the peer does not listen anywhere (such as an executor that watches its worker).
    pub sender: Option<Address>,
    /// As the sender calls us.
    pub receiver: Option<Address>,
    /// The endpoint at the receiver, such as `Master`.
    pub endpoint: String,
    /// One Java stream.
    pub payload: Bytes,
}

/// What a request or one-way frame carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A message.
    Message(Envelope),
    /// The first step of SASL (`spark.authenticate`).
    Sasl,
    /// The first step of Spark's own authentication (`spark.network.crypto.enabled`).
    AuthEngine,
}

/// Why a body is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// It ends in the middle of something.
    #[error("the envelope ends in the middle of its {part}")]
    Truncated {
        /// What is missing.
        part: &'static str,
    },
    /// A value that Spark never writes.
    #[error("{part} of an envelope cannot be {value}")]
    Value {
        /// Which.
        part: &'static str,
        /// As it came.
        value: i64,
    },
    /// A string that is none.
    #[error("the {part} of an envelope is not text")]
    Text {
        /// Which.
        part: &'static str,
    },
    /// Too long to be written.
    #[error("a string of {length} bytes does not fit into an envelope")]
    TooLong {
        /// In bytes.
        length: usize,
    },
}

// === impl Address ===

impl Address {
    /// `host:port`.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

// === impl Body ===

impl Body {
    /// Reads the body of a request or one-way frame.
    ///
    /// # Errors
    /// The bytes are neither an envelope nor the beginning of an authentication.
    pub fn decode(body: Bytes) -> Result<Self, EnvelopeError> {
        match body.first() {
            Some(0xea) => Ok(Self::Sasl),
            Some(0xfb) => Ok(Self::AuthEngine),
            Some(_) | None => Envelope::decode(body).map(Self::Message),
        }
    }
}

// === impl Envelope ===

impl Envelope {
    /// Reads an envelope; what follows it is the payload.
    ///
    /// # Errors
    /// Bytes are missing or are none that Spark writes.
    pub fn decode(mut body: Bytes) -> Result<Self, EnvelopeError> {
        let sender = take_address(&mut body, "sender")?;
        let receiver = take_address(&mut body, "receiver")?;
        let endpoint = take_text(&mut body, "endpoint")?;
        Ok(Self {
            sender,
            receiver,
            endpoint,
            payload: body,
        })
    }

    /// The body of a frame.
    ///
    /// # Errors
    /// A name is longer than 65,535 bytes.
    pub fn encode(&self) -> Result<Bytes, EnvelopeError> {
        let mut out = Vec::with_capacity(64 + self.payload.len());
        put_address(&mut out, self.sender.as_ref())?;
        put_address(&mut out, self.receiver.as_ref())?;
        put_text(&mut out, &self.endpoint)?;
        out.put_slice(&self.payload);
        Ok(out.into())
    }
}

fn take_address(body: &mut Bytes, part: &'static str) -> Result<Option<Address>, EnvelopeError> {
    if body.is_empty() {
        return Err(EnvelopeError::Truncated { part });
    }
    match body.get_u8() {
        0 => return Ok(None),
        1 => {}
        other => {
            let value = i64::from(other);
            return Err(EnvelopeError::Value { part, value });
        }
    }
    let host = take_text(body, part)?;
    if body.len() < 4 {
        return Err(EnvelopeError::Truncated { part });
    }
    let port = body.get_i32();
    let port = u16::try_from(port).map_err(|_ignored| EnvelopeError::Value {
        part,
        value: i64::from(port),
    })?;
    Ok(Some(Address { host, port }))
}

fn take_text(body: &mut Bytes, part: &'static str) -> Result<String, EnvelopeError> {
    if body.len() < 2 {
        return Err(EnvelopeError::Truncated { part });
    }
    let length = usize::from(body.get_u16());
    if body.len() < length {
        return Err(EnvelopeError::Truncated { part });
    }
    let bytes = body.split_to(length);
    mutf8::decode(&bytes).ok_or(EnvelopeError::Text { part })
}

fn put_address(out: &mut Vec<u8>, address: Option<&Address>) -> Result<(), EnvelopeError> {
    let Some(address) = address else {
        out.put_u8(0);
        return Ok(());
    };
    out.put_u8(1);
    put_text(out, &address.host)?;
    out.put_i32(i32::from(address.port));
    Ok(())
}

fn put_text(out: &mut Vec<u8>, text: &str) -> Result<(), EnvelopeError> {
    let bytes = mutf8::encode(text);
    let length = bytes.len();
    let short = u16::try_from(length).map_err(|_ignored| EnvelopeError::TooLong { length })?;
    out.put_u16(short);
    out.put_slice(&bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(sender: Option<Address>) -> Envelope {
        Envelope {
            sender,
            receiver: Some(Address::new("m1", 7077)),
            endpoint: "Master".to_owned(),
            payload: Bytes::from_static(&[0xac, 0xed, 0, 5]),
        }
    }

    #[test]
    fn an_envelope_comes_back_as_it_was_sent() {
        for sender in [None, Some(Address::new("d1", 40_000))] {
            let envelope = envelope(sender);
            let body = envelope.encode().expect("short");
            assert_eq!(Body::decode(body), Ok(Body::Message(envelope)));
        }
    }

    #[test]
    fn every_truncation_is_an_error() {
        let body = envelope(Some(Address::new("d1", 40_000)))
            .encode()
            .expect("short");
        for length in 0..body.len() - 4 {
            let cut = Body::decode(body.slice(..length));
            assert!(cut.is_err(), "{length} bytes were taken for {cut:?}");
        }
    }

    #[test]
    fn an_authentication_is_told_from_a_message() {
        let sasl = Bytes::from_static(b"\xea\0\0\0\x0dsparkSaslUser\0\0\0\0");
        assert_eq!(Body::decode(sasl), Ok(Body::Sasl));
        let engine = Bytes::from_static(b"\xfb\0\0\0\x01a");
        assert_eq!(Body::decode(engine), Ok(Body::AuthEngine));
    }

    #[test]
    fn a_port_that_is_none_is_refused() {
        let mut body = envelope(Some(Address::new("d1", 1)))
            .encode()
            .expect("short")
            .to_vec();
        body[5] = 0xff;
        let refused = Body::decode(body.into());
        assert!(matches!(
            refused,
            Err(EnvelopeError::Value { part: "sender", .. })
        ));
    }
}
