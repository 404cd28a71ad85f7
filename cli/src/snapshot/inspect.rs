//! `interrex snapshot inspect`.

use std::path::{Path, PathBuf};

use interrex_control_plane::snapshot::{self, Report};
use interrex_persistence::offline::{self, Directory};
use interrex_proto::clock;
use serde::Serialize;

use super::read;
use crate::{
    exit::{Done, Exit, Failure, chain},
    output::{self, Format, OutputArgs},
    units::timestamp,
};

const EXAMPLES: &str = "\
Examples:
  interrex snapshot inspect backup.snapshot
  interrex snapshot inspect backup.snapshot --sample 2
  interrex snapshot inspect backup.snapshot -o json
  interrex snapshot inspect --data-dir /var/lib/interrex/m1    what a master that does not run has";

/// Most quarantined records that the table names; JSON has all.
const NAMED_MAX: usize = 20;

/// Options of `interrex snapshot inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InspectArgs {
    /// The snapshot
    #[arg(required_unless_present = "data_dir")]
    file: Option<PathBuf>,
    /// Instead of a snapshot: the data directory of a master that does not run, of the engine raft or sled
    #[arg(long, value_name = "D", conflicts_with = "file")]
    data_dir: Option<PathBuf>,
    /// Show so many records of each kind in full
    #[arg(long, value_name = "N", default_value_t = 0)]
    sample: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// What was looked into.
#[derive(Debug, Serialize)]
struct Inspected {
    #[serde(flatten)]
    report: Report,
    /// The master that the directory belongs to; none for a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    master: Option<String>,
    /// Entries at the end of that master's log of which it had not heard that a quorum has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    unconfirmed_entries: Option<u64>,
}

/// Runs `interrex snapshot inspect`.
pub(super) fn run(args: &InspectArgs) -> Done {
    let inspected = match (&args.data_dir, &args.file) {
        (Some(path), _) => directory(path, args.sample)?,
        (None, Some(path)) => snapshot(path, args.sample)?,
        (None, None) => return Err(Failure::usage("give a snapshot, or --data-dir".to_owned())),
    };
    match args.output.output {
        Format::Json => output::json(&inspected)?,
        Format::Table => output::data(&(inspected.head() + &body(&inspected.report)?))?,
    }
    Ok(Exit::Ok)
}

fn snapshot(path: &Path, sample: usize) -> Result<Inspected, Failure> {
    let file = read(path)?;
    let report = snapshot::examine(&file, sample)
        .map_err(|newer| Failure::failed(format!("{}: {newer}", path.display())))?;
    Ok(Inspected {
        report,
        master: None,
        unconfirmed_entries: None,
    })
}

fn directory(path: &Path, sample: usize) -> Result<Inspected, Failure> {
    let Directory {
        master,
        cut,
        unconfirmed_entries,
    } = offline::read(path).map_err(|error| Failure::failed(chain(&error)))?;
    let report = snapshot::examine_store(cut, clock::now_ms(), sample)
        .map_err(|newer| Failure::failed(format!("{}: {newer}", path.display())))?;
    Ok(Inspected {
        report,
        master: Some(master),
        unconfirmed_entries: Some(unconfirmed_entries),
    })
}

// === impl Inspected ===

impl Inspected {
    fn head(&self) -> String {
        let Report {
            header,
            formerly,
            bytes,
            ..
        } = &self.report;
        let former = if formerly.is_empty() {
            String::new()
        } else {
            format!(" (formerly {})", formerly.join(", "))
        };
        let mut text = format!(
            "cluster    {}{former}\nengine     {}\nepoch      {}\nsequence   {}\n",
            header.cluster_id, header.engine, header.epoch, header.seq
        );
        if let Some(master) = &self.master {
            text.push_str(&format!("master     {master}\n"));
        } else {
            let created = timestamp(header.created_at_ms);
            let version = &header.interrex_version;
            text.push_str(&format!("created    {created} by interrex {version}\n"));
        }
        let records = header.records;
        text.push_str(&format!("size       {bytes} bytes, {records} records\n"));
        if let Some(sha256) = &self.report.sha256 {
            text.push_str(&format!("sha256     {sha256} (checked)\n"));
        }
        if let Some(entries) = self.unconfirmed_entries.filter(|entries| *entries > 0) {
            text.push_str(&format!(
                "log        its last {entries} entries count only if a quorum has them, which this master had not heard\n"
            ));
        }
        text.push('\n');
        text
    }
}

fn body(report: &Report) -> Result<String, Failure> {
    let mut text = String::new();
    let rows = report.kinds.iter().map(|(kind, found)| {
        let states: Vec<String> = found
            .states
            .iter()
            .map(|(state, count)| format!("{state} {count}"))
            .collect();
        vec![
            (*kind).to_owned(),
            found.records.to_string(),
            states.join(", "),
        ]
    });
    text.push_str(&output::format_table(
        &["KIND", "RECORDS", "STATES"],
        rows.collect(),
    ));
    text.push('\n');
    if !report.restoring.is_empty() {
        text.push_str(&format!(
            "\nTaken while snapshot {} was being restored: incomplete.\n",
            report.restoring
        ));
    }
    if !report.quarantined.is_empty() {
        text.push_str(&format!(
            "\n{} records cannot be read:\n",
            report.quarantined.len()
        ));
        for record in report.quarantined.iter().take(NAMED_MAX) {
            let (kind, id, reason) = (record.kind, &record.id, &record.reason);
            text.push_str(&format!("  {kind} `{id}`: {reason}\n"));
        }
        if report.quarantined.len() > NAMED_MAX {
            text.push_str("  ... all of them with -o json\n");
        }
    }
    for sampled in &report.sample {
        let record = serde_json::to_string_pretty(&sampled.record)
            .map_err(|e| Failure::failed(format!("cannot write JSON: {e}")))?;
        text.push_str(&format!("\n{} `{}`: {record}\n", sampled.kind, sampled.id));
    }
    Ok(text)
}
