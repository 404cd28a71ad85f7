//! The process supervisor as a program of its own, for the tests of this package. Users meet it as the hidden
//! subcommand `process-supervisor` of `interrex`.

use std::process::ExitCode;

fn main() -> ExitCode {
    interrex_agent::supervisor::run(std::env::args_os().skip(1))
}
