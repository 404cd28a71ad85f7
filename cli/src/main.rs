//! `interrex`: the one binary of the cluster, and its command line.
//!
//! `main` only chooses: a process's supervisor (before any thread exists), or a command and its runtime.

mod agent;
mod args;
mod bench;
mod chaos;
mod cluster;
mod completions;
mod config;
mod connect;
mod debug;
mod dev;
mod events;
mod exit;
mod jobs;
mod local_cluster;
mod logging;
mod master;
mod metrics;
mod open_files;
mod output;
mod parent;
mod reload;
mod run;
mod runtime;
mod shutdown;
mod snapshot;
mod submit;
mod token;
mod top;
mod traces;
mod units;
mod worker;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, FromArgMatches};
use interrex_proto::version;

use crate::{
    args::{Cli, Command},
    config::File,
    exit::{Done, Exit, Failure},
    local_cluster::layout::HandedOn,
    runtime::{many, single},
    traces::TraceArgs,
};

/// The hidden command that an agent starts beside each process.
const SUPERVISOR: &str = "process-supervisor";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|a| a == SUPERVISOR) {
        return interrex_agent::supervisor::run(args.into_iter().skip(2));
    }
    let done = if args.get(1).is_some_and(|a| a == parent::TIED_PROGRAM) {
        Err(parent::become_tied(args.into_iter().skip(2)))
    } else {
        run(&args)
    };
    traces::finish();
    match done {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !failure.message.is_empty() {
                output::say(&format!("error: {}", failure.message));
            }
            failure.exit.into()
        }
    }
}

fn run(args: &[OsString]) -> Done {
    version::set_commit(env!("INTERREX_BUILT_FROM"));
    let path = config::path_in(args, std::env::var_os("INTERREX_CONFIG"));
    let file = path.as_deref().map(File::read).transpose();
    let file = file.map_err(|e| Failure::usage(e.to_string()))?;
    let (cli, remarks) = parse(args, file.as_ref())?;
    if let Some(parent) = cli.exit_with_parent {
        parent::tie_to(parent)?;
    }
    let command = &cli.command;
    let traces = traces::start(&cli.traces, command.service())?;
    let filter = command.default_log_filter();
    logging::install(&cli.log, filter, command.is_server(), traces)?;
    for remark in remarks {
        tracing::warn!("{remark}");
    }
    dispatch(cli.command, cli.traces, file.as_ref())
}

/// What Spark's settings say and nothing takes over comes back, too.
fn parse(args: &[OsString], file: Option<&File>) -> Result<(Cli, Vec<String>), Failure> {
    let (mut command, remarks) = config::spark_defaults::apply(Cli::command(), args)
        .map_err(|e| Failure::usage(e.to_string()))?;
    if let Some(file) = file {
        command = file
            .apply(command)
            .map_err(|e| Failure::usage(e.to_string()))?;
    }
    let parsed = command
        .try_get_matches_from(args::client_options_behind(args))
        .and_then(|m| Cli::from_arg_matches(&m));
    parsed.map(|cli| (cli, remarks)).map_err(|error| {
        // Help and version come as "errors" with the code 0.
        let exit = if error.use_stderr() {
            Exit::Usage
        } else {
            Exit::Ok
        };
        drop(error.print());
        if let (Exit::Usage, Some(file)) = (exit, file) {
            output::say(&format!(
                "note: option values also come from {}",
                file.path.display()
            ));
        }
        Failure::new(exit, "")
    })
}

fn dispatch(command: Command, traces: TraceArgs, file: Option<&File>) -> Done {
    match command {
        Command::Top(args) => single()?.block_on(top::run(args)),
        Command::Debug(args) => single()?.block_on(debug::run(args, file)),
        Command::Completions(args) => completions::run(&args),
        Command::Config(args) => config::command::run(&args, file),
        // Children die with the thread that started them: this runtime has only the main thread.
        Command::Dev(args) => {
            let handed_on = HandedOn {
                config: file.map(|f| f.path.clone()),
                otlp_endpoint: traces.otlp_endpoint,
            };
            single()?.block_on(dev::run(args, handed_on))
        }
        Command::Master(args) => many()?.block_on(reload::at_hangups(
            file.map(|f| f.path.clone()),
            master::run(*args),
        )),
        Command::Agent(args) => many()?.block_on(reload::at_hangups(
            file.map(|f| f.path.clone()),
            agent::run(*args),
        )),
        Command::Chaos(args) => chaos::run(args),
        Command::Bench(args) => many()?.block_on(bench::run(args)),
        Command::Submit(args) => single()?.block_on(submit::run(*args)),
        Command::Run(args) => single()?.block_on(run::run(*args)),
        Command::Status(args) => single()?.block_on(jobs::status::run(args)),
        Command::Explain(args) => single()?.block_on(jobs::explain::run(args)),
        Command::Wait(args) => single()?.block_on(jobs::wait::run(args)),
        Command::Kill(args) => single()?.block_on(jobs::kill::run(args)),
        Command::Logs(args) => single()?.block_on(jobs::logs::run(args)),
        Command::Events(args) => single()?.block_on(events::run(args)),
        Command::List(args) => single()?.block_on(jobs::list::run(args)),
        Command::Worker(args) => single()?.block_on(worker::run(args)),
        Command::Cluster(args) => single()?.block_on(cluster::run(args)),
        Command::Snapshot(args) => many()?.block_on(snapshot::run(args)),
    }
}
