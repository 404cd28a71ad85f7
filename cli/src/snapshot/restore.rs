//! `interrex snapshot restore`.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use interrex_client::control::ControlClient;
use interrex_proto::v1::RestoreSnapshotResponse;
use serde::Serialize;

use super::read;
use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
};

const EXAMPLES: &str = "\
Examples:
  interrex snapshot restore backup.snapshot --masters 10.0.0.1:7077
  interrex snapshot restore backup.snapshot --keep-quarantined

The cluster must be new: it has never had a driver or an application. Repeating the command is safe.
Agents of the old cluster go on with their jobs; what the snapshot does not know they are told to end.";

/// Bytes of one piece.
const PIECE_BYTES: usize = 512 << 10;
/// Pieces that are read ahead.
const PIECES_MAX: usize = 4;
/// How long a leader of the restored records is waited for.
const LEADER_PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// Options of `interrex snapshot restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RestoreArgs {
    /// The snapshot
    file: PathBuf,
    /// Take over records that cannot be read, as they are
    #[arg(long)]
    keep_quarantined: bool,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// What was restored, and who leads over it.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    #[serde(flatten)]
    restored: RestoreSnapshotResponse,
    leader: String,
    epoch: u64,
}

/// Runs `interrex snapshot restore`.
pub(super) async fn run(args: RestoreArgs) -> Done {
    let outcome = from_file(&args.connect, &args.file, args.keep_quarantined).await?;
    match args.output.output {
        Format::Json => output::json(&outcome)?,
        Format::Table => output::data(&outcome.text())?,
    }
    Ok(Exit::Ok)
}

/// Restores the snapshot `file`, and waits until somebody leads over its records.
pub(crate) async fn from_file(
    connect: &Connect,
    file: &Path,
    keep_quarantined: bool,
) -> Result<Outcome, Failure> {
    // Before anything is sent: a damaged file is the caller's to know about, not the cluster's.
    read(file)?;
    let client = connect.snapshots()?;
    let restore = client.restore(keep_quarantined, || pieces(file));
    let restored = connect.patiently(restore).await?;
    let (leader, epoch) = leader(&connect.client()?, restored.epoch_floor).await?;
    Ok(Outcome {
        restored,
        leader,
        epoch,
    })
}

/// The file's bytes, read by a thread. A file that cannot be read any more ends early, which its checksum shows.
fn pieces(path: &Path) -> impl futures::Stream<Item = Vec<u8>> + Send + 'static {
    let (pieces, read) = tokio::sync::mpsc::channel(PIECES_MAX);
    let path = path.to_owned();
    let reader = move || {
        let Ok(mut file) = File::open(path) else {
            return;
        };
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let taken = (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece);
            if !matches!(taken, Ok(bytes) if bytes > 0) || pieces.blocking_send(piece).is_err() {
                return;
            }
        }
    };
    std::thread::spawn(reader);
    futures::stream::unfold(read, |mut read| async {
        let piece = read.recv().await?;
        Some((piece, read))
    })
}

/// Waits until somebody leads over the restored records.
async fn leader(client: &ControlClient, floor: u64) -> Result<(String, u64), Failure> {
    let began = Instant::now();
    loop {
        if let Ok(cluster) = client.cluster().await
            && !cluster.leader.is_empty()
            && cluster.leader == cluster.answered_by
            && cluster.epoch > floor
        {
            return Ok((cluster.leader, cluster.epoch));
        }
        if began.elapsed() > LEADER_PATIENCE {
            return Err(Failure::new(
                Exit::Timeout,
                "the snapshot is restored, but nobody leads yet; look at `interrex cluster status`",
            ));
        }
        tokio::time::sleep(POLL).await;
    }
}

// === impl Outcome ===

impl Outcome {
    fn text(&self) -> String {
        let RestoreSnapshotResponse {
            snapshot,
            cluster_id,
            formerly,
            records,
            already,
            ..
        } = &self.restored;
        let done = if *already {
            "had been restored before"
        } else {
            "is restored"
        };
        format!(
            "snapshot {snapshot} {done}: {records} records\ncluster {cluster_id} (formerly {}): {} leads in epoch {}\n",
            formerly.join(", "),
            self.leader,
            self.epoch
        )
    }
}
