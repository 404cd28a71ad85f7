//! How long something that failed waits before it is started again.

use std::time::Duration;

/// `min` after the first failure in a row, doubled with each further one, at most `max`.
pub(crate) fn wait_after(failures: u32, min: Duration, max: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    min.saturating_mul(1 << doublings).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_bound() {
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(60));
        let seconds: Vec<_> = [0, 1, 2, 3, 6, 7, u32::MAX]
            .map(|n| wait_after(n, min, max).as_secs())
            .into();
        assert_eq!(seconds, [1, 1, 2, 4, 32, 60, 60]);
    }
}
