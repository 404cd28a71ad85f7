//! The command line, as a tree. Each command's options and examples stand beside its code.

use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand};
use interrex_persistence::raft;

use crate::{
    agent::AgentArgs,
    bench::BenchArgs,
    chaos::ChaosArgs,
    cluster::ClusterArgs,
    completions::CompletionsArgs,
    config::command::ConfigArgs,
    debug::DebugArgs,
    dev::DevArgs,
    events::EventsArgs,
    jobs::{
        explain::ExplainArgs, kill::KillArgs, list::ListArgs, logs::LogsArgs, status::StatusArgs,
        wait::WaitArgs,
    },
    logging::LogArgs,
    master::MasterArgs,
    run::RunArgs,
    snapshot::SnapshotArgs,
    submit::SubmitArgs,
    top::TopArgs,
    traces::{Service, TraceArgs},
    worker::WorkerArgs,
};

/// What `--version` says.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("INTERREX_BUILT_FROM"),
    ")"
);

const EXAMPLES: &str = "\
Examples:
  interrex dev                                      a cluster on this machine
  export INTERREX_MASTERS=127.0.0.1:7077,127.0.0.1:7078,127.0.0.1:7079
  interrex submit --wait -- sh -c 'echo hello'      run a driver
  interrex list drivers
  interrex cluster status

Client commands take --masters, --deadline and -o, before or behind the command's name.

Exit codes:
  0 ok               1 failed           2 usage          3 no leader reachable
  4 refused          5 not found or conflict             6 timeout
  10 job failed      11 job killed      12 accepted but waiting";

/// A fault-tolerant control plane for drivers and applications with executors.
#[derive(Debug, Parser)]
#[command(name = "interrex", version = VERSION, about, after_help = EXAMPLES)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Cli {
    /// Read options from this TOML file; flags and environment win
    #[arg(long, global = true, value_name = "FILE", env = "INTERREX_CONFIG")]
    #[arg(help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) traces: TraceArgs,
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
    /// Say why something waits, where it runs or how it ended
    Explain(ExplainArgs),
    /// Wait until a driver or application is over
    Wait(WaitArgs),
    /// Kill a driver or application
    Kill(KillArgs),
    /// Print what a driver or executor has written
    Logs(LogsArgs),
    /// List drivers, applications or workers
    List(ListArgs),
    /// Empty workers, and let them have work again
    Worker(WorkerArgs),
    /// Show what was decided, by whom and why; follow it with -f
    Events(EventsArgs),
    /// Watch the cluster in this terminal
    Top(TopArgs),
    /// Look after the masters
    Cluster(ClusterArgs),
    /// Save all records, look into a snapshot, or restore one into a new cluster
    Snapshot(SnapshotArgs),
    /// Measure failover, submission and recovery on this machine
    Bench(BenchArgs),
    /// Break things on purpose, and prove that nothing was lost
    Chaos(ChaosArgs),
    /// Pack everything that helps to find out what is wrong into one file
    Debug(DebugArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Show or check the configuration
    Config(ConfigArgs),
}

/// The options of client commands, which may stand before the command's name, too.
const CLIENT_OPTIONS: [&str; 4] = ["--masters", "--output", "--deadline", "-o"];
/// The options of the program itself that take a value.
const GLOBAL_OPTIONS: [&str; 5] = [
    "--config",
    "--log-format",
    "--log-filter",
    "--otlp-endpoint",
    "--exit-with-parent",
];

/// Moves client options that stand before the command's name behind it, where clap looks for them. They cannot
/// be options of the program itself: `--masters` is a number to `dev`, and another thing to `agent`.
pub(crate) fn client_options_behind(args: &[OsString]) -> Vec<OsString> {
    let (mut kept, mut moved) = (Vec::new(), Vec::new());
    let mut rest = args.iter();
    kept.extend(rest.next().cloned());
    while let Some(arg) = rest.next() {
        let text = arg.to_string_lossy();
        if !text.starts_with('-') || text == "--" {
            kept.push(arg.clone());
            kept.append(&mut moved);
            break;
        }
        let name = text.split_once('=').map_or(text.as_ref(), |(name, _)| name);
        let client =
            CLIENT_OPTIONS.contains(&name) || (text.starts_with("-o") && !text.starts_with("--"));
        let list = if client { &mut moved } else { &mut kept };
        list.push(arg.clone());
        // Without `=`, the value is the next word.
        if CLIENT_OPTIONS.contains(&text.as_ref()) || GLOBAL_OPTIONS.contains(&text.as_ref()) {
            list.extend(rest.next().cloned());
        }
    }
    kept.extend(moved);
    kept.extend(rest.cloned());
    kept
}

// === impl Command ===

impl Command {
    /// Whether this runs until it is stopped, and is looked after by others than who started it.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::Master(_) | Self::Agent(_))
    }

    /// As whom this makes traces, where it has a part in them.
    pub(crate) fn service(&self) -> Option<Service> {
        match self {
            Self::Master(args) => Some(Service {
                name: "interrex-master",
                instance: Some(args.id.clone()),
            }),
            Self::Agent(args) => Some(Service {
                name: "interrex-agent",
                instance: args.id.clone(),
            }),
            Self::Submit(_) => Some(Service {
                name: "interrex",
                instance: None,
            }),
            Self::Dev(_)
            | Self::Run(_)
            | Self::Status(_)
            | Self::Explain(_)
            | Self::Wait(_)
            | Self::Kill(_)
            | Self::Logs(_)
            | Self::List(_)
            | Self::Worker(_)
            | Self::Events(_)
            | Self::Cluster(_)
            | Self::Snapshot(_)
            | Self::Bench(_)
            | Self::Chaos(_)
            | Self::Debug(_)
            | Self::Top(_)
            | Self::Completions(_)
            | Self::Config(_) => None,
        }
    }

    /// What is logged where no filter is given: servers tell their story, clients only trouble.
    pub(crate) fn default_log_filter(&self) -> &'static str {
        match self {
            Self::Master(_) => raft::LOG_FILTER,
            Self::Agent(_) => "info",
            Self::Dev(_)
            | Self::Submit(_)
            | Self::Run(_)
            | Self::Status(_)
            | Self::Explain(_)
            | Self::Wait(_)
            | Self::Kill(_)
            | Self::Logs(_)
            | Self::List(_)
            | Self::Worker(_)
            | Self::Events(_)
            | Self::Cluster(_)
            | Self::Snapshot(_)
            | Self::Bench(_)
            | Self::Chaos(_)
            | Self::Debug(_)
            | Self::Top(_)
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

    fn behind(line: &str) -> String {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let words = client_options_behind(&args);
        let words: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn client_options_may_stand_before_the_command() {
        for (typed, meant) in [
            ("x -o json list apps", "x list -o json apps"),
            ("x -ojson list apps", "x list -ojson apps"),
            (
                "x --masters=a:1 --config c cluster status",
                "x --config c cluster --masters=a:1 status",
            ),
            (
                "x --log-format json --masters a:1 submit -- -o y",
                "x --log-format json submit --masters a:1 -- -o y",
            ),
            ("x --help", "x --help"),
            ("x -o json", "x -o json"),
            ("x status --masters a:1 y", "x status --masters a:1 y"),
        ] {
            assert_eq!(behind(typed), meant);
        }
        for line in [
            "x -o json --masters a:1 cluster status",
            "x cluster -o json status --masters a:1",
            "x -o json config show",
            "x --deadline 3s kill driver-0",
        ] {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            Cli::try_parse_from(client_options_behind(&args)).unwrap();
        }
    }

    #[test]
    fn every_command_has_help() {
        let mut commands: Vec<clap::Command> = Cli::command().get_subcommands().cloned().collect();
        while let Some(command) = commands.pop() {
            let name = command.get_name();
            assert!(command.get_about().is_some(), "{name} has no help");
            assert!(command.get_after_help().is_some(), "{name} has no examples");
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
