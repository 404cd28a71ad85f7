//! What each scenario does, one file a family.

pub(super) mod clients;
pub(super) mod coordinator;
pub(super) mod disks;
pub(super) mod leaders;
pub(super) mod links;
pub(super) mod members;
pub(super) mod points;
pub(super) mod power;
pub(super) mod restarts;
pub(super) mod soak;
pub(super) mod spark;

use std::time::{Duration, Instant};

use super::{options::LiveError, stage::Stage};

/// How long beyond its time a run may go on, to try what has not done anything yet.
const PATIENCE: Duration = Duration::from_secs(60);

/// Does one thing after the other until the time is over and each has done something, or nobody has patience any more.
pub(super) async fn in_turn<F>(
    stage: &mut Stage<'_>,
    names: &[&'static str],
    mut once: F,
) -> Result<(), LiveError>
where
    F: AsyncFnMut(&mut Stage<'_>, &'static str) -> Result<(), LiveError>,
{
    let last = stage.until + PATIENCE;
    loop {
        for name in names {
            let missing = names.iter().any(|name| stage.journal.hits(name) == 0);
            let goes_on = stage.goes_on() || (missing && Instant::now() < last);
            if !goes_on {
                return Ok(());
            }
            // Beyond the time only what has not done anything yet.
            if stage.goes_on() || stage.journal.hits(name) == 0 {
                once(stage, name).await?;
            }
        }
    }
}
