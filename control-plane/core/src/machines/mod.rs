//! What an entity becomes when something happens to its process: one pure function for each entity, without the
//! cluster around it.

pub(crate) mod application;
pub(crate) mod backoff;
pub(crate) mod driver;
pub(crate) mod executor;
pub(crate) mod recovery;
pub(crate) mod worker;
