//! Tests of the simulator as a whole.

mod sim;
