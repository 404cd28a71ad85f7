//! Data to stdout, talk to stderr: the only file that writes to either.
//!
//! JSON is the API's own types, one object a document (or one a line for streams). A reader that has gone
//! away (`| head`) is not an error.

use std::io::{ErrorKind, Write};

use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde::Serialize;

use crate::exit::Failure;

/// How data is written to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    #[default]
    Table,
    /// The API's own types as JSON.
    Json,
}

/// The option `-o`, shared by every command that prints data.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct OutputArgs {
    /// How to print data on stdout
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        default_value = "table",
        env = "INTERREX_OUTPUT"
    )]
    pub(crate) output: Format,
}

/// Writes `text` to stdout as it is.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    bytes(text.as_bytes())
}

/// Writes bytes to stdout as they are, and flushes.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    stream(bytes).map(drop)
}

/// As [`bytes`]; false when nobody reads any more, so that what never ends can.
pub(crate) fn stream(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Failure::io("writing to stdout", &e)),
    }
}

/// Writes one JSON document, indented, to stdout.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    data(&format!(
        "{}\n",
        encode(serde_json::to_string_pretty(value))?
    ))
}

/// Writes one JSON object on one line to stdout.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    data(&format!("{}\n", encode(serde_json::to_string(value))?))
}

/// Writes a table to stdout.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    data(&format!("{}\n", format_table(header, rows)))
}

/// A table without lines, as text.
pub(crate) fn format_table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table.add_rows(rows);
    let text = table.to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(|l| l.strip_prefix(' ').unwrap_or(l).trim_end())
        .collect();
    lines.join("\n")
}

/// Says something to the person at the terminal, on stderr.
pub(crate) fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    // Nobody is left to be told when stderr itself is gone.
    drop(writeln!(err, "{text}"));
}

/// A duration for people: `0.41s`, `12.0s`.
pub(crate) fn seconds(duration: std::time::Duration) -> String {
    format!("{:.3}s", duration.as_secs_f64())
}

fn encode(result: serde_json::Result<String>) -> Result<String, Failure> {
    result.map_err(|e| Failure::failed(format!("cannot write JSON: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_header_and_no_trailing_blanks() {
        let text = format_table(
            &["ID", "STATE"],
            vec![vec!["driver-1".into(), "RUNNING".into()]],
        );
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("ID") && lines[1].contains("driver-1"));
        assert!(lines.iter().all(|l| l.trim_end() == *l));
    }
}
