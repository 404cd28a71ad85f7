//! How long the disk takes for what is appended, and the faults that tests give it.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// What one read of the log does wrong, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFault {
    /// It fails.
    Fails,
    /// It finds nothing.
    Empty,
    /// The first half of what it should find is missing.
    Late,
    /// The middle is missing.
    Holed,
    /// Only the first half is found, as where there is a limit to what one read may bring.
    Short,
}

/// Faults of one master's disk, for tests; a new one has none. Switched while the master runs.
#[derive(Debug, Default)]
pub struct DiskFaults {
    failing: AtomicBool,
    delay_ms: AtomicU64,
    /// 0: as the system says.
    free_bytes: AtomicU64,
    synced_bytes: AtomicU64,
    spoilt: Mutex<Option<SpoiltRead>>,
}

/// A read that is to go wrong.
#[derive(Debug, Clone, Copy)]
struct SpoiltRead {
    fault: ReadFault,
    /// Only a read that begins so many entries before the end of the log, or more.
    behind: u64,
}

/// Measures the appends of one log.
#[derive(Debug, Default)]
pub(super) struct Meter {
    pub(super) faults: Arc<DiskFaults>,
    /// Whether anything has ever been stored in the log, as far as this process knows.
    stored: AtomicBool,
    appends: Mutex<Appends>,
}

#[derive(Debug, Default)]
struct Appends {
    /// When those that are not durable yet began; the oldest first.
    under_way: VecDeque<Instant>,
    /// The slowest since somebody asked.
    slowest: Duration,
}

// === impl DiskFaults ===

impl DiskFaults {
    /// Whether every write fails from now on.
    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }

    /// Every sync of the log takes this much longer from now on, in whole milliseconds.
    pub fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.delay_ms.store(millis, Ordering::Relaxed);
    }

    /// What the disk says it has left; `None`: as much as it has.
    pub fn set_free_bytes(&self, free: Option<u64>) {
        self.free_bytes
            .store(free.map_or(0, |free| free.max(1)), Ordering::Relaxed);
    }

    /// Up to here, in bytes since the log was begun, somebody was told that it is durable. A test that cuts the power may
    /// take everything behind it.
    pub fn synced_bytes(&self) -> u64 {
        self.synced_bytes.load(Ordering::SeqCst)
    }

    /// The next read of the log that begins at least `behind` entries before its end goes wrong, and no other.
    pub fn spoil_read(&self, fault: ReadFault, behind: u64) {
        *self.spoilt() = Some(SpoiltRead { fault, behind });
    }

    /// Whether the read that was to go wrong has done so, or none was.
    pub fn has_spoilt(&self) -> bool {
        self.spoilt().is_none()
    }

    /// What is wrong with this read, which begins `behind` entries before the end.
    pub(super) fn take_spoilt(&self, behind: u64) -> Option<ReadFault> {
        self.spoilt()
            .take_if(|spoilt| behind >= spoilt.behind)
            .map(|spoilt| spoilt.fault)
    }

    fn spoilt(&self) -> MutexGuard<'_, Option<SpoiltRead>> {
        self.spoilt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody is about to be told that the log is durable up to here.
    pub(super) fn note_synced(&self, bytes: u64) {
        self.synced_bytes.fetch_max(bytes, Ordering::SeqCst);
    }

    pub(super) fn check(&self) -> io::Result<()> {
        if self.failing.load(Ordering::Relaxed) {
            return Err(io::Error::other("an injected fault of the disk"));
        }
        Ok(())
    }

    pub(super) fn free_bytes(&self) -> Option<u64> {
        match self.free_bytes.load(Ordering::Relaxed) {
            0 => None,
            free => Some(free),
        }
    }

    /// Takes its time. Blocks.
    pub(super) fn dawdle(&self) {
        match self.delay_ms.load(Ordering::Relaxed) {
            0 => {}
            millis => std::thread::sleep(Duration::from_millis(millis)),
        }
    }
}

// === impl Meter ===

impl Meter {
    pub(super) fn new(faults: Arc<DiskFaults>) -> Self {
        Self {
            faults,
            stored: AtomicBool::new(false),
            appends: Mutex::default(),
        }
    }

    /// An append has begun.
    pub(super) fn begin(&self, at: Instant) {
        self.lock().under_way.push_back(at);
    }

    /// The append that began at `at` is durable, or has failed.
    pub(super) fn end(&self, at: Instant) {
        let mut appends = self.lock();
        appends.slowest = appends.slowest.max(at.elapsed());
        // They end in the order in which they began.
        if let Some(place) = appends.under_way.iter().position(|began| *began == at) {
            appends.under_way.remove(place);
        }
    }

    /// Something is stored in the log.
    pub(super) fn note_stored(&self) {
        self.stored.store(true, Ordering::Relaxed);
    }

    /// Whether there must be something in the log.
    pub(super) fn has_stored(&self) -> bool {
        self.stored.load(Ordering::Relaxed)
    }

    /// Another log is opened: nothing is under way.
    pub(super) fn reset(&self) {
        *self.lock() = Appends::default();
    }

    /// The longest that an append has taken since the last call, or is taking now.
    pub(super) fn take_slowest(&self) -> Duration {
        let mut appends = self.lock();
        let waiting = appends.under_way.front().map(Instant::elapsed);
        std::mem::take(&mut appends.slowest).max(waiting.unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Appends> {
        self.appends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_append_is_told_once_and_one_under_way_for_as_long_as_it_is() {
        let meter = Meter::default();
        let ago = |millis| {
            Instant::now()
                .checked_sub(Duration::from_millis(millis))
                .unwrap()
        };
        let (slow, quick) = (ago(700), ago(20));
        meter.begin(slow);
        meter.begin(quick);
        meter.end(quick);
        assert!(meter.take_slowest() >= Duration::from_millis(700));
        assert!(meter.take_slowest() >= Duration::from_millis(700));
        meter.end(slow);
        assert!(meter.take_slowest() >= Duration::from_millis(700));
        assert_eq!(meter.take_slowest(), Duration::ZERO);
    }
}
