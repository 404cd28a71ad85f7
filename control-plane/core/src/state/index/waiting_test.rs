use super::*;
use crate::{
    ids::{ProfileId, QueuePosition},
    resources::{Demand, MemoryMib},
    state::index::{offer::Offer, place::Gate},
};

fn group(cores: u32, memory: u64) -> Group {
    let demand = Demand {
        cores: Cores(cores),
        memory: MemoryMib(memory),
        ..Demand::default()
    };
    Group {
        demand,
        ..Group::default()
    }
}

fn room(cores: u64, memory: u64) -> Room {
    Room {
        cores,
        memory,
        offers: None,
    }
}

fn place(queue: u64) -> Place {
    Place::new(0, QueuePosition(queue), ProfileId(0))
}

#[test]
fn heads_come_in_queue_order_if_they_are_small_enough() {
    let mut waiting = Waiting::default();
    for (n, (cores, memory)) in [(3, 1), (1, 30), (2, 20), (1, 10), (2, 20)]
        .iter()
        .enumerate()
    {
        waiting.insert(&group(*cores, *memory), place(n as u64), n);
    }
    let next = |after: Option<u64>, (cores, memory)| {
        let room = room(cores, memory);
        let next = waiting.next_head(after.map(place), &room);
        next.map(|(place, _)| place)
    };
    assert_eq!(next(None, (2, 20)), Some(place(2)));
    assert_eq!(next(Some(2), (2, 20)), Some(place(3)));
    assert_eq!(next(Some(3), (2, 20)), None);
    assert!(waiting.any_within(1, 10) && waiting.any_within(u64::MAX, u64::MAX));
    assert!(!waiting.any_within(1, 9) && !waiting.any_within(0, 100));
    waiting.remove(&group(2, 20), place(2));
    assert!(waiting.heads_are_right());
    assert_eq!(waiting.head(&group(2, 20)), Some((place(4), 4)));
}

#[test]
fn what_asks_for_something_that_is_not_there_is_not_even_passed_over() {
    let mut waiting = Waiting::default();
    let asks = |resource: &str, amount| {
        let mut group = group(1, 1);
        group.demand.resources = [(resource.to_owned(), amount)].into();
        group
    };
    waiting.insert(&asks("gpu", 1), place(1), 1);
    waiting.insert(&asks("fpga", 1), place(2), 2);
    waiting.insert(&asks("none", 0), place(3), 3);
    let next = |after: Option<u64>, names: Option<&[&str]>| {
        let offer = |name: &&str| Offer::Resource((*name).to_owned());
        let room = Room {
            offers: names.map(|names| names.iter().map(offer).collect()),
            ..room(1, 1)
        };
        let next = waiting.next_head(after.map(place), &room);
        next.map(|(place, _)| place)
    };
    assert_eq!(next(None, None), Some(place(1)));
    assert_eq!(next(None, Some(&["fpga", "gpu"])), Some(place(1)));
    assert_eq!(next(Some(1), Some(&["fpga", "gpu"])), Some(place(2)));
    assert_eq!(next(None, Some(&["fpga"])), Some(place(2)));
    assert_eq!(next(None, Some(&[])), Some(place(3)));
    assert!(waiting.heads_are_right());
}

#[test]
fn only_a_new_head_makes_a_group_new() {
    let mut waiting = Waiting::default();
    waiting.insert(&group(1, 1), place(5), 5);
    assert_eq!(waiting.take_fresh().len(), 1);
    waiting.insert(&group(1, 1), place(6), 6);
    assert!(waiting.take_fresh().is_empty());
    waiting.insert(&group(1, 1), place(4), 4);
    assert_eq!(waiting.take_fresh().len(), 1);
    assert_eq!(waiting.head(&group(1, 1)), Some((place(4), 4)));
}

#[test]
fn places_are_ordered_by_priority_then_queue_then_profile() {
    let place =
        |priority, queue, profile| Place::new(priority, QueuePosition(queue), ProfileId(profile));
    let mut places = [
        place(-1, 1, 0),
        place(0, 3, 0),
        place(0, 2, 7),
        place(5, 9, 0),
        place(0, 2, 0),
    ];
    places.sort_unstable();
    let want = [
        place(5, 9, 0),
        place(0, 2, 0),
        place(0, 2, 7),
        place(0, 3, 0),
        place(-1, 1, 0),
    ];
    assert_eq!(places, want);
}

#[test]
fn a_gate_is_counted_again_only_when_as_much_has_come_as_was_lacking() {
    let mut waiting = Waiting::default();
    let gated = Group {
        gate: Some(Gate {
            executors: 5,
            one_a_worker: false,
        }),
        ..group(1, 1)
    };
    waiting.insert(&gated, place(1), 1);
    assert!(!waiting.may_open(&gated, 4));
    assert!(waiting.may_open(&gated, 1));
    waiting.shut(&gated, 2);
    assert!(!waiting.may_open(&gated, 1));
    assert!(waiting.may_open(&gated, 7));
    // Gone and back: nothing is known about it.
    waiting.remove(&gated, place(1));
    waiting.insert(&gated, place(2), 2);
    assert!(!waiting.may_open(&gated, 4));
    assert!(waiting.may_open(&group(1, 1), 0));
}

#[test]
fn a_held_group_leaves_the_walk_and_comes_back_in_queue_order() {
    let mut waiting = Waiting::default();
    for (n, cores) in [4, 1, 2, 1].iter().enumerate() {
        waiting.insert(&group(*cores, 1), place(n as u64), n);
    }
    for cores in [4, 1, 2] {
        waiting.hold(&group(cores, 1), Hold::DriverShare);
    }
    let most = &room(u64::MAX, u64::MAX);
    assert_eq!(waiting.next_head(None, most), None);
    assert!(waiting.take_fresh().is_empty() && waiting.heads_are_right());
    // The head of a held group may change.
    waiting.remove(&group(1, 1), place(1));
    waiting.loosen(&Hold::User("nobody".to_owned()));
    waiting.loosen(&Hold::DriverShare);
    assert_eq!(waiting.loosened().len(), 1);
    let small = |group: &Group| group.demand.cores.0 <= 2;
    let mut next = || {
        let released = waiting.release(&Hold::DriverShare, small);
        assert!(waiting.heads_are_right());
        released.map(|(place, _)| place)
    };
    assert_eq!(
        [next(), next(), next()],
        [Some(place(2)), Some(place(3)), None]
    );
    assert!(waiting.loosened().is_empty());
    assert_eq!(
        waiting.next_head(None, most),
        Some((place(2), &group(2, 1)))
    );
    waiting.remove(&group(4, 1), place(0));
    assert!(waiting.held_by().is_empty() && waiting.heads_are_right());
}

#[test]
fn a_head_that_is_not_where_it_belongs_is_noticed() {
    let mut waiting = Waiting::default();
    waiting.insert(&group(1, 1), place(0), 0);
    assert!(waiting.heads_are_right());
    let heads = std::mem::take(&mut waiting.heads);
    assert!(!waiting.heads_are_right(), "it is in no walk");
    waiting.heads = heads;
    waiting.held_by.insert(group(1, 1), Hold::DriverShare);
    assert!(!waiting.heads_are_right(), "it is held and in a walk");
}
