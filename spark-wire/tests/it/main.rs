//! Spark's own bytes: read, written again, mutilated.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail loudly; the exception for tests covers only the test functions themselves"
)]

mod captures;
mod fuzz;
mod golden;
mod jvm;
mod learned;
mod messages;
mod probe;
mod support;
