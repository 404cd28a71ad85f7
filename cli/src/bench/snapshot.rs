//! `bench snapshot`: how long saving a snapshot takes, and restoring it into a new cluster until somebody leads over it.

use std::time::Instant;

use super::{
    own::Own,
    report::{Report, print},
    submit::fill,
};
use crate::{
    connect::Connect,
    exit::{Done, Exit},
    master::{EngineKind, engine_parser},
    output::Format,
    snapshot::{restore, save},
};

/// Options of `interrex bench snapshot`.
#[derive(Debug, clap::Args)]
pub(super) struct SnapshotBenchArgs {
    /// Drivers that are stored; each is two records, itself and its request
    #[arg(long, default_value_t = 50_000)]
    drivers: usize,
    /// Masters of each cluster
    #[arg(long, default_value_t = 3)]
    masters: u16,
    /// Where the cluster that is saved keeps its records
    #[arg(long, value_parser = engine_parser(), default_value = "raft")]
    from: EngineKind,
    /// Where the one that it is restored into does
    #[arg(long, value_parser = engine_parser(), default_value = "raft")]
    to: EngineKind,
}

/// Runs the bench.
pub(super) async fn run(args: SnapshotBenchArgs, format: Format) -> Done {
    let mut old = Own::start(args.masters, args.from).await?;
    let masters = old.cluster.layout().masters_list();
    fill(&masters, args.drivers).await?;
    let file = old.cluster.layout().data_dir.join("bench.snapshot");
    let began = Instant::now();
    let saved = save::to_file(&Connect::to(&masters), file.clone(), false).await?;
    let save_seconds = began.elapsed().as_secs_f64();

    let mut new = Own::start(args.masters, args.to).await?;
    let masters = new.cluster.layout().masters_list();
    let began = Instant::now();
    restore::from_file(&Connect::to(&masters), &file, false).await?;
    let restore_seconds = began.elapsed().as_secs_f64();
    let report = Report::new("snapshot")
        .param("drivers", args.drivers)
        .param("masters", args.masters)
        .param("from", args.from.name())
        .param("to", args.to.name())
        .metric("records", saved.header.records)
        .metric("bytes", saved.bytes)
        .metric("save_seconds", save_seconds)
        .metric("restore_seconds", restore_seconds);
    new.cluster.stop().await;
    old.cluster.stop().await;
    print(&[report], format)?;
    Ok(Exit::Ok)
}
