//! The client against scripted masters: real gRPC on loopback, no real cluster.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test says what it expects; anything else fails it and is printed"
)]

#[cfg(test)]
mod app;
#[cfg(test)]
mod control;
#[cfg(test)]
mod events;
#[cfg(test)]
mod session;
#[cfg(test)]
mod support;
