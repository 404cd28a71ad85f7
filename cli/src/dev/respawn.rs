//! When a process that died is started again: at once at first, more slowly the more often it dies.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// The wait before the first restart.
const DELAY_MIN: Duration = Duration::from_millis(200);
/// The longest wait.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// A process that lived this long has earned the shortest wait again.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// The restarts that are planned.
#[derive(Debug, Default)]
pub(super) struct Respawns {
    due: BTreeMap<String, Instant>,
    history: BTreeMap<String, History>,
}

#[derive(Debug, Default)]
struct History {
    deaths: u32,
    started: Option<Instant>,
}

// === impl Respawns ===

impl Respawns {
    /// Plans the restart of `id`, which died at `now`; returns the wait.
    pub(super) fn schedule(&mut self, id: &str, now: Instant) -> Duration {
        let history = self.history.entry(id.to_owned()).or_default();
        if history
            .started
            .is_some_and(|at| now.duration_since(at) >= STABLE_AFTER)
        {
            history.deaths = 0;
        }
        let delay = DELAY_MIN
            .saturating_mul(1 << history.deaths.min(10))
            .min(DELAY_MAX);
        history.deaths = history.deaths.saturating_add(1);
        self.due.insert(id.to_owned(), now + delay);
        delay
    }

    /// `id` was started at `now`.
    pub(super) fn started(&mut self, id: &str, now: Instant) {
        self.history.entry(id.to_owned()).or_default().started = Some(now);
    }

    /// Waits for the next restart that is due, and takes it off the plan. Waits for ever if there is none.
    ///
    /// # Cancel safety
    /// Safe: an entry leaves the plan only when it is returned.
    pub(super) async fn due(&mut self) -> String {
        let first = self.due.iter().min_by_key(|(_, at)| **at);
        let Some((id, at)) = first.map(|(id, at)| (id.clone(), *at)) else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(at).await;
        self.due.remove(&id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_a_bound() {
        let mut respawns = Respawns::default();
        let now = Instant::now();
        let waits: Vec<Duration> = (0..12).map(|_| respawns.schedule("m1", now)).collect();
        assert_eq!(waits[0], DELAY_MIN);
        assert_eq!(waits[1], DELAY_MIN * 2);
        assert_eq!(waits[11], DELAY_MAX);
        assert_eq!(respawns.schedule("m2", now), DELAY_MIN);
    }

    #[test]
    fn a_long_life_resets_the_wait() {
        let mut respawns = Respawns::default();
        let now = Instant::now();
        respawns.schedule("m1", now);
        respawns.schedule("m1", now);
        respawns.started("m1", now);
        assert_eq!(respawns.schedule("m1", now + STABLE_AFTER), DELAY_MIN);
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn what_is_due_comes_once_and_in_order() {
        let mut respawns = Respawns::default();
        let now = Instant::now();
        respawns.schedule("m1", now);
        respawns.schedule("m1", now);
        respawns.schedule("m2", now);
        assert_eq!(respawns.due().await, "m2");
        assert_eq!(respawns.due().await, "m1");
    }
}
