//! The whole Raft backend (openraft, log, state machine, network, real gRPC) in a simulated network with faults by seed.
//!
//! Each master is a host that campaigns, opens its epoch and commits, as a real one does. Links are cut, also one way,
//! and masters crash with the power: what their logs had not synced is gone, the last of it torn. Then the faults end,
//! and everything must come to rest.
//!
//! Network, clock and faults follow the seed. The order among threads and openraft's own dice do not: logs are real
//! files that a real thread syncs. So a seed names a scenario, and repeats it only roughly.

mod faults;
mod history;
mod master;
mod net;
mod world;

use world::World;

/// Seeds of one test. Tests run side by side, seeds of one test one after the other.
const SEEDS_EACH: u64 = 6;
/// Five masters are slower, and as many seeds of theirs would be late in CI.
const SEEDS_OF_FIVE: u64 = 3;

fn run_seeds(masters: usize, each: u64, group: u64) {
    let seeds = match std::env::var("TURMOIL_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => group * each..(group + 1) * each,
    };
    for seed in seeds {
        let story = World::new(masters, seed).run();
        assert!(
            story.violations.is_empty(),
            "seed {seed} (TURMOIL_SEED={seed} repeats it), {story}: {:#?}\n{}",
            story.violations,
            story.told.join("\n")
        );
    }
}

#[test]
fn what_was_acknowledged_survives_cuts_and_crashes_in_the_first_seeds() {
    run_seeds(3, SEEDS_EACH, 0);
}

#[test]
fn what_was_acknowledged_survives_cuts_and_crashes_in_the_second_seeds() {
    run_seeds(3, SEEDS_EACH, 1);
}

#[test]
fn what_was_acknowledged_survives_cuts_and_crashes_in_the_third_seeds() {
    run_seeds(3, SEEDS_EACH, 2);
}

#[test]
fn what_was_acknowledged_survives_cuts_and_crashes_in_the_fourth_seeds() {
    run_seeds(3, SEEDS_EACH, 3);
}

/// A vote that was seen and not granted must not count: with five, a minority of two has votes to miscount.
#[test]
fn what_five_masters_acknowledged_survives_minorities_of_two_in_the_first_seeds() {
    run_seeds(5, SEEDS_OF_FIVE, 0);
}

#[test]
fn what_five_masters_acknowledged_survives_minorities_of_two_in_the_second_seeds() {
    run_seeds(5, SEEDS_OF_FIVE, 1);
}

#[test]
fn disks_that_lose_what_they_have_synced_are_found_out() {
    let story = World::with_lying_disks(3, 0).run();
    let lacks = |text: &String| text.contains("lacks what was acknowledged");
    assert!(
        story.violations.iter().any(lacks),
        "{story}: {:?}",
        story.violations
    );
}

#[test]
fn the_history_finds_what_must_not_happen() {
    history::finds_what_must_not_happen();
}
