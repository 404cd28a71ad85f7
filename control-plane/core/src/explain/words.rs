//! Pieces of sentences.

use std::time::Duration;

use crate::{resources::Demand, state::driver::Driver, time::Timestamp};

/// Of a worker, where an agent is needed.
pub(super) const OF_SPARK: &str = "one of Spark's own workers starts Spark's executors and jars only, and nothing that may run at most once";

/// `2 cores`, `1 core`.
pub(super) fn count(n: u64, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

/// `1 core, 512 MiB and 2 gpu`.
pub(super) fn amounts(demand: &Demand) -> String {
    let mut parts = vec![
        count(u64::from(demand.cores.0), "core"),
        format!("{} MiB", demand.memory.0),
    ];
    let custom = demand.resources.iter().filter(|(_, amount)| **amount > 0);
    parts.extend(custom.map(|(name, amount)| format!("{amount} {name}")));
    list(&parts)
}

/// The same, and what the worker must be able to do.
pub(super) fn needs(demand: &Demand) -> String {
    match &demand.capability {
        Some(capability) => format!(
            "{} on a worker with the capability `{capability}`",
            amounts(demand)
        ),
        None => amounts(demand),
    }
}

/// `a, b and c`.
pub(super) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// How long until `at`, in whole seconds, at least one.
pub(super) fn until(at: Timestamp, now: Timestamp) -> String {
    let wait = at.since(now).max(Duration::from_millis(1));
    format!("{} s", wait.as_millis().div_ceil(1_000))
}

/// How long ago `since` was, in whole seconds.
pub(super) fn elapsed(since: Timestamp, now: Timestamp) -> String {
    format!("{} s", now.since(since).as_secs())
}

/// Whose things these are.
pub(super) fn user(user: &str) -> String {
    if user.is_empty() {
        "whoever gives no user".to_owned()
    } else {
        format!("user {user}")
    }
}

/// The last failure of a driver that runs again, if there was one.
pub(super) fn failures(driver: &Driver) -> Option<String> {
    let last = match driver.message.as_str() {
        "" => String::new(),
        message => format!("; last: {message}"),
    };
    match driver.failures {
        0 => None,
        1 => Some(format!("failed once{last}")),
        n => Some(format!("failed {n} times in a row{last}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{Amounts, Cores, MemoryMib};

    #[test]
    fn what_is_needed_reads_as_a_sentence() {
        let demand = Demand {
            cores: Cores(1),
            memory: MemoryMib(512),
            resources: Amounts::from([("fpga".to_owned(), 1), ("gpu".to_owned(), 2)]),
            capability: Some("spark".to_owned()),
            needs_agent: true,
        };
        assert_eq!(
            needs(&demand),
            "1 core, 512 MiB, 1 fpga and 2 gpu on a worker with the capability `spark`"
        );
        assert_eq!(until(Timestamp(4_001), Timestamp(1_000)), "4 s");
        assert_eq!(until(Timestamp(0), Timestamp(1_000)), "1 s");
    }
}
