//! Black-box tests of the real binary.
//!
//! `cluster` runs whole clusters through `interrex dev`, each on ports and in a directory of its own. The other
//! modules need at most single processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on says so by failing"
)]

mod architecture;
mod bad_input;
mod chaos;
mod chaos_scenarios;
mod cluster;
mod config;
mod observability;
mod spark_differences;
mod support;
mod test_names;
mod tidy;
mod ui;
