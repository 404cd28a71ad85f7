//! Reports: what a history and its verdict look like to people, and to the tools that read CI's results.
//!
//! A folder gets `report.html` (one file, nothing is loaded from elsewhere), `summary.json`, `junit.xml` and
//! `failover-times.csv`. All of it is derived from the history and the facts of the run, whoever wrote them, so a stored
//! history can be reported on again. What must never happen: a report that shows something else than what was judged.

mod charts;
mod facts;
mod failover;
mod faults;
mod junit;
mod lanes;
mod leaderships;
mod measures;
mod page;
mod palette;
mod summary;
mod timeline;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use self::{
    facts::{Fact, LogFile, RunFacts},
    failover::{Failover, failovers},
    measures::{Measures, Outcomes, Spread},
    summary::Summary,
};
use crate::{checks::Judgement, history::History};

/// The page for people.
pub const PAGE_FILE: &str = "report.html";
/// The same for programs; also where the facts of a run are found again.
pub const SUMMARY_FILE: &str = "summary.json";
/// The checks as a test report, as CI services read them.
pub const JUNIT_FILE: &str = "junit.xml";
/// One line for each change of the leader.
pub const FAILOVERS_FILE: &str = "failover-times.csv";
/// The history that all of it was made from.
pub const HISTORY_FILE: &str = "history.jsonl";

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file cannot be written.
    #[error("writing {}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A drawing or a document cannot be made.
    #[error("making {what}: {why}")]
    Make {
        /// Which.
        what: &'static str,
        /// Why.
        why: String,
    },
}

/// Writes all files of a report into `dir`, which is made if it is not there.
///
/// # Errors
/// [`ReportError`] with the first file that could not be made.
pub fn write(
    dir: &Path,
    facts: &RunFacts,
    history: &History,
    judgement: &Judgement,
) -> Result<Summary, ReportError> {
    let at = |path: PathBuf| move |error| ReportError::Io { path, error };
    fs::create_dir_all(dir).map_err(at(dir.to_owned()))?;
    let save = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).map_err(at(path))
    };
    let failovers = failovers(history);
    let summary = Summary::new(facts, history, judgement, &failovers);
    let mut lines = Vec::new();
    history
        .write(&mut lines)
        .map_err(at(dir.join(HISTORY_FILE)))?;
    save(HISTORY_FILE, &lines)?;
    save(FAILOVERS_FILE, failover::csv(&failovers).as_bytes())?;
    save(SUMMARY_FILE, &summary.to_json()?)?;
    save(JUNIT_FILE, junit::xml(&summary)?.as_bytes())?;
    let html = page::html(facts, history, judgement, &summary, &failovers)?;
    save(PAGE_FILE, html.as_bytes())?;
    Ok(summary)
}

fn making(what: &'static str) -> impl Fn(String) -> ReportError {
    move |why| ReportError::Make { what, why }
}
