//! The agent from outside: real processes under real supervisors, real files, and a master of a few lines.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::type_complexity,
    reason = "tests: a surprise is to fail them"
)]

mod agent;
mod at_most_once;
mod disk;
mod master;
mod owned;
mod pages;
mod runner;
mod runner_leases;
mod stubborn;
mod support;
