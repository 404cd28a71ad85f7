//! A child of `interrex dev` or of a bench never outlives its parent.
//!
//! Two ties, because each covers what the other cannot. The kernel's parent-death signal ends even a child
//! that is stopped; the pipe on stdin ends a child on systems without that signal. Both are set up before
//! anything else starts, from the child's main thread.

use std::{ffi::OsString, io::Read, os::unix::process::CommandExt, process::Command};

use crate::exit::Failure;

/// The hidden command that ties a program which is not ours to its parent: `PARENT PROGRAM ARGS...`.
pub(crate) const TIED_PROGRAM: &str = "tied-program";

/// Becomes another program that ends with this process's parent. Returns only if that did not work.
///
/// The kernel keeps the parent-death signal across the change of programs; where there is no such signal, such a program
/// is ended in order only.
pub(crate) fn become_tied(mut args: impl Iterator<Item = OsString>) -> Failure {
    let parent = args.next().and_then(|a| a.to_str()?.parse().ok());
    let (Some(parent), Some(program)) = (parent, args.next()) else {
        return Failure::usage(format!("{TIED_PROGRAM} PARENT PROGRAM ARGS..."));
    };
    if let Err(failure) = tie_to_thread_of(parent) {
        return failure;
    }
    let error = Command::new(&program).args(args).exec();
    Failure::io(&format!("running {}", program.display()), &error)
}

/// Ties this process to the process `parent`. Returns at once.
///
/// # Errors
/// When `parent` is gone already, or the kernel refuses.
pub(crate) fn tie_to(parent: u32) -> Result<(), Failure> {
    tie_to_thread_of(parent)?;
    std::thread::Builder::new()
        .name("parent-watch".to_owned())
        .spawn(watch_stdin)
        .map(drop)
        .map_err(|e| Failure::io("starting the thread that watches the parent", &e))
}

#[cfg(target_os = "linux")]
fn tie_to_thread_of(parent: u32) -> Result<(), Failure> {
    use nix::{sys::prctl, sys::signal::Signal, unistd::getppid};
    prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|e| Failure::failed(format!("asking for a signal at the parent's death: {e}")))?;
    // The parent may have died before the request: then nobody will send that signal.
    if u32::try_from(getppid().as_raw()) != Ok(parent) {
        return Err(Failure::failed(format!(
            "the parent process {parent} is gone"
        )));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn tie_to_thread_of(_parent: u32) -> Result<(), Failure> {
    Ok(())
}

/// The parent holds the other end and never writes: the end of input is the end of the parent.
#[expect(
    clippy::exit,
    reason = "the parent is gone: this process must be, too, as if it was killed"
)]
fn watch_stdin() {
    let mut stdin = std::io::stdin().lock();
    let mut buffer = [0_u8; 64];
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => std::process::exit(1),
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => std::process::exit(1),
        }
    }
}
