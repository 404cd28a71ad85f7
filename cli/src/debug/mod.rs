//! `interrex debug`: what somebody who is to help has to see.

mod bundle;
mod collect;
mod redact;

use clap::Subcommand;

use self::bundle::BundleArgs;
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
}

/// Runs `interrex debug`.
pub(crate) async fn run(args: DebugArgs, file: Option<&File>) -> Done {
    match args.command {
        DebugCommand::Bundle(args) => bundle::run(args, file).await,
    }
}
