//! Why an agent does not start. Once started, it never ends by itself.

use std::{io, net::SocketAddr};

use interrex_client::session::SessionError;

use crate::{options::InvalidOptions, state::StateError};

/// Why an agent does not start. Retrying helps only where what the message names has changed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The options are bad.
    #[error("agent options: {0}")]
    Options(#[from] InvalidOptions),
    /// The work directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// What an earlier life has left cannot be read.
    #[error("reading {what} of the work directory: {source}")]
    Leftovers {
        /// Results, or records of attempts.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The web address cannot be had.
    #[error("web address {address}: {source}: free the port, or choose another (0 picks one)")]
    Web {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The session cannot be opened.
    #[error("masters: {0}")]
    Session(#[from] SessionError),
}
