//! The two kinds of runtime that a command may need.

use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// One thread: for clients, and for what starts processes that must die with the thread that started them.
///
/// # Errors
/// When the system refuses what a runtime is made of.
pub(crate) fn single() -> Result<Runtime, Failure> {
    build(Builder::new_current_thread())
}

/// A thread for each core: for servers and benches.
///
/// # Errors
/// See [`single`].
pub(crate) fn many() -> Result<Runtime, Failure> {
    build(Builder::new_multi_thread())
}

fn build(mut builder: Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built.map_err(|e| Failure::io("starting the runtime", &e))
}
