//! `interrex snapshot`: save, inspect, restore.
//!
//! A snapshot under its final name is always whole: it is written beside it, synced, read through, and then renamed.

mod inspect;
pub(crate) mod restore;
pub(crate) mod save;

use std::{fs::File, io::BufReader, path::Path};

use clap::Subcommand;
use interrex_persistence::snapshot_file::SnapshotFile;

use crate::exit::{Done, Failure, chain};

const EXAMPLES: &str = "\
Examples:
  interrex snapshot save backup.snapshot
  interrex snapshot inspect backup.snapshot
  interrex snapshot restore backup.snapshot --masters 10.0.0.1:7077

A snapshot moves a cluster to other masters, or to another engine; see docs/backup.md.";

/// Options of `interrex snapshot`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    command: SnapshotCommand,
}

/// What to do with a snapshot.
#[derive(Debug, Subcommand)]
enum SnapshotCommand {
    /// Save all records of the running cluster to a file
    Save(save::SaveArgs),
    /// Look into a snapshot and check it; needs no cluster
    Inspect(inspect::InspectArgs),
    /// Restore a snapshot into a new, empty cluster of any engine
    Restore(restore::RestoreArgs),
}

/// Runs `interrex snapshot`.
pub(crate) async fn run(args: SnapshotArgs) -> Done {
    match args.command {
        SnapshotCommand::Save(args) => save::run(args).await,
        SnapshotCommand::Inspect(args) => inspect::run(&args),
        SnapshotCommand::Restore(args) => restore::run(args).await,
    }
}

/// Reads a snapshot and checks all of it.
fn read(path: &Path) -> Result<SnapshotFile, Failure> {
    let shown = path.display();
    let file = File::open(path).map_err(|e| Failure::io(&format!("{shown}"), &e))?;
    SnapshotFile::read(BufReader::with_capacity(256 << 10, file))
        .map_err(|error| Failure::failed(format!("{shown}: {}", chain(&error))))
}
