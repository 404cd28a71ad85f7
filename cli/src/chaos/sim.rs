//! `interrex chaos sim`: worlds by the thousand.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use interrex_chaos::{
    checks::{CHECKS, Judgement, Verdict, Violation},
    sim::{self, SeedReport, Tally, plant::Plant},
};
use serde::Serialize;

use crate::{
    exit::{Done, Failure},
    output::{self, Format, OutputArgs},
};

/// Broken seeds after which a run ends: more of them say nothing new.
const BROKEN_MAX: u64 = 5;
/// The time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Options of `interrex chaos sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    /// How many worlds
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000,
        conflicts_with = "seed"
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Seed of the first world
    #[arg(long, value_name = "S", default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// Only the world of this seed, with its trace if anything is broken
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Plant a bug, which must be found; a wrong name lists them all
    #[arg(long, value_name = "NAME")]
    plant: Option<Plant>,
    /// Write the history of --seed to this file, as JSON lines
    #[arg(long, value_name = "FILE", requires = "seed")]
    history: Option<PathBuf>,
    /// Write a report to this folder: of the world of --seed, or of each broken one
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Threads; as many as there are cores by default
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is printed with `-o json`.
#[derive(Debug, Serialize)]
struct Summary {
    verdict: Verdict,
    #[serde(flatten)]
    tally: Tally,
    missing: Vec<&'static str>,
    seconds: f64,
    seeds_per_second: f64,
    broken_seeds: Vec<BrokenSeed>,
}

#[derive(Debug, Serialize)]
struct BrokenSeed {
    seed: u64,
    violations: Vec<Violation>,
}

/// Runs the worlds and judges them.
pub(super) fn run(args: &SimArgs) -> Done {
    let seeds = match args.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => args.from..args.from.saturating_add(args.seeds),
    };
    let total = seeds.end - seeds.start;
    let threads = args
        .threads
        .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1);
    let began = Instant::now();
    let mut told = began;
    let mut tally = Tally::default();
    let mut broken = Vec::new();
    let mut wanted: Vec<u64> = args.seed.into_iter().collect();
    sim::run_all(seeds, args.plant, threads, |report| {
        tally.add(&report);
        if told.elapsed() >= PROGRESS_EVERY {
            told = Instant::now();
            let (seeds, broken) = (tally.seeds, tally.broken);
            output::say(&format!("{seeds} of {total} worlds, {broken} broken"));
        }
        if !report.violations.is_empty() {
            show(&report, args.plant);
            wanted.push(report.seed);
            broken.push(BrokenSeed {
                seed: report.seed,
                violations: report.violations,
            });
        }
        tally.broken < BROKEN_MAX
    });
    if let (Some(seed), Some(path)) = (args.seed, &args.history) {
        write_history(seed, args.plant, path)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    if let Some(dir) = &args.report {
        wanted.dedup();
        for seed in wanted {
            write_report(seed, args, dir)?;
        }
    }
    let summary = Summary {
        verdict: tally.verdict(),
        missing: tally.missing(),
        seconds,
        seeds_per_second: tally.seeds as f64 / seconds.max(f64::EPSILON),
        tally,
        broken_seeds: broken,
    };
    print(&summary, args.output.output)?;
    Ok(super::check::exit(summary.verdict))
}

/// A broken world, in words: what, and what happened before.
fn show(report: &SeedReport, plant: Option<Plant>) {
    output::say(&format!("seed {}:", report.seed));
    for violation in &report.violations {
        let Violation {
            check,
            time,
            id,
            message,
        } = violation;
        let seconds = Duration::from_micros(*time).as_secs_f64();
        output::say(&format!("  {check} at {seconds:.3} s: {id} {message}"));
    }
    if let Some(first) = report.violations.first() {
        for line in sim::trace(report.seed, plant, first) {
            output::say(&format!("    {line}"));
        }
    }
    let plant = plant.map_or_else(String::new, |plant| format!(" --plant {}", plant.name()));
    let seed = report.seed;
    output::say(&format!(
        "  repeat it: interrex chaos sim --seed {seed}{plant}"
    ));
}

fn write_history(seed: u64, plant: Option<Plant>, path: &PathBuf) -> Result<(), Failure> {
    let what = format!("writing {}", path.display());
    let failed = |error: std::io::Error| Failure::io(&what, &error);
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    sim::history(seed, plant).write(&mut file).map_err(failed)?;
    file.flush().map_err(failed)
}

/// The report of one world; in a folder of its own, if it is not the only one.
fn write_report(seed: u64, args: &SimArgs, dir: &Path) -> Result<(), Failure> {
    let dir = match args.seed {
        Some(_) => dir.to_owned(),
        None => dir.join(format!("seed-{seed}")),
    };
    let history = sim::history(seed, args.plant);
    let facts = sim::facts(seed, args.plant);
    super::check::report(&dir, &facts, &history, &Judgement::of(&history, &[]))
}

fn print(summary: &Summary, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return output::json(summary);
    }
    let Summary {
        verdict,
        tally,
        missing,
        seeds_per_second,
        ..
    } = summary;
    let rows = tally.hits.iter();
    let rows = rows.map(|(fault, count)| vec![(*fault).to_owned(), count.to_string()]);
    output::table(&["FAULT", "HITS"], rows.collect())?;
    let hours = tally.lasted.as_secs_f64() / 3_600.0;
    output::data(&format!(
        "{} worlds, {hours:.1} h of their time, {} leaderships, {} batches, {seeds_per_second:.1} worlds/s\n",
        tally.seeds, tally.epochs, tally.commits
    ))?;
    for fault in missing {
        output::data(&format!("{fault} never happened\n"))?;
    }
    let verdict = match verdict {
        Verdict::Valid => format!("valid: {} properties hold", CHECKS.len()),
        Verdict::Invalid => format!("invalid: {} worlds are broken", tally.broken),
        Verdict::Unknown => "unknown: not everything was tried".to_owned(),
    };
    output::data(&format!("{verdict}\n"))
}
