//! Tests of the simulator as a whole, of what its histories look like when they are reported, and of the proxy of live runs.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by failing"
)]

mod proxy;
mod report;
mod sim;
