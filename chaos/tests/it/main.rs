//! Tests of the simulator as a whole, and of what its histories look like when they are reported.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by failing")]

mod report;
mod sim;
