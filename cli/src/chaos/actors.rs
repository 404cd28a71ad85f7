//! The hidden commands of a live run: its work, and its clients. The run itself starts them, or has agents start them.

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;
use interrex_chaos::live::{
    client::{self, ClientPlace, OneRequest, SubmitterOptions},
    ledger::{Ledger, job::Job},
    work::{JobKind, Site},
};

use crate::exit::{Done, Exit, Failure};

/// Options of `interrex chaos ledger`.
#[derive(Debug, clap::Args)]
pub(super) struct LedgerArgs {
    /// Where the ledger is
    #[arg(long, value_name = "D")]
    dir: PathBuf,
    /// The submission that this belongs to
    #[arg(long, value_name = "ID")]
    submission: String,
    /// How long the work takes
    #[arg(long, value_name = "MS")]
    work_ms: u64,
    /// Attempts that fail before one succeeds
    #[arg(long, default_value_t = 0)]
    failures: u32,
    /// Cores that the worker offers
    #[arg(long)]
    offered: u32,
    /// Memory that it was submitted with
    #[arg(long)]
    memory_mib: u64,
}

/// Options of `interrex chaos client`.
#[derive(Debug, clap::Args)]
pub(super) struct ClientArgs {
    /// Its name in the history
    #[arg(long)]
    name: String,
    /// The masters that it knows
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    at: Vec<String>,
    /// The masters' REST addresses, to submit there
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    rest: Vec<String>,
    /// When the run began, in microseconds since the machine started
    #[arg(long, value_name = "US")]
    began_us: u64,
    /// Where its part of the history goes
    #[arg(long, value_name = "FILE")]
    history: PathBuf,
    /// Where the ledger is
    #[arg(long, value_name = "D")]
    ledger: PathBuf,
    /// The run
    #[arg(long)]
    run: String,
    /// Submissions a second
    #[arg(long, conflicts_with = "submit", required_unless_present = "submit")]
    rate: Option<f64>,
    /// Seed of what it submits
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Make one submission, under this id
    #[arg(long, value_name = "ID")]
    submit: Option<String>,
    /// How long its work takes
    #[arg(long, value_name = "MS", default_value_t = 100)]
    work_ms: u64,
    /// Whether it may run at most once
    #[arg(long)]
    at_most_once: bool,
    /// Where it waits to be killed
    #[arg(long, value_enum, default_value = "no")]
    hold: HoldArg,
}

/// Where a client waits to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HoldArg {
    /// Before it sends anything
    BeforeSend,
    /// When it has its answer
    AfterReply,
    /// Nowhere
    No,
}

/// Runs the work, as an agent has started it.
pub(super) fn ledger(args: &LedgerArgs) -> Done {
    let job = Job {
        submission: args.submission.clone(),
        work: Duration::from_millis(args.work_ms),
        offered: args.offered,
        memory_mib: args.memory_mib,
        failures: args.failures,
    };
    let ran = job.run(&Ledger::at(&args.dir));
    match ran.map_err(|e| Failure::io("the ledger", &e))? {
        0 => Ok(Exit::Ok),
        _failed => Ok(Exit::Failed),
    }
}

/// Runs a client until it is told to end.
pub(super) async fn client(args: ClientArgs) -> Done {
    let program = std::env::current_exe().map_err(|e| Failure::io("finding this program", &e))?;
    let place = ClientPlace {
        name: args.name,
        masters: args.at,
        rest: args.rest,
        began_us: args.began_us,
        history: args.history,
        site: Site {
            program,
            ledger: args.ledger,
            run: args.run,
        },
    };
    let done = match args.submit {
        Some(id) => {
            let request = OneRequest {
                id,
                job: JobKind {
                    work: Duration::from_millis(args.work_ms),
                    at_most_once: args.at_most_once,
                    ..JobKind::PLAIN
                },
                hold: args.hold.into(),
            };
            client::run_one(&place, &request).await
        }
        None => {
            let options = SubmitterOptions {
                place,
                rate: args.rate.unwrap_or(1.0),
                seed: args.seed,
            };
            client::run_submitter(options).await
        }
    };
    done.map(|()| Exit::Ok)
        .map_err(|e| Failure::io("a client's part of the history", &e))
}

// === impl HoldArg ===

impl From<HoldArg> for client::Hold {
    fn from(hold: HoldArg) -> Self {
        match hold {
            HoldArg::BeforeSend => Self::BeforeSend,
            HoldArg::AfterReply => Self::AfterReply,
            HoldArg::No => Self::No,
        }
    }
}
