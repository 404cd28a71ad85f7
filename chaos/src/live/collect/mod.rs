//! Puts the history of a run together: what clients wrote, what the ledger says, what the masters' logs tell of
//! leaders, and what the harness did. Pure over their texts, but for [`History`] of the run, which reads the files.

mod attempts;
mod clients;
mod logs;

use std::{collections::BTreeSet, fs, io, path::Path};

use super::{clock::Clock, journal::Journal, ledger, ledger::Gone, places::Places};
use crate::history::{History, Kind, Op, Record};

/// Everything that happened, in order of time.
pub(super) fn history(
    places: &Places,
    journal: &Journal,
    gone: &[Gone],
) -> Result<History, io::Error> {
    let clock = journal.clock();
    let end = clock.now();
    let mut records = journal.records();
    for path in files_in(&places.clients())? {
        records.extend(clients::records(&fs::read_to_string(&path)?, end));
    }
    for path in files_in(&places.logs())? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if name.starts_with('m') {
            records.extend(logs::records(&name, &fs::read_to_string(&path)?, clock));
        }
    }
    records.extend(attempt_records(places, clock, gone)?);
    Ok(in_order(records))
}

/// The ids of all submissions that clients have begun to make.
pub(super) fn submissions(places: &Places) -> io::Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for path in files_in(&places.clients())? {
        let records = clients::records(&fs::read_to_string(&path)?, 0);
        let submits = records.into_iter().filter(|record| record.op == Op::Submit);
        ids.extend(submits.map(|record| record.id));
    }
    Ok(ids)
}

/// What processes have said: whose, and where, seen from the directory of the run.
pub(super) fn logs(places: &Places) -> io::Result<Vec<(String, String)>> {
    let files = files_in(&places.logs())?.into_iter();
    let named = files.map(|path| {
        let node = path.file_stem().unwrap_or_default().to_string_lossy();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        (node.into_owned(), format!("logs/{file}"))
    });
    Ok(named.collect())
}

fn attempt_records(places: &Places, clock: Clock, gone: &[Gone]) -> io::Result<Vec<Record>> {
    let text = match fs::read_to_string(ledger::Ledger::at(&places.ledger()).file()) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let entries = ledger::parse(&text).map_err(io::Error::other)?;
    Ok(attempts::records(&entries, gone, clock))
}

/// Records of the same time: what is asked for stands before what came of it.
fn in_order(mut records: Vec<Record>) -> History {
    records.sort_by_key(|record| (record.time, record.kind != Kind::Invoke));
    let mut history = History::default();
    for record in records {
        history.push(record);
    }
    history
}

fn files_in(dir: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}
