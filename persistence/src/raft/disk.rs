//! Looks at the disk once a second: how much is left, and how long appends take. A leader in trouble hands over before
//! it has to stop.
//!
//! Trouble here is a warning, not an end: a master with little space or a slow disk still votes and follows, and leads
//! on where nobody else is better off.

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use nix::sys::statvfs::statvfs;
use tokio::{task::JoinHandle, time::MissedTickBehavior};

use super::{
    meter::DiskFaults, metrics, node::Node, options::RaftOptions, pace::Pace, status::Problem,
};

/// How often the disk is looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long asking for the space may take: a disk that hangs, hangs here too.
const DEADLINE: Duration = Duration::from_secs(2);
/// The share of the low-space bound that must be left before a node that had to stop is opened again.
const REOPEN_SHARE: u64 = 4;
/// A leader hands over because of its disk at most once in this time.
pub(super) const HAND_OVER_INTERVAL: Duration = Duration::from_secs(60);

/// Asking how much is left.
type Asked = JoinHandle<io::Result<u64>>;

/// Watches until the node is closed.
pub(super) async fn watch(node: Arc<Node>) {
    let mut tick = tokio::time::interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pace = Pace::default();
    // One question at a time: a disk that hangs must not take a thread each second.
    let mut asked = None;
    loop {
        let turn = async {
            tick.tick().await;
            look_at_pace(&node, &mut pace);
            look_at_space(&node, &mut asked).await;
        };
        if node.closing().run_until_cancelled(turn).await.is_none() {
            return;
        }
    }
}

async fn look_at_space(node: &Node, asked: &mut Option<Asked>) {
    let options = node.options();
    let question = asked.get_or_insert_with(|| {
        let (dir, faults) = (
            options.data_dir.clone(),
            Arc::clone(&node.ground.meter.faults),
        );
        tokio::task::spawn_blocking(move || free_bytes(&dir, &faults))
    });
    let Ok(answer) = tokio::time::timeout(DEADLINE, question).await else {
        let text = format!("the disk does not say within {DEADLINE:?} how much is left");
        return node.status.set(Problem::LowSpace, text);
    };
    *asked = None;
    let free = match answer.map_err(io::Error::other).flatten() {
        Ok(free) => free,
        Err(error) => {
            let text = format!("the space left on the disk is not known: {error}");
            return node.status.set(Problem::LowSpace, text);
        }
    };
    metrics::disk_free(free);
    let low = options.disk.low_bytes;
    if free < low {
        node.status.set(Problem::LowSpace, low_text(options));
    } else if free >= low.saturating_add(low / 4) {
        // A little more than the bound, or it would come and go.
        node.status.clear(Problem::LowSpace);
    }
}

fn look_at_pace(node: &Node, pace: &mut Pace) {
    let limit = node.options().disk.slow_append;
    let slow = pace.second(node.ground.meter.take_slowest(), limit);
    metrics::disk_slow(slow);
    if slow {
        let text = format!(
            "the disk is slow: appends to the log take longer than {limit:?} (--slow-append)"
        );
        node.status.set(Problem::SlowDisk, text);
    } else {
        node.status.clear(Problem::SlowDisk);
    }
}

/// Refuses where there is too little room to begin again: what would be stopped at once need not be started. Blocks.
///
/// # Errors
/// How much is wanted; or what the system says.
pub(super) fn check_room(options: &RaftOptions, faults: &DiskFaults) -> io::Result<()> {
    let wanted = options.disk.low_bytes / REOPEN_SHARE;
    if free_bytes(&options.data_dir, faults)? < wanted {
        let text = format!("less than {} KiB are left on the disk", wanted >> 10);
        return Err(io::Error::new(io::ErrorKind::StorageFull, text));
    }
    Ok(())
}

/// What an unprivileged process may still write. Blocks.
fn free_bytes(dir: &Path, faults: &DiskFaults) -> io::Result<u64> {
    if let Some(free) = faults.free_bytes() {
        return Ok(free);
    }
    let said = statvfs(dir)?;
    Ok(said.blocks_available().saturating_mul(said.fragment_size()))
}

/// The same words however much is left, so that they are logged once.
fn low_text(options: &RaftOptions) -> String {
    format!(
        "less than {} MiB are left on the disk of {} (--disk-low); make room there",
        options.disk.low_bytes >> 20,
        options.data_dir.display()
    )
}

/// When this master last handed over because of its disk.
#[derive(Debug, Default)]
pub(super) struct StoodAside(Option<Instant>);

// === impl StoodAside ===

impl StoodAside {
    /// Whether it may do so (again).
    pub(super) fn may(&self) -> bool {
        self.0.is_none_or(|at| at.elapsed() >= HAND_OVER_INTERVAL)
    }

    /// It does.
    pub(super) fn note(&mut self) {
        self.0 = Some(Instant::now());
    }
}
