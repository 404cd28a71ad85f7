//! Black-box tests of a master: real sockets on loopback, the memory engine.

mod admin;
mod control;
mod rest;
mod rest_forward;
mod rest_support;
