//! What `/proc` says about processes, and the last resort: ending a tree that has lost its supervisor.
//!
//! Pids are reused, so a pid alone is never enough to signal a process. A supervisor signals only its own
//! unreaped children and the group of its unreaped main process, whose numbers the kernel cannot hand out again. The
//! sweep of this module, for trees whose supervisor was killed, recognises a process by the token in its environment
//! (random for each attempt, inherited over fork, exec and setsid), or by the group of a leader whose start time is
//! the recorded one. What is left is the instant between the look and the signal.

use std::{fs, io, os::unix::ffi::OsStrExt, path::Path};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{options::SUPERVISOR_SUBCOMMAND, process::protocol::MainProcess};

/// The environment variable that marks every process of an attempt.
pub const TOKEN_VARIABLE: &str = "INTERREX_PROCESS_TOKEN";

/// The fields of `/proc/<pid>/stat` that are needed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The process.
    pub pid: i32,
    /// `Z` is a zombie: ended, not yet waited for.
    pub state: char,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

/// Reads one process; `None` where it does not exist any more.
#[must_use]
pub fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(pid, &String::from_utf8_lossy(&text))
}

/// The command name is in parentheses and may hold anything, further parentheses included: the fields start after
/// the last one.
fn parse_stat(pid: i32, text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        pid,
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// Every process that this one may see.
///
/// # Errors
/// Only where `/proc` itself cannot be listed.
pub fn all() -> io::Result<impl Iterator<Item = Stat>> {
    let pids = fs::read_dir("/proc")?
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    Ok(pids.filter_map(stat))
}

/// The direct children of `parent`, zombies included.
///
/// # Errors
/// Only where `/proc` itself cannot be listed.
pub fn children_of(parent: i32) -> io::Result<Vec<Stat>> {
    Ok(all()?.filter(|process| process.parent == parent).collect())
}

/// Sends SIGKILL to everything alive that belongs to an attempt, and says how many processes that were. Zero means
/// that nothing is left.
///
/// # Errors
/// Where `/proc` cannot be listed, or a process of ours may not be signalled.
pub fn sweep(token: &str, main: Option<MainProcess>) -> io::Result<usize> {
    // The group is trusted only while its leader is surely the process that the supervisor started.
    let group = main
        .filter(|main| stat(main.pid).is_some_and(|found| found.start_ticks == main.start_ticks))
        .map(|main| main.pid);
    let mark = format!("{TOKEN_VARIABLE}={token}");
    let mut found = 0;
    for process in all()? {
        let ended = matches!(process.state, 'Z' | 'X');
        let ours = Some(process.group) == group || carries(process.pid, &mark);
        if ended || !ours {
            continue;
        }
        found += 1;
        match kill(Pid::from_raw(process.pid), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(found)
}

/// Sends SIGKILL to the supervisor of the attempt that is recorded at `record`. A stopped process ends by that, too.
///
/// # Errors
/// Where `/proc` cannot be listed, or the supervisor may not be signalled.
pub fn end_supervisor(record: &Path) -> io::Result<()> {
    for process in all()? {
        let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        let words: Vec<&[u8]> = line
            .strip_suffix(b"\0")
            .unwrap_or(&line)
            .split(|byte| *byte == 0)
            .collect();
        let is_supervisor = words
            .iter()
            .any(|word| word.ends_with(SUPERVISOR_SUBCOMMAND.as_bytes()));
        if !is_supervisor || words.last() != Some(&record.as_os_str().as_bytes()) {
            continue;
        }
        match kill(Pid::from_raw(process.pid), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn carries(pid: i32, mark: &str) -> bool {
    // Other users' processes cannot be read, and are not ours.
    let path = format!("/proc/{pid}/environ");
    let Ok(environment) = fs::read(Path::new(&path)) else {
        return false;
    };
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_parentheses_does_not_shift_the_fields() {
        let text = "17 (a) b (c)) S 4 17 17 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 1";
        let expected = Stat {
            pid: 17,
            state: 'S',
            parent: 4,
            group: 17,
            start_ticks: 98765,
        };
        assert_eq!(parse_stat(17, text), Some(expected));
    }

    #[test]
    fn a_truncated_line_is_no_process() {
        assert_eq!(parse_stat(17, "17 (a"), None);
        assert_eq!(parse_stat(17, "17 (a) S 4"), None);
    }

    #[test]
    fn this_process_sees_itself() {
        let me = i32::try_from(std::process::id()).unwrap();
        let found = stat(me).unwrap();
        assert_eq!(found.pid, me);
        assert!(found.start_ticks > 0);
    }
}
