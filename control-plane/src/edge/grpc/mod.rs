//! The gRPC services of a master. A standby serves them too: it answers with a hint to the leader.

pub mod control;
pub mod drains;
pub mod errors;
pub mod events;
pub(crate) mod guard;
pub mod list;
pub mod reports;
pub mod session;
pub mod snapshots;

use std::time::Duration;

use interrex_proto::limits::CALL_TIMEOUT;
use tonic::metadata::MetadataMap;

/// Longest deadline that a caller can ask for; a longer one is cut to this.
pub const DEADLINE_MAX: Duration = Duration::from_secs(30);

/// How long a call may take: the caller's `grpc-timeout`, at most [`DEADLINE_MAX`]; [`CALL_TIMEOUT`] where it
/// names none.
#[must_use]
pub fn deadline(metadata: &MetadataMap) -> Duration {
    metadata
        .get("grpc-timeout")
        .and_then(|value| value.to_str().ok())
        .and_then(parse_timeout)
        .map_or(CALL_TIMEOUT, |asked| asked.min(DEADLINE_MAX))
}

/// gRPC's wire form: up to 8 digits and a unit of `H M S m u n`.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount.saturating_mul(3600))),
        "M" => Some(Duration::from_secs(amount.saturating_mul(60))),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_deadline_is_kept_and_bounded() {
        let of = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().expect("ascii"));
            deadline(&metadata)
        };
        assert_eq!(of("250m"), Duration::from_millis(250));
        assert_eq!(of("2S"), Duration::from_secs(2));
        assert_eq!(of("99999999H"), DEADLINE_MAX);
        for bad in ["", "S", "5x", "123456789S", "-1S"] {
            assert_eq!(of(bad), CALL_TIMEOUT, "{bad:?}");
        }
        assert_eq!(deadline(&MetadataMap::new()), CALL_TIMEOUT);
    }
}
