//! `interrex chaos`: break things on purpose, and judge what happened.
//!
//! Exit codes: 0 everything holds, 1 something is broken, 2 nothing is broken but something that was to be tried did
//! not happen.

mod actors;
mod check;
mod exporter;
mod live;
mod sim;

use clap::Subcommand;

use crate::{exit::Done, runtime::single};

const EXAMPLES: &str = "\
Examples:
  interrex chaos sim --seeds 1000
  interrex chaos sim --seed 4711                        one world, again and again the same
  interrex chaos sim --seed 4711 --history world.jsonl
  interrex chaos sim --seed 4711 --report out            a page to look at: out/report.html
  interrex chaos sim --seeds 400 --plant no-agent-fence    a bug on purpose: must be found
  interrex chaos check out/history.jsonl                judges a stored history again
  interrex chaos live --scenario leader-kill --kills 20    real processes on this machine
  interrex chaos live --list

Exit codes: 0 everything holds, 1 something is broken, 2 a fault that was to be tried never happened.";

/// Options of `interrex chaos`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ChaosArgs {
    #[command(subcommand)]
    command: ChaosCommand,
}

/// Where to break things.
#[derive(Debug, Subcommand)]
enum ChaosCommand {
    /// In simulated worlds: the production machines under a seeded network, clock, disk and nemesis
    #[command(after_help = "Example:\n  interrex chaos sim --seeds 1000 -o json")]
    Sim(sim::SimArgs),
    /// Judge a stored history again, whoever wrote it
    #[command(after_help = "Example:\n  interrex chaos check out/history.jsonl --report again")]
    Check(check::CheckArgs),
    /// In real processes: masters, agents and clients behind fault proxies, killed, stopped and cut off
    Live(live::LiveArgs),
    /// The work of a live run; started by agents
    #[command(hide = true, after_help = "Started by agents of a live run.")]
    Ledger(actors::LedgerArgs),
    /// A client of a live run; started by it
    #[command(hide = true, after_help = "Started by a live run.")]
    Client(actors::ClientArgs),
}

/// Runs `interrex chaos`.
pub(crate) fn run(args: ChaosArgs) -> Done {
    match args.command {
        ChaosCommand::Sim(args) => sim::run(&args),
        ChaosCommand::Check(args) => check::run(&args),
        // Children die with the thread that started them: these runtimes have only the main thread.
        ChaosCommand::Live(args) => single()?.block_on(live::run(args)),
        ChaosCommand::Ledger(args) => actors::ledger(&args),
        ChaosCommand::Client(args) => single()?.block_on(actors::client(args)),
    }
}
