//! Places inside a submission at which a test can have a master die, as by SIGKILL.
//!
//! Only with the feature `kill-points`, which release builds lack: without it everything here is empty and compiles to
//! nothing. With it the environment variable `FAILPOINTS` says what happens where, in the words of the `fail` crate:
//! `before-append=2*off->1*return` dies at the third submission that comes there, `leading-before-send=sleep(3000)`
//! holds each up for three seconds. `return(50)` dies 50 ms after the point was reached.
//!
//! What must never happen: that a point is reached while nobody submits. So the points of the log, which does not know
//! what is in a batch, are silent but for the time in which a submission is being committed, and on followers for ever.

/// A place at which a master may die. The order is that of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillPoint {
    /// The submission is applied in the leader's memory, and no log has it.
    BeforeAppend,
    /// It is written to the leader's own log, and not synced (engines raft and sled).
    AppendedBeforeFsync,
    /// It is synced in the leader's own log, and the leader has not heard of a quorum (engines raft and sled).
    FsyncedBeforeCommit,
    /// It is committed, and nobody has been told.
    CommittedBeforeReply,
    /// Its client was answered, and the driver's order has not left. Use `return(50)` to let the answer arrive.
    RepliedBeforeLaunch,
    /// The leader is about to put a driver's order into its agent's queue: after it was found to lead, before it sends.
    LeadingBeforeSend,
    /// A quorum has just confirmed that this master leads, and the readers who wait have not been answered.
    ConfirmedBeforeAnswer,
    /// A part of a snapshot's records is restored.
    RestoreBetweenBatches,
}

/// While this lives, a submission is being committed by this process.
#[must_use]
#[derive(Debug)]
pub struct Submission {
    #[cfg(feature = "kill-points")]
    counted: bool,
}

/// What `FAILPOINTS` asks for cannot be done.
#[derive(Debug, thiserror::Error)]
#[error("FAILPOINTS: {0}")]
pub struct ArmError(String);

// === impl KillPoint ===

impl KillPoint {
    /// All of them, in the order of a submission.
    pub const ALL: [Self; 8] = [
        Self::BeforeAppend,
        Self::AppendedBeforeFsync,
        Self::FsyncedBeforeCommit,
        Self::CommittedBeforeReply,
        Self::RepliedBeforeLaunch,
        Self::LeadingBeforeSend,
        Self::ConfirmedBeforeAnswer,
        Self::RestoreBetweenBatches,
    ];

    /// Its name in `FAILPOINTS`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeAppend => "before-append",
            Self::AppendedBeforeFsync => "appended-before-fsync",
            Self::FsyncedBeforeCommit => "fsynced-before-commit",
            Self::CommittedBeforeReply => "committed-before-reply",
            Self::RepliedBeforeLaunch => "replied-before-launch",
            Self::LeadingBeforeSend => "leading-before-send",
            Self::ConfirmedBeforeAnswer => "confirmed-before-answer",
            Self::RestoreBetweenBatches => "restore-between-batches",
        }
    }

    /// A master has come to this place. Dies or dawdles if it was told to; blocks the thread then.
    #[cfg(feature = "kill-points")]
    pub fn reach(self) {
        fail::fail_point!(self.name(), |after| self.die(after.as_deref()));
    }

    /// A master has come to this place, which means nothing in this build.
    #[cfg(not(feature = "kill-points"))]
    #[inline]
    pub const fn reach(self) {}

    /// The same, but only while a submission is being committed by this process.
    #[cfg(feature = "kill-points")]
    pub fn reach_in_submission(self) {
        if armed::submissions() > 0 {
            self.reach();
        }
    }

    /// A master has come to this place, which means nothing in this build.
    #[cfg(not(feature = "kill-points"))]
    #[inline]
    pub const fn reach_in_submission(self) {}

    /// Ends the process as SIGKILL does: nothing is flushed, nobody is told. `after`: milliseconds.
    #[cfg(feature = "kill-points")]
    fn die(self, after: Option<&str>) {
        let millis = after.and_then(|text| text.parse().ok()).unwrap_or(0);
        tracing::error!(point = self.name(), "dying at a kill point");
        std::thread::sleep(std::time::Duration::from_millis(millis));
        if let Err(error) = nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL) {
            tracing::error!(%error, "no SIGKILL for itself: aborting");
        }
        std::process::abort()
    }
}

// === impl Submission ===

impl Submission {
    /// A batch begins to be committed; `is_one`: there is a submission in it.
    #[cfg(feature = "kill-points")]
    pub fn begin(is_one: bool) -> Self {
        armed::change(is_one, 1);
        Self { counted: is_one }
    }

    /// A batch begins to be committed.
    #[cfg(not(feature = "kill-points"))]
    #[inline]
    pub const fn begin(_is_one: bool) -> Self {
        Self {}
    }
}

#[cfg(feature = "kill-points")]
impl Drop for Submission {
    fn drop(&mut self) {
        armed::change(self.counted, -1);
    }
}

/// Does what `orders`, the content of `FAILPOINTS`, says from now on. `None`: nothing. To be called once, before a
/// master is opened; the variable is read by whoever calls.
///
/// # Errors
/// [`ArmError`] for a name that is no kill point, for an action that `fail` does not know, and in a build without kill
/// points for any order at all.
#[cfg(feature = "kill-points")]
pub fn arm(orders: Option<&str>) -> Result<(), ArmError> {
    for order in orders.unwrap_or_default().split(';') {
        let order = order.trim();
        if order.is_empty() {
            continue;
        }
        let (name, actions) = order
            .split_once('=')
            .ok_or_else(|| ArmError(format!("`{order}` is not NAME=ACTIONS")))?;
        if !KillPoint::ALL.iter().any(|point| point.name() == name) {
            let known: Vec<&str> = KillPoint::ALL.map(KillPoint::name).to_vec();
            return Err(ArmError(format!(
                "`{name}` is no kill point; there are {}",
                known.join(", ")
            )));
        }
        fail::cfg(name, actions)
            .map_err(|reason| ArmError(format!("`{order}`: {reason}; such as {name}=1*return")))?;
        tracing::warn!(point = name, actions, "a kill point is armed");
    }
    Ok(())
}

/// Refuses any order: this build has no kill points.
///
/// # Errors
/// [`ArmError`] unless there are no orders.
#[cfg(not(feature = "kill-points"))]
pub fn arm(orders: Option<&str>) -> Result<(), ArmError> {
    match orders {
        None | Some("") => Ok(()),
        Some(_) => Err(ArmError(
            "this build has no kill points; build it with --features kill-points, or unset the variable"
                .to_owned(),
        )),
    }
}

#[cfg(feature = "kill-points")]
mod armed {
    use std::sync::atomic::{AtomicI64, Ordering};

    static SUBMISSIONS: AtomicI64 = AtomicI64::new(0);

    pub(super) fn submissions() -> i64 {
        SUBMISSIONS.load(Ordering::Relaxed)
    }

    pub(super) fn change(counts: bool, by: i64) {
        if counts {
            SUBMISSIONS.fetch_add(by, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_a_name_of_its_own() {
        let mut names: Vec<&str> = KillPoint::ALL.map(KillPoint::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KillPoint::ALL.len());
    }

    #[test]
    fn without_orders_nothing_happens_anywhere() {
        arm(None).unwrap();
        arm(Some("")).unwrap();
        let _submission = Submission::begin(true);
        for point in KillPoint::ALL {
            point.reach();
            point.reach_in_submission();
        }
    }

    #[cfg(feature = "kill-points")]
    #[test]
    fn orders_that_make_no_sense_are_refused_with_what_would() {
        for (orders, words) in [
            ("before-append", "NAME=ACTIONS"),
            ("before-breakfast=return", "before-append"),
            ("before-append=explode", "before-append=1*return"),
        ] {
            let refused = arm(Some(orders)).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[cfg(not(feature = "kill-points"))]
    #[test]
    fn a_build_without_kill_points_refuses_orders() {
        let refused = arm(Some("before-append=return")).unwrap_err().to_string();
        assert!(refused.contains("--features kill-points"), "{refused}");
    }
}
