//! Commands on a terminal, which is what `script` of util-linux gives them.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::support::{Cluster, Process, interrex, wait_for};

/// `command` on a terminal of its own, with what was typed there; what it shows, and whether it ended well.
fn on_a_terminal(command: &Command, typed: &[u8], until: &str) -> (bool, String) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted: Vec<String> = words
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    let folder = tempfile::tempdir().expect("a directory");
    let shown = folder.path().join("shown");
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--flush", "--command"]);
    script
        .arg(format!("stty rows 40 cols 120; {}", quoted.join(" ")))
        .arg(&shown);
    script
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    // It is part of Debian's base.
    let mut child = Process::spawn(&mut script);
    let read = || String::from_utf8_lossy(&std::fs::read(&shown).unwrap_or_default()).into_owned();
    wait_for(&format!("`{until}` on the terminal"), || {
        // A command that has ended shows nothing more.
        let ended = child.try_wait().expect("a child of ours").is_some();
        (ended || read().contains(until)).then_some(())
    });
    // Where the command has ended, nobody reads.
    drop(child.stdin.take().map(|mut stdin| stdin.write_all(typed)));
    let status = wait_for("the end of the command", || {
        child.try_wait().expect("a child of ours")
    });
    (status.success(), read())
}

#[test]
fn commands_work_where_their_log_goes_to_a_terminal() {
    let mut command = interrex();
    command.args(["completions", "bash"]);
    let (well, shown) = on_a_terminal(&command, b"", "complete -F");
    assert!(well && !shown.contains("panicked"), "{shown}");
}

#[test]
fn top_shows_the_cluster_until_somebody_ends_it() {
    let cluster = Cluster::start(&["--agents", "1"]);
    let (leader, _) = cluster.leader();
    let mut command = interrex();
    command.args(["top", "--masters", &cluster.addresses("rpc").join(",")]);
    // Words stand alone: blanks are not drawn.
    let (well, shown) = on_a_terminal(&command, b"q", "leads");
    assert!(well, "{shown}");
    for words in [leader.as_str(), "Masters", "Cores", "submissions", "Events"] {
        assert!(shown.contains(words), "{words} in\n{shown}");
    }
    let refused = cluster.run(&["top"]);
    assert_eq!(
        refused.status.code(),
        Some(2),
        "no terminal, and a program is told so"
    );
}
