//! `interrex chaos check`: a stored history, judged again.

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use interrex_chaos::{
    checks::{Judgement, Verdict},
    history::History,
    report::{self, PAGE_FILE, RunFacts, SUMMARY_FILE},
};
use serde::Serialize;

use crate::{
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
};

/// Options of `interrex chaos check`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The history, as JSON lines
    #[arg(value_name = "HISTORY")]
    history: PathBuf,
    /// Write a report to this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// A fault that must have happened, beside those that the run itself required; may be repeated
    #[arg(long, value_name = "FAULT")]
    require: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is printed with `-o json`.
#[derive(Debug, Serialize)]
struct Said<'a> {
    verdict: Verdict,
    missing: &'a [String],
    checks: Vec<SaidCheck<'a>>,
}

#[derive(Debug, Serialize)]
struct SaidCheck<'a> {
    name: &'a str,
    verdict: Verdict,
    judged: u64,
    broken: usize,
    first: Option<&'a interrex_chaos::checks::Violation>,
}

/// Judges it.
pub(super) fn run(args: &CheckArgs) -> Done {
    let path = &args.history;
    let what = format!("reading {}", path.display());
    let file = File::open(path).map_err(|error| Failure::io(&what, &error))?;
    let history = History::read(BufReader::new(file))
        .map_err(|error| Failure::failed(format!("{what}: {error}")))?;
    let mut facts = facts_beside(path).unwrap_or_else(|| RunFacts {
        name: path.display().to_string(),
        command: format!("interrex chaos check {}", path.display()),
        ..RunFacts::default()
    });
    for fault in &args.require {
        if !facts.required.contains(fault) {
            facts.required.push(fault.clone());
        }
    }
    let judgement = Judgement::of(&history, &facts.required);
    if let Some(dir) = &args.report {
        report(dir, &facts, &history, &judgement)?;
    }
    print(&judgement, args.output.output)?;
    Ok(exit(judgement.verdict))
}

/// Writes a report, and says where its page is.
pub(super) fn report(
    dir: &Path,
    facts: &RunFacts,
    history: &History,
    judgement: &Judgement,
) -> Result<(), Failure> {
    report::write(dir, facts, history, judgement)
        .map_err(|error| Failure::failed(error.to_string()))?;
    output::say(&format!("report: {}", dir.join(PAGE_FILE).display()));
    Ok(())
}

/// The exit code of a verdict.
pub(super) fn exit(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Valid => Exit::Ok,
        Verdict::Invalid => Exit::Failed,
        Verdict::Unknown => Exit::Undecided,
    }
}

/// What the run's own summary says of it, if that lies beside the history.
fn facts_beside(history: &Path) -> Option<RunFacts> {
    let summary = std::fs::read(history.with_file_name(SUMMARY_FILE)).ok()?;
    let mut summary: serde_json::Value = serde_json::from_slice(&summary).ok()?;
    serde_json::from_value(summary.get_mut("run")?.take()).ok()
}

fn print(judgement: &Judgement, format: Format) -> Result<(), Failure> {
    let checks = judgement.checks.iter();
    if format == Format::Json {
        return output::json(&Said {
            verdict: judgement.verdict,
            missing: &judgement.missing,
            checks: checks
                .map(|check| SaidCheck {
                    name: check.name,
                    verdict: check.verdict(),
                    judged: check.judged,
                    broken: check.violations.len(),
                    first: check.violations.first(),
                })
                .collect(),
        });
    }
    let rows = checks.map(|check| {
        let why = match (check.violations.first(), &check.undecided) {
            (Some(first), _) => {
                format!("{:.3} s: {} {}", first.seconds(), first.id, first.message)
            }
            (None, Some(why)) => why.clone(),
            (None, None) => String::new(),
        };
        let verdict = word(check.verdict()).to_owned();
        let name = check.name.to_owned();
        vec![name, check.judged.to_string(), verdict, why]
    });
    output::table(&["PROPERTY", "JUDGED", "VERDICT", ""], rows.collect())?;
    for fault in &judgement.missing {
        output::data(&format!("{fault} never happened\n"))?;
    }
    output::data(&format!("{}\n", word(judgement.verdict)))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "valid",
        Verdict::Invalid => "invalid",
        Verdict::Unknown => "unknown",
    }
}
