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
mod net;
mod world;

use world::World;

/// Seeds of one test. Tests run side by side, seeds of one test one after the other.
const SEEDS_EACH: u64 = 6;

fn run_seeds(group: u64) {
    let seeds = match std::env::var("TURMOIL_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => group * SEEDS_EACH..(group + 1) * SEEDS_EACH,
    };
    for seed in seeds {
        let story = World::new(seed).run();
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
    run_seeds(0);
}

#[test]
fn what_was_acknowledged_survives_cuts_and_crashes_in_the_second_seeds() {
    run_seeds(1);
}

#[test]
fn what_was_acknowledged_survives_cuts_and_crashes_in_the_third_seeds() {
    run_seeds(2);
}

#[test]
fn what_was_acknowledged_survives_cuts_and_crashes_in_the_fourth_seeds() {
    run_seeds(3);
}

#[test]
fn disks_that_lose_what_they_have_synced_are_found_out() {
    let story = World::with_lying_disks(0).run();
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
