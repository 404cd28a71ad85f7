//! Black-box tests of a master: the real composition root in this process, real sockets on loopback, the memory
//! engine.

mod admin;
mod agents;
mod apps;
mod control;
mod failover;
mod recovery;
mod rest;
mod rest_forward;
mod rest_support;
mod serving;
mod submit;
mod support;
