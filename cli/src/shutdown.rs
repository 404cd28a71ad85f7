//! SIGINT and SIGTERM: the first asks for an orderly end, the second ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// The signals that ask this process to end.
#[derive(Debug)]
pub(crate) struct Shutdown {
    interrupt: Signal,
    terminate: Signal,
}

// === impl Shutdown ===

impl Shutdown {
    /// Listens from now on; the signals no longer end the process by themselves.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(|e| Failure::io("listening for signals", &e));
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
        })
    }

    /// Returns the name of the next signal.
    ///
    /// # Cancel safety
    /// Safe: a signal that arrives in between is returned by the next call.
    pub(crate) async fn asked(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
