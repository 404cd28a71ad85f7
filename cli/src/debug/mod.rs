//! `interrex debug`: what somebody who is to help has to see, and have logged.

mod bundle;
mod collect;
mod log_level;
mod redact;

use clap::Subcommand;

use self::{bundle::BundleArgs, log_level::LogLevelArgs};
use crate::{config::File, exit::Done};

/// Options of `interrex debug`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  interrex debug bundle --logs /var/log/interrex")]
pub(crate) struct DebugArgs {
    #[command(subcommand)]
    command: DebugCommand,
}

#[derive(Debug, Subcommand)]
enum DebugCommand {
    /// Pack state, events, health, metrics and logs into one file
    Bundle(BundleArgs),
    /// Show or change what masters and agents log, while they run
    LogLevel(LogLevelArgs),
}

/// Runs `interrex debug`.
pub(crate) async fn run(args: DebugArgs, file: Option<&File>) -> Done {
    match args.command {
        DebugCommand::Bundle(args) => bundle::run(args, file).await,
        DebugCommand::LogLevel(args) => log_level::run(args).await,
    }
}
