//! The clean-up of the work directory: old directories go, and new work is refused before the disk is full.
//!
//! One task of the agent looks at the file system every [`LOOK_INTERVAL`], and soon after something has ended. It
//! scans only where room is short, a budget is set, or [`SCAN_INTERVAL`] has passed. All of it is blocking work off the
//! async threads; a disk that hangs holds up nothing else.

pub mod plan;
mod scan;

use std::{
    collections::BTreeSet,
    fs, io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    metrics,
    process::{LogOwner, WorkDirs},
    worker::pump::Board,
};
use plan::{Limits, Usage};
use scan::Sizes;
pub(crate) use scan::owners;

/// Between two looks at what the file system has left.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// How soon after an end the next look comes: several ends make one look.
const SETTLE: Duration = Duration::from_millis(100);
/// A look that took long is rested from this many times as long (up to [`LOOK_INTERVAL`]), however much ends.
const REST: u32 = 10;
/// Between two scans for old directories where room is not short.
pub const SCAN_INTERVAL: Duration = Duration::from_secs(60);

/// The clean-up of one agent.
#[derive(Debug)]
pub(crate) struct Cleaner {
    pub(crate) limits: Limits,
    pub(crate) work_dirs: WorkDirs,
    pub(crate) board: Board,
    /// Told when work has ended.
    pub(crate) ended: Arc<Notify>,
    /// Why no new work is accepted.
    pub(crate) trouble: watch::Sender<Option<String>>,
    pub(crate) stopped: CancellationToken,
}

/// What a look at the disk needs, and keeps for the next one.
#[derive(Debug)]
struct Round {
    limits: Limits,
    work_dirs: WorkDirs,
    board: Board,
    sizes: Sizes,
    scanned_at: Option<Instant>,
    directories: Vec<Usage>,
}

// === impl Cleaner ===

impl Cleaner {
    /// Runs until the agent has stopped.
    pub(crate) async fn run(self) {
        let mut round = Round {
            limits: self.limits,
            work_dirs: self.work_dirs,
            board: self.board,
            sizes: Sizes::default(),
            scanned_at: None,
            directories: Vec::new(),
        };
        loop {
            let began = Instant::now();
            let looked = tokio::task::spawn_blocking(move || {
                let trouble = round.look();
                (round, trouble)
            });
            let Ok((kept, trouble)) = looked.await else {
                // Only a panic or the end of the runtime comes here.
                tracing::error!("the clean-up of the work directory has ended");
                return;
            };
            round = kept;
            self.trouble.send_if_modified(|current| {
                let changed = current.is_some() != trouble.is_some();
                // Figures that move are no news to anybody.
                if changed {
                    match &trouble {
                        Some(reason) => tracing::warn!(reason, "accepting no new work"),
                        None => tracing::info!("accepting work again"),
                    }
                    *current = trouble;
                }
                changed
            });
            let settle = (began.elapsed() * REST).clamp(SETTLE, LOOK_INTERVAL);
            let next = async {
                tokio::select! {
                    () = tokio::time::sleep(LOOK_INTERVAL) => {}
                    () = self.ended.notified() => tokio::time::sleep(settle).await,
                }
            };
            if self.stopped.run_until_cancelled(next).await.is_none() {
                return;
            }
        }
    }
}

// === impl Round ===

impl Round {
    /// Looks, removes what has to go, and says why no new work is accepted. Blocking.
    fn look(&mut self) -> Option<String> {
        match self.try_look() {
            Ok(trouble) => {
                metrics::accepting(trouble.is_none());
                trouble
            }
            Err(error) => {
                metrics::accepting(false);
                Some(format!("disk: the work directory cannot be read: {error}"))
            }
        }
    }

    fn try_look(&mut self) -> io::Result<Option<String>> {
        let mut free = scan::free_bytes(self.work_dirs.root())?;
        let is_due = self
            .scanned_at
            .is_none_or(|at| at.elapsed() >= SCAN_INTERVAL);
        if is_due || self.limits.bytes_max.is_some() || free < self.limits.free_bytes_min {
            self.empty_trash();
            self.clean(free)?;
            self.scanned_at = Some(Instant::now());
            free = scan::free_bytes(self.work_dirs.root())?;
        }
        metrics::disk(free, plan::held(&self.directories));
        Ok(plan::trouble(&self.limits, &self.directories, free))
    }

    fn clean(&mut self, free: u64) -> io::Result<()> {
        // Before the scan: what ends meanwhile is found in use, or was kept when this was read.
        let kept = self.board.kept();
        let kept = |owner: &LogOwner| kept.contains(owner);
        let found = scan::scan(&self.work_dirs, &mut self.sizes, &kept)?;
        let now_ms = interrex_proto::clock::now_ms();
        let mut gone = BTreeSet::new();
        for (owner, reason) in plan::plan(&self.limits, &found, free, now_ms) {
            match self.remove(&owner) {
                Ok(true) => {
                    tracing::info!(?owner, reason = reason.name(), "removed a work directory");
                    metrics::work_dir_removed(reason);
                    gone.insert(owner);
                }
                // Used again meanwhile.
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(?owner, %error, "a work directory could not be removed");
                }
            }
        }
        self.directories = plan::remaining(found, &gone);
        Ok(())
    }

    fn remove(&self, owner: &LogOwner) -> io::Result<bool> {
        let name = uuid::Uuid::new_v4().to_string();
        match self.work_dirs.discard(owner, &name)? {
            Some(path) => fs::remove_dir_all(path).map(|()| true),
            None => Ok(false),
        }
    }

    /// What could not be removed before, in this life or an earlier one.
    fn empty_trash(&self) {
        let trash = self.work_dirs.trash();
        match fs::remove_dir_all(trash) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %trash.display(), %error, "the trash could not be emptied");
            }
        }
    }
}
