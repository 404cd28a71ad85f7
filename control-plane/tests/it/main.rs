//! Black-box tests of a master: the real composition root in this process, real sockets on loopback, the memory
//! engine.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly; the exception for tests covers only the test functions themselves"
)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a test looks for one frame and skips every other"
)]
#![allow(clippy::too_many_lines, reason = "a table of bad input is one test")]

mod access;
mod admin;
mod agents;
mod app_failover;
mod app_progress;
mod apps;
mod control;
mod corpus;
mod failover;
mod hand_over;
mod heartbeats;
mod patience;
mod recovery;
mod rest;
mod rest_forward;
mod rest_support;
mod same_epoch;
mod serving;
mod slow_readers;
mod snapshots;
mod spark_probe;
mod spark_rpc;
mod spark_workers;
mod submit;
mod support;
mod web;
mod web_actions;
mod web_json;
mod web_support;
