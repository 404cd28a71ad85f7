//! The command line, as a tree. Each command's options and examples stand beside its code.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::{
    agent::AgentArgs,
    bench::BenchArgs,
    cluster::ClusterArgs,
    completions::CompletionsArgs,
    config::command::ConfigCommand,
    dev::DevArgs,
    jobs::{kill::KillArgs, list::ListArgs, logs::LogsArgs, status::StatusArgs, wait::WaitArgs},
    logging::LogArgs,
    master::MasterArgs,
    run::RunArgs,
    submit::SubmitArgs,
};

const EXAMPLES: &str = "\
Examples:
  interrex dev                                      a cluster on this machine
  export INTERREX_MASTERS=127.0.0.1:7077,127.0.0.1:7078,127.0.0.1:7079
  interrex submit --wait -- sh -c 'echo hello'      run a driver
  interrex list drivers
  interrex cluster status

Exit codes:
  0 ok               1 failed           2 usage          3 no leader reachable
  4 refused          5 not found or conflict             6 timeout
  10 job failed      11 job killed      12 accepted but waiting";

/// A fault-tolerant control plane for drivers and applications with executors.
#[derive(Debug, Parser)]
#[command(name = "interrex", version, about, after_help = EXAMPLES)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    /// Read options from this TOML file; flags and environment win
    #[arg(long, global = true, value_name = "FILE", env = "INTERREX_CONFIG")]
    #[arg(help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    /// Ends this process when the process with this id, its parent, is gone
    #[arg(long, global = true, value_name = "PID", hide = true)]
    pub(crate) exit_with_parent: Option<u32>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a master
    Master(Box<MasterArgs>),
    /// Run an agent: the worker that starts drivers and executors
    Agent(Box<AgentArgs>),
    /// Run a whole cluster of real processes on this machine
    Dev(DevArgs),
    /// Submit a driver: one program, run on one agent
    Submit(Box<SubmitArgs>),
    /// Run an application: executors of one command across the agents
    Run(Box<RunArgs>),
    /// Show one driver or application
    Status(StatusArgs),
    /// Wait until a driver or application is over
    Wait(WaitArgs),
    /// Kill a driver or application
    Kill(KillArgs),
    /// Print what a driver or executor has written
    Logs(LogsArgs),
    /// List drivers, applications or workers
    List(ListArgs),
    /// Look after the masters
    Cluster(ClusterArgs),
    /// Measure failover, submission and recovery on this machine
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Show or check the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
}

// === impl Command ===

impl Command {
    /// What is logged where no filter is given: servers tell their story, clients only trouble.
    pub(crate) fn default_log_filter(&self) -> &'static str {
        match self {
            // The consensus library tells every step; what an operator needs of it, the engine says itself.
            Self::Master(_) => "info,openraft=error,chunked_wal=warn",
            Self::Agent(_) => "info",
            Self::Dev(_)
            | Self::Submit(_)
            | Self::Run(_)
            | Self::Status(_)
            | Self::Wait(_)
            | Self::Kill(_)
            | Self::Logs(_)
            | Self::List(_)
            | Self::Cluster(_)
            | Self::Bench(_)
            | Self::Completions(_)
            | Self::Config(_) => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_help() {
        for sub in Cli::command().get_subcommands() {
            assert!(sub.get_about().is_some(), "{} has no help", sub.get_name());
            assert!(
                sub.get_after_help().is_some() || sub.has_subcommands(),
                "{} has no examples",
                sub.get_name()
            );
        }
    }
}
