//! Worlds by the hundred: every promise is kept, every kind of fault happened, every planted bug is found.

use std::collections::BTreeMap;

use interrex_chaos::sim::{self, SeedReport, plant::Plant};

/// How many seeds a test looks at; more with `INTERREX_SIM_SEEDS`.
fn seeds(default: u64) -> u64 {
    std::env::var("INTERREX_SIM_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// A report in words: the seed, what is broken, and what happened before.
fn shown(report: &SeedReport) -> String {
    let mut text = format!("seed {}:\n", report.seed);
    for violation in report.violations.iter().take(5) {
        text += &format!("  {violation:?}\n");
    }
    if let Some(first) = report.violations.first() {
        for line in sim::trace(report.seed, None, first) {
            text += &format!("    {line}\n");
        }
    }
    text
}

#[test]
fn every_promise_is_kept_in_every_world() {
    let mut broken = Vec::new();
    let mut hits: BTreeMap<&str, u64> = BTreeMap::new();
    sim::run_all(0..seeds(1_000), None, threads(), |report| {
        for (fault, count) in &report.hits {
            *hits.entry(fault).or_default() += count;
        }
        if !report.violations.is_empty() {
            broken.push(shown(&report));
        }
        broken.len() < 3
    });
    println!("{hits:#?}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for plant in Plant::ALL {
        let mut found = None;
        sim::run_all(0..seeds(400), Some(*plant), threads(), |report| {
            if let Some(first) = report.violations.first() {
                found = Some((report.seed, first.clone()));
            }
            found.is_none()
        });
        match found {
            Some((seed, violation)) => println!("{}: seed {seed}: {violation:?}", plant.name()),
            None => missed.push(plant.name()),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn worlds_are_full_of_life() {
    let (mut commits, mut epochs, mut records, mut lasted) = (0, 0, 0, 0.0);
    sim::run_all(0..20, None, threads(), |report| {
        commits += report.commits;
        epochs += report.epochs;
        records += report.records;
        lasted += report.lasted.as_secs_f64();
        true
    });
    println!("20 worlds: {commits} commits, {epochs} epochs, {records} records, {lasted} s");
    assert!(
        commits > 500 && epochs > 60 && records > 2_000,
        "{commits} {epochs} {records}"
    );
}
