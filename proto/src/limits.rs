//! The bounds of every message and wait, each named once. A refusal names the field and the bound.

use std::time::Duration;

/// Longest name, user, id or submission id, in bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Largest description of one driver or application (program, arguments, environment, properties), in bytes.
pub const SPEC_BYTES_MAX: usize = 1 << 20;
/// Longest message for people in a report or an end, in bytes. Where one is made it is cut, never refused.
pub const TEXT_BYTES_MAX: usize = 1 << 10;
/// Largest gRPC message of a client, in bytes: a description with room around it.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Largest frame of a session, either way, in bytes. The largest ones are an agent's registration (all that it
/// runs and all that is unacknowledged) and the answer to an application's (all its executors); whoever makes
/// them bounds how much that can be, so that they always fit.
pub const SESSION_MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Largest gRPC message between masters, in bytes: a batch or one snapshot chunk.
pub const RAFT_MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Most entries of a repeated field (arguments, environment variables, properties).
pub const LIST_ENTRIES_MAX: usize = 65_536;
/// Most cores one driver or executor can ask for.
pub const CORES_MAX: u32 = 1 << 20;
/// Most memory one driver or executor can ask for, in MiB (1 EiB).
pub const MEMORY_MIB_MAX: u64 = 1 << 40;
/// Most executors of one profile that an application can ask for.
pub const EXECUTORS_WANTED_MAX: u32 = 1_000_000;
/// Most resource profiles of one application, besides its own description.
pub const PROFILES_PER_APP_MAX: usize = 100;
/// Most builds of Spark that one agent can teach its masters.
pub const SPARK_DICTIONARIES_MAX: usize = 8;
/// Longest description of one build of Spark, in bytes; a real one has about 15 kB.
pub const SPARK_DICTIONARY_BYTES_MAX: usize = 64 << 10;

/// How long a TCP and HTTP/2 connect may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How often an idle connection is pinged.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// How long a ping may stay unanswered before the connection is given up.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Default deadline of one unary call.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest server-side wait of one `Wait` call.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// Most entries of one list page.
pub const PAGE_SIZE_MAX: u32 = 1000;
