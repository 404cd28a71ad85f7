//! A child of `interrex dev` or of a bench never outlives its parent.
//!
//! Two ties, because each covers what the other cannot. The kernel's parent-death signal ends even a child
//! that is stopped; the pipe on stdin ends a child on systems without that signal. Both are set up before
//! anything else starts, from the child's main thread.

use std::io::Read;

use crate::exit::Failure;

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
