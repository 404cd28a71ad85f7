//! Every wait and every size of this backend, in one place.

use std::time::Duration;

/// Connecting, with the resolution of the name.
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(1);
/// How often an idle connection is pinged, and how long a ping may stay unanswered: together, how long a hung etcd or
/// a half-open connection goes unnoticed.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(1);
pub(super) const PING_DEADLINE: Duration = Duration::from_secs(1);
/// One small call.
pub(super) const CALL_DEADLINE: Duration = Duration::from_secs(2);
/// One try of a write that may be tried again at another member; less than a lease.
pub(super) const ATTEMPT_DEADLINE: Duration = Duration::from_secs(1);
/// All tries of one write; the lease may end them earlier.
pub(super) const COMMIT_DEADLINE: Duration = Duration::from_secs(5);
/// A call that was silent for this long makes its connection suspect.
pub(super) const SUSPECT_AFTER: Duration = Duration::from_millis(500);
/// One page of records.
pub(super) const PAGE_DEADLINE: Duration = Duration::from_secs(5);
/// Giving leadership back.
pub(super) const RESIGN_DEADLINE: Duration = Duration::from_secs(1);
/// From asking for a transfer until the other master leads.
pub(super) const TRANSFER_DEADLINE: Duration = Duration::from_secs(5);
/// Reading all records for a snapshot.
pub(super) const CUT_DEADLINE: Duration = Duration::from_secs(60);
/// Closing: giving back the lease, and the end of all tasks.
pub(super) const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(3);

/// Who has resigned lets the others try for this long.
pub(super) const STAND_BACK: Duration = Duration::from_millis(500);
/// How long the others wait for a successor that was named.
pub(super) const HEIR_PATIENCE: Duration = Duration::from_secs(1);
/// A candidate looks again after this long, whatever it has heard.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The control keys are read this often even if the watch says nothing: a watch that hangs costs no more than this.
pub(super) const LIST_INTERVAL: Duration = Duration::from_secs(2);
/// Pauses after a failure.
pub(super) const RETRY_MIN: Duration = Duration::from_millis(50);
pub(super) const RETRY_MAX: Duration = Duration::from_secs(1);

/// Largest value that is written: etcd takes requests of 1.5 MiB.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// Pages are as long as makes them about this large ...
pub(super) const PAGE_BYTES: usize = 4 << 20;
/// ... within these bounds; at first they are short.
pub(super) const PAGE_KEYS_MIN: i64 = 4;
pub(super) const PAGE_KEYS_MAX: i64 = 2048;
/// Largest answer that is taken.
pub(super) const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Largest description of a master under the control keys.
pub(super) const CONTROL_VALUE_BYTES_MAX: usize = 64 << 10;

/// Requests that may wait for the writer; more are rejected.
pub(super) const QUEUE_LEN_MAX: usize = 1024;
/// Most batches of one entry.
pub(super) const GROUP_REQUESTS_MAX: usize = 256;

/// A snapshot is written when the log has this many bytes, or as many as the records, whichever is more ...
pub(super) const LOG_BYTES_MIN: u64 = 8 << 20;
/// ... or this many entries, or one for this many bytes of records, whichever is more.
pub(super) const LOG_ENTRIES_MIN: u64 = 4096;
pub(super) const LOG_BYTES_AN_ENTRY: u64 = 4 << 10;
/// After a snapshot that could not be written, the next one is not begun before this.
pub(super) const SNAPSHOT_PAUSE: Duration = Duration::from_secs(5);
