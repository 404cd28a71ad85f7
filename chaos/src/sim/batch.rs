//! Many seeds, on all cores. The order of reports is the order of seeds only within a thread; each world is its own.

use std::{
    ops::Range,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use super::{SeedReport, plant::Plant, run};

/// Reports that wait to be looked at.
const REPORTS_MAX: usize = 64;

/// Runs every seed of a range, on `threads` threads, and hands each report to `look`, which says whether to go on.
pub fn run_all(
    seeds: Range<u64>,
    plant: Option<Plant>,
    threads: usize,
    mut look: impl FnMut(SeedReport) -> bool,
) {
    let next = AtomicU64::new(seeds.start);
    let enough = AtomicBool::new(false);
    let (reports, received) = mpsc::sync_channel(REPORTS_MAX);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (next, enough, reports) = (&next, &enough, reports.clone());
            scope.spawn(move || {
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || reports.send(run(seed, plant)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(reports);
        for report in received {
            if !look(report) {
                enough.store(true, Ordering::Relaxed);
                // What is under way is finished, and not looked at.
                break;
            }
        }
    });
}
