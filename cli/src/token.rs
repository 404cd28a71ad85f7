//! The token that agents and client commands show to masters.

use std::path::PathBuf;

use interrex_proto::credentials::{Credentials, FILE_VARIABLE};

use crate::{
    exit::{Failure, chain},
    reload,
};

/// Where the token is.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct TokenArgs {
    /// A file with the token to show to masters that want one; or set `INTERREX_TOKEN` to the token itself
    #[arg(long, global = true, env = FILE_VARIABLE, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

// === impl TokenArgs ===

impl TokenArgs {
    /// The token, or none.
    ///
    /// # Errors
    /// One that cannot be read or used is a usage failure.
    pub(crate) fn credentials(&self) -> Result<Credentials, Failure> {
        let read = match &self.token_file {
            Some(file) => Credentials::read(file),
            None => Credentials::of_environment(),
        };
        read.map_err(|e| Failure::usage(chain(&e)))
    }

    /// The same, read again at each SIGHUP.
    ///
    /// # Errors
    /// As for [`credentials`](Self::credentials).
    pub(crate) fn lasting(&self) -> Result<Credentials, Failure> {
        let credentials = self.credentials()?;
        if let Some(file) = self.token_file.clone() {
            let shared = credentials.clone();
            reload::also("token", move || {
                shared.read_again(&file).map_err(|e| e.to_string())
            });
        }
        Ok(credentials)
    }
}
