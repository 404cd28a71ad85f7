//! `interrex snapshot inspect`.

use std::path::PathBuf;

use interrex_control_plane::snapshot::{self, Report};

use super::read;
use crate::{
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
    units::timestamp,
};

const EXAMPLES: &str = "\
Examples:
  interrex snapshot inspect backup.snapshot
  interrex snapshot inspect backup.snapshot --sample 2
  interrex snapshot inspect backup.snapshot -o json";

/// Most quarantined records that the table names; JSON has all.
const NAMED_MAX: usize = 20;

/// Options of `interrex snapshot inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct InspectArgs {
    /// The snapshot
    file: PathBuf,
    /// Show so many records of each kind in full
    #[arg(long, value_name = "N", default_value_t = 0)]
    sample: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `interrex snapshot inspect`.
pub(super) fn run(args: &InspectArgs) -> Done {
    let file = read(&args.file)?;
    let report = snapshot::examine(&file, args.sample)
        .map_err(|newer| Failure::failed(format!("{}: {newer}", args.file.display())))?;
    match args.output.output {
        Format::Json => output::json(&report)?,
        Format::Table => output::data(&text(&report)?)?,
    }
    Ok(Exit::Ok)
}

fn text(report: &Report) -> Result<String, Failure> {
    let header = &report.header;
    let former = if report.formerly.is_empty() {
        String::new()
    } else {
        format!(" (formerly {})", report.formerly.join(", "))
    };
    let mut text = format!(
        "cluster    {}{former}\nengine     {}\nepoch      {}\nsequence   {}\ncreated    {} by interrex {}\n\
         size       {} bytes, {} records\nsha256     {} (checked)\n\n",
        header.cluster_id,
        header.engine,
        header.epoch,
        header.seq,
        timestamp(header.created_at_ms),
        header.interrex_version,
        report.bytes,
        header.records,
        report.sha256
    );
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
