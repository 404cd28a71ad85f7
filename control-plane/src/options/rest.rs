//! What an operator can set about the submission API.

use std::time::Duration;

use bytesize::ByteSize;
use interrex_proto::limits::{MESSAGE_BYTES_MAX, SPEC_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// Largest body that can be allowed: a larger one could not pass between masters.
const BODY_BYTES_LIMIT: u64 = 64 << 20;

/// The submission API of one master.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RestOptions {
    /// Largest body; a larger one is refused with 413. Default 4 MiB, from 1 MiB to 64 MiB. (A description of
    /// more than 1 MiB is refused in any case.)
    pub max_body: ByteSize,
    /// How long a body may take to arrive. Default 10 s.
    #[serde(with = "humantime_serde")]
    pub body_timeout: Duration,
    /// Deadline of one try, here or at the leader. Default 4 s.
    #[serde(with = "humantime_serde")]
    pub call_timeout: Duration,
    /// How long a request waits for a leader before it is answered 503. Default 5 s; together with
    /// `call_timeout` it should stay below the 10 s after which Spark's client asks the next master.
    #[serde(with = "humantime_serde")]
    pub leader_wait: Duration,
    /// Requests served at once; one more is answered 503. Default 1,024.
    pub concurrent_requests_max: usize,
    /// What answers give as `serverSparkVersion`: the Spark whose API this is. Default `4.3.0`.
    pub server_spark_version: String,
}

// === impl RestOptions ===

impl Default for RestOptions {
    fn default() -> Self {
        Self {
            max_body: ByteSize::b(MESSAGE_BYTES_MAX as u64),
            body_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(4),
            leader_wait: Duration::from_secs(5),
            concurrent_requests_max: 1024,
            server_spark_version: "4.3.0".to_owned(),
        }
    }
}

impl RestOptions {
    /// The bound of a body, for this machine.
    #[must_use]
    pub fn body_bytes_max(&self) -> usize {
        usize::try_from(self.max_body.as_u64()).unwrap_or(usize::MAX)
    }

    /// Adds every fault to `faults`, with its field's full name.
    pub(super) fn validate(&self, faults: &mut Vec<String>) {
        let least = SPEC_BYTES_MAX as u64;
        if !(least..=BODY_BYTES_LIMIT).contains(&self.max_body.as_u64()) {
            faults.push(format!(
                "rest.max_body: {}; give 1 MiB to 64 MiB",
                self.max_body
            ));
        }
        for (field, value) in [
            ("rest.body_timeout", self.body_timeout),
            ("rest.call_timeout", self.call_timeout),
        ] {
            if value < Duration::from_millis(1) {
                faults.push(format!("{field}: {value:?}; give at least 1 ms"));
            }
        }
        if self.concurrent_requests_max == 0 {
            faults.push("rest.concurrent_requests_max: 0; give at least 1".to_owned());
        }
        if self.server_spark_version.is_empty() {
            faults.push(
                "rest.server_spark_version: is empty; Spark's clients refuse such answers"
                    .to_owned(),
            );
        }
    }
}
