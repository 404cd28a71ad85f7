//! How client commands reach the cluster.

use std::time::Duration;

use interrex_client::{
    control::{ClientOptions, ControlClient, SnapshotClient},
    masters,
};

use crate::{exit::Failure, output, token::TokenArgs};

/// The masters that `interrex dev` starts.
pub(crate) const DEV_MASTERS: &str = "127.0.0.1:7077,127.0.0.1:7078,127.0.0.1:7079";

/// How long a command says nothing while no master answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// The connection options, shared by every client command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Connect {
    /// The masters: `A,B,C` or `spark://A,B,C`; the default is what `interrex dev` starts
    #[arg(
        long,
        global = true,
        env = "INTERREX_MASTERS",
        value_name = "A,B,C",
        default_value = DEV_MASTERS
    )]
    pub(crate) masters: String,
    /// How long one request may look for a leader and be repeated
    #[arg(
        long,
        global = true,
        env = "INTERREX_DEADLINE",
        value_name = "TIME",
        default_value = "30s"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    pub(crate) deadline: Duration,
    #[command(flatten)]
    pub(crate) token: TokenArgs,
}

// === impl Connect ===

impl Connect {
    /// Options for `masters`, with the default deadline.
    pub(crate) fn to(masters: &str) -> Self {
        Self {
            masters: masters.to_owned(),
            deadline: Duration::from_secs(30),
            token: TokenArgs::default(),
        }
    }

    /// The masters, one by one.
    ///
    /// # Errors
    /// A list that cannot be read is a usage failure.
    pub(crate) fn list(&self) -> Result<Vec<String>, Failure> {
        masters::parse([&self.masters]).map_err(|e| Failure::usage(e.to_string()))
    }

    /// A client of the cluster; nothing is dialled yet.
    ///
    /// # Errors
    /// See [`Self::list`].
    pub(crate) fn client(&self) -> Result<ControlClient, Failure> {
        self.client_within(self.deadline)
    }

    /// The same, with a deadline of its own for each request.
    ///
    /// # Errors
    /// See [`Self::list`].
    pub(crate) fn client_within(&self, deadline: Duration) -> Result<ControlClient, Failure> {
        let mut options = ClientOptions::new(self.list()?);
        options.total_deadline = deadline;
        options.channel.credentials = self.token.credentials()?;
        ControlClient::new(options).map_err(|e| Failure::usage(e.to_string()))
    }

    /// A client for snapshots; nothing is dialled yet.
    ///
    /// # Errors
    /// See [`Self::list`].
    pub(crate) fn snapshots(&self) -> Result<SnapshotClient, Failure> {
        let mut options = ClientOptions::new(self.list()?);
        options.total_deadline = self.deadline;
        options.channel.credentials = self.token.credentials()?;
        SnapshotClient::new(options).map_err(|e| Failure::usage(e.to_string()))
    }

    /// Waits for a `call`, and tells people why nothing is to be seen when it takes long.
    pub(crate) async fn patiently<T>(&self, call: impl Future<Output = T>) -> T {
        tokio::pin!(call);
        tokio::select! {
            answer = &mut call => return answer,
            () = tokio::time::sleep(PATIENCE) => {
                output::say(&format!(
                    "no answer yet from {}; looking for a leader (--deadline {})",
                    self.masters,
                    humantime::format_duration(self.deadline)
                ));
            }
        }
        call.await
    }
}
