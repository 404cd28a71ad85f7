//! Counts the words of a text with executors: an example of a driver that is itself an application.
//!
//! Submitted with `interrex submit`, it runs on an agent, registers through `AppClient`, gets executors (the
//! same program in another mode), hands them pieces of the text over TCP, adds up what they count, prints the
//! ten most frequent words, and unregisters. The death of a master on the way changes nothing; a piece that was
//! with an executor that died is handed out again.

mod count;
mod driver;
mod executor;
mod frame;
mod shards;
mod text;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};

/// Counts the words of a text with executors.
///
/// Example: interrex submit --wait -- target/debug/wordcount --executors 4 --verify
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    mode: Option<Mode>,
    #[command(flatten)]
    driver: DriverArgs,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Started by the driver on each executor; never by hand
    #[command(hide = true)]
    Executor {
        /// Where the driver hands out pieces
        #[arg(long)]
        driver: String,
    },
}

/// What the driver is given.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DriverArgs {
    /// Files to count; a text of 4 MB is made up if none is given, the same at every run
    #[arg(long, num_args = 1..)]
    text: Vec<PathBuf>,
    /// Pieces to cut the text into
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    shards: u32,
    /// Executors to ask for
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    executors: u32,
    /// Make each piece take at least this long, to have time to break something
    #[arg(long, default_value_t = 0)]
    shard_delay_ms: u64,
    /// Compare the total with a direct count
    #[arg(long)]
    verify: bool,
    /// Where to listen for executors; others must reach it when agents are on other machines
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// The masters: `A,B,C` or `spark://A,B,C`
    #[arg(long, env = "INTERREX_MASTERS")]
    masters: Option<String>,
}

// === impl DriverArgs ===

impl DriverArgs {
    fn shard_delay(&self) -> Duration {
        Duration::from_millis(self.shard_delay_ms)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let cli = Cli::parse();
    let result = match cli.mode {
        Some(Mode::Executor { driver }) => executor::run(&driver).await,
        None => driver::run(cli.driver).await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            driver::say(&format!("wordcount: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
