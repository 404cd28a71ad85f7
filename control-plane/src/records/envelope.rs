//! The wrapping of every record: version, checksum, body.

use bytes::Bytes;
use interrex_proto::v1::RecordEnvelope;
use prost::Message;

use crate::records::RecordError;

/// The version that this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Wraps `record`.
pub(super) fn seal(record: &impl Message) -> Bytes {
    let body = record.encode_to_vec();
    let crc32 = checksum(FORMAT_VERSION, &body);
    let envelope = RecordEnvelope {
        version: FORMAT_VERSION,
        crc32,
        body,
    };
    Bytes::from(envelope.encode_to_vec())
}

/// Unwraps a record, and checks that it is what was written.
pub(super) fn open<M: Message + Default>(value: &[u8]) -> Result<M, RecordError> {
    let garbage = |error: prost::DecodeError| RecordError::Garbage(error.to_string());
    let envelope = RecordEnvelope::decode(value).map_err(garbage)?;
    // The checksum first, and over the version too: a flipped bit is damage, not a newer format.
    let found = checksum(envelope.version, &envelope.body);
    if found != envelope.crc32 {
        return Err(RecordError::Checksum {
            found,
            stored: envelope.crc32,
        });
    }
    match envelope.version {
        0 => Err(RecordError::Garbage("version 0".to_owned())),
        version if version > FORMAT_VERSION => Err(RecordError::Newer { found: version }),
        _known => M::decode(envelope.body.as_slice()).map_err(garbage),
    }
}

fn checksum(version: u32, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
pub(super) fn seal_as(version: u32, body: Vec<u8>) -> Bytes {
    let crc32 = checksum(version, &body);
    Bytes::from(
        RecordEnvelope {
            version,
            crc32,
            body,
        }
        .encode_to_vec(),
    )
}
