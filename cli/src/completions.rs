//! `interrex completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{
    args::Cli,
    exit::{Done, Exit},
    output,
};

/// Options of `interrex completions`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  interrex completions bash > ~/.local/share/bash-completion/completions/interrex"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `interrex completions`.
pub(crate) fn run(args: &CompletionsArgs) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "interrex", &mut script);
    output::bytes(&script)?;
    Ok(Exit::Ok)
}
