//! What each scenario does, one file a family.

pub(super) mod clients;
pub(super) mod leaders;
pub(super) mod restarts;
