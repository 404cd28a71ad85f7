//! What is alive on this machine and belongs to a run, as the kernel knows it.

use std::{fs, io, path::Path};

use interrex_agent::process::proc;

use super::ledger::MARK;

/// A process that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alive {
    pub(super) pid: u32,
    /// The driver that it belongs to; empty for others.
    pub(super) driver: String,
    /// Its attempt.
    pub(super) attempt: u32,
    /// Its command line, cut.
    pub(super) command: String,
}

/// Longest command line that is shown, in characters.
const COMMAND_CHARS_MAX: usize = 200;

/// Every process of the work of run `run`: those that carry its mark, which is inherited by whatever they start.
/// Blocking.
pub(super) fn work_of(run: &str) -> io::Result<Vec<Alive>> {
    let mark = format!("{MARK}={run}");
    pick(|_, environment| has(environment, &mark))
}

/// Every process whose command line names something in `dir`, and every process of the work of run `run`. Blocking.
pub(super) fn all_of(run: &str, dir: &Path) -> io::Result<Vec<Alive>> {
    let mark = format!("{MARK}={run}");
    let dir = format!("{}/", dir.display());
    pick(|command, environment| command.contains(&dir) || has(environment, &mark))
}

fn has(environment: &str, mark: &str) -> bool {
    environment.split('\0').any(|variable| variable == mark)
}

fn pick(belongs: impl Fn(&str, &str) -> bool) -> io::Result<Vec<Alive>> {
    let me = std::process::id();
    let mut found = Vec::new();
    for process in proc::all()? {
        let Ok(pid) = u32::try_from(process.pid) else {
            continue;
        };
        if pid == me || matches!(process.state, 'Z' | 'X') {
            continue;
        }
        // Of other users, or gone meanwhile: not ours.
        let read = |what: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (command, environment) = (read("cmdline").replace('\0', " "), read("environ"));
        if !belongs(&command, &environment) {
            continue;
        }
        let variable = |name: &str| {
            let mut all = environment.split('\0');
            all.find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='))
                .unwrap_or_default()
                .to_owned()
        };
        found.push(Alive {
            pid,
            driver: variable("INTERREX_DRIVER_ID"),
            attempt: variable("INTERREX_ATTEMPT").parse().unwrap_or(0),
            command: command.chars().take(COMMAND_CHARS_MAX).collect(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_carries_the_mark_is_found_and_nothing_else() {
        let run = format!("test-{}", std::process::id());
        assert_eq!(work_of(&run).unwrap(), []);
        let mut marked = Command::new("sleep")
            .arg("60")
            .env(MARK, &run)
            .env("INTERREX_DRIVER_ID", "driver-1")
            .env("INTERREX_ATTEMPT", "2")
            .spawn()
            .unwrap();
        let found = work_of(&run).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, marked.id());
        assert_eq!(
            (found[0].driver.as_str(), found[0].attempt),
            ("driver-1", 2)
        );
        marked.kill().unwrap();
        marked.wait().unwrap();
        assert_eq!(work_of(&run).unwrap(), []);
    }
}
