//! Spark's standalone RPC as a codec: frames, Java object streams, dictionaries of classes, typed messages.
//!
//! It knows nothing of Interrex and does no I/O but reading Spark's jars. Everything that comes from a socket goes
//! through [`frame`], [`envelope`] and [`java::read`], all of which are bounded: a message that is too long, too deep
//! or too large is an error, never a panic and never more memory than [`java::Limits`] says.
//!
//! A version of Spark is a [`Dictionary`]: its classes with their fields and serial version UIDs. Messages are built
//! without a version in mind ([`Outbound`]) and laid out by the dictionary of the peer, which is recognised by the
//! UIDs that it sends ([`Recogniser`]), never by a version string: there is none on the wire.

pub mod dictionary;
pub mod envelope;
pub mod frame;
pub mod java;
pub mod learn;
pub mod message;
pub mod probe;
pub mod recognise;
pub mod value;
pub mod view;
pub mod writer;

mod classfile;

pub use crate::{
    dictionary::{Dictionary, DictionaryError},
    envelope::{Address, Body, Envelope},
    frame::{Frame, FrameCodec, FrameError},
    message::{Inbound, MessageError, Outbound},
    probe::{Probe, ProbeError, Purpose},
    recognise::Recogniser,
    value::Value,
};
