//! `interrex snapshot save`.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use interrex_client::control::ClientError;
use interrex_persistence::snapshot_file::SnapshotHeader;
use serde::Serialize;

use super::read;
use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
};

const EXAMPLES: &str = "\
Examples:
  interrex snapshot save backup.snapshot
  interrex snapshot save backup.snapshot --force
  interrex snapshot save --stale-ok last-resort.snapshot   without a leader: what one master has";

/// Options of `interrex snapshot save`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SaveArgs {
    /// Where to; written beside it and renamed when it is whole
    file: PathBuf,
    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
    /// Take what one master has, though no leader confirms that it is everything
    #[arg(long)]
    stale_ok: bool,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// What was saved.
#[derive(Debug, Serialize)]
pub(crate) struct Saved {
    file: PathBuf,
    pub(crate) bytes: u64,
    sha256: String,
    /// The master that sent it.
    master: String,
    pub(crate) header: SnapshotHeader,
}

/// A file that is gone when this is, unless it was kept.
struct Partial {
    path: PathBuf,
    kept: bool,
}

/// Runs `interrex snapshot save`.
pub(super) async fn run(args: SaveArgs) -> Done {
    let shown = args.file.display().to_string();
    if args.file.exists() && !args.force {
        return Err(Failure::failed(format!(
            "{shown} exists; give --force to replace it"
        )));
    }
    let saved = to_file(&args.connect, args.file, args.stale_ok).await?;
    match args.output.output {
        Format::Json => output::json(&saved)?,
        Format::Table => output::data(&saved.text())?,
    }
    Ok(Exit::Ok)
}

/// Saves a snapshot as `file`, which is replaced when the new one is whole.
pub(crate) async fn to_file(
    connect: &Connect,
    file: PathBuf,
    stale_ok: bool,
) -> Result<Saved, Failure> {
    let shown = file.display().to_string();
    let client = connect.snapshots()?;
    let io_at = |error: io::Error| Failure::io(&shown, &error);
    let mut partial = Partial::beside(&file);
    let mut out = BufWriter::new(File::create(&partial.path).map_err(io_at)?);
    let saving = connect.patiently(client.save(stale_ok)).await;
    let mut saving = saving.map_err(|error| with_advice(error, stale_ok))?;
    while let Some(piece) = saving.next().await? {
        out.write_all(&piece).map_err(io_at)?;
    }
    let written = out.into_inner().map_err(|e| io_at(e.into_error()))?;
    written.sync_all().map_err(io_at)?;
    // Read through: a stream that ended early is told only by the file itself.
    let whole = read(&partial.path).map_err(|failure| Failure {
        message: format!(
            "what {} sent is no whole snapshot: {}",
            saving.master, failure.message
        ),
        ..failure
    })?;
    partial.keep_as(&file).map_err(io_at)?;
    Ok(Saved {
        file,
        bytes: whole.bytes,
        sha256: whole.digest.to_string(),
        master: saving.master,
        header: whole.header,
    })
}

/// Says what can be done when nobody confirms that a snapshot is current.
fn with_advice(error: ClientError, stale_ok: bool) -> Failure {
    let leaderless = matches!(error, ClientError::NoLeader { .. });
    let mut failure = Failure::from(error);
    if leaderless && !stale_ok {
        failure
            .message
            .push_str("; give --stale-ok to take what one master has, however old");
    }
    failure
}

// === impl Saved ===

impl Saved {
    fn text(&self) -> String {
        let SnapshotHeader {
            cluster_id,
            epoch,
            seq,
            engine,
            records,
            ..
        } = &self.header;
        format!(
            "saved {}: {records} records, {} bytes, from {} ({engine})\n\
             cluster {cluster_id}, epoch {epoch}, sequence {seq}\nsha256 {}\n",
            self.file.display(),
            self.bytes,
            self.master,
            self.sha256
        )
    }
}

// === impl Partial ===

impl Partial {
    fn beside(file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = format!(".{name}.{}.partial", std::process::id());
        Self {
            path: file.with_file_name(name),
            kept: false,
        }
    }

    /// Gives it its final name, durably.
    fn keep_as(&mut self, file: &Path) -> io::Result<()> {
        fs::rename(&self.path, file)?;
        self.kept = true;
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // It may never have been made.
            drop(fs::remove_file(&self.path));
        }
    }
}
