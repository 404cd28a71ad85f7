//! The core seen from outside: commands in, transitions out.

mod agents;
mod applications;
mod drivers;
mod properties;
mod recovery;
mod scale;
mod support;
mod vectors;
mod workers;
