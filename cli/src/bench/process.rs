//! What a process of this machine takes, from the kernel.

use std::time::Duration;

use crate::exit::Failure;

/// One tick of the times in `/proc`: the kernel shows them to programs in hundredths of a second on every platform that
/// this program is built for.
const TICK: Duration = Duration::from_millis(10);

/// Memory that a process holds.
pub(super) fn resident_bytes(pid: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/status");
    let text = read(&path)?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|k| k * 1024)
        .ok_or_else(|| Failure::failed(format!("{path} has no VmRSS")))
}

/// Time that a process has spent on processors since its start, over all its threads.
pub(super) fn cpu_time(pid: u32) -> Result<Duration, Failure> {
    let path = format!("/proc/{pid}/stat");
    let text = read(&path)?;
    cpu_time_in(&text).ok_or_else(|| Failure::failed(format!("{path} has no times: {text}")))
}

/// Cores that `spent` is over `elapsed`.
pub(super) fn cores(spent: Duration, elapsed: Duration) -> f64 {
    spent.as_secs_f64() / elapsed.as_secs_f64().max(f64::EPSILON)
}

/// Fields 14 and 15, counted from behind the program's name: it may have spaces and parentheses in it.
fn cpu_time_in(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * user.saturating_add(system))
}

fn read(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|e| Failure::io(path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "42 (a) S b) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 7 7 20 0 9 0 12 1 1";
        assert_eq!(cpu_time_in(stat), Some(Duration::from_secs(3)));
        assert_eq!(cpu_time_in("42 (a) S 1"), None);
        let own = std::process::id();
        assert!(cpu_time(own).is_ok() && resident_bytes(own).is_ok_and(|bytes| bytes > 0));
    }

    #[test]
    fn half_the_time_is_half_a_core() {
        let half = cores(Duration::from_secs(5), Duration::from_secs(10));
        assert!((half - 0.5).abs() < 1e-9);
    }
}
