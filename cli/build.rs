//! Names the commit that a release is built from: `INTERREX_COMMIT` where it is set (an archive has no git), else what git says.
//! A debug build does not ask, so that a commit does not build everything anew. Never fails: a commit that nobody knows is
//! `unknown`.

use std::{io::Write, process::Command};

fn main() {
    tell("rerun-if-changed=build.rs");
    tell("rerun-if-env-changed=INTERREX_COMMIT");
    let given = std::env::var("INTERREX_COMMIT").ok();
    let given = given.filter(|commit| is_plain(commit));
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| release.then(asked_of_git).flatten());
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    tell(&format!("rustc-env=INTERREX_BUILT_FROM={commit}"));
}

/// The commit that is checked out, with `+` where the tree differs from it.
fn asked_of_git() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    // What says that another commit is checked out: the branch's own file, or HEAD where that is on none.
    for name in [
        Some("HEAD".to_owned()),
        git(&["symbolic-ref", "-q", "HEAD"]),
    ] {
        let path = name.and_then(|name| git(&["rev-parse", "--git-path", &name]));
        if let Some(path) = path.filter(|path| std::path::Path::new(path).exists()) {
            tell(&format!("rerun-if-changed={path}"));
        }
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let mark = if changed.is_empty() { "" } else { "+" };
    Some(format!("{commit}{mark}")).filter(|commit| is_plain(commit))
}

/// Tells cargo something; where it does not listen, nobody is there to build for.
fn tell(line: &str) {
    drop(writeln!(std::io::stdout(), "cargo:{line}"));
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Whether this can be a label and a part of a version.
fn is_plain(commit: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-_.".contains(c);
    (1..=64).contains(&commit.len()) && commit.chars().all(plain)
}
