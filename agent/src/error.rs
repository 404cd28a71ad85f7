//! Why an agent does not start. Once started, it never ends by itself.

use std::{io, net::SocketAddr, path::PathBuf};

use interrex_client::session::SessionError;
use interrex_proto::limits::SPARK_DICTIONARIES_MAX;
use interrex_spark_wire::learn::LearnError;

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
    /// What was given as an installation of Spark is none.
    #[error("--spark-home {home}: {source}", home = home.display())]
    Spark {
        /// As it was given.
        home: PathBuf,
        /// What is wrong with it.
        source: LearnError,
    },
    /// Two installations of one line: executors could get either.
    #[error(
        "--spark-home {home} and {other} are both Spark {line}: give one of them",
        home = home.display(), other = other.display()
    )]
    SparkTwice {
        /// Of both.
        line: String,
        /// The second one.
        home: PathBuf,
        /// The first one.
        other: PathBuf,
    },
    /// More builds than masters can be taught by one agent.
    #[error(
        "--spark-home names {} builds of Spark that are not built in ({}); at most {SPARK_DICTIONARIES_MAX} of one agent",
        lines.len(), lines.join(", ")
    )]
    SparkTooMany {
        /// They.
        lines: Vec<String>,
    },
    /// The session cannot be opened.
    #[error("masters: {0}")]
    Session(#[from] SessionError),
}
