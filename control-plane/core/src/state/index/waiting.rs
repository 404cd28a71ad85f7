//! Things that wait for a worker, in groups of equal demand and equal caps, in the order of their places. If
//! the head of a group fits nowhere, or a cap holds it, nothing behind it does better: a queue of 50,000 equal drivers
//! costs as much as a queue of one, and to hold it or to let it go is one step.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{
    resources::Cores,
    state::index::{
        offer::Offers,
        place::{Group, Place},
    },
};

/// What some workers have left, each at the most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) cores: u64,
    pub(crate) memory: u64,
    /// `None`: it may be anything.
    pub(crate) offers: Option<Offers>,
}

/// Those that wait, by what makes them equal.
pub(crate) type Groups<I> = BTreeMap<Group, BTreeMap<Place, I>>;

/// A cap that keeps a group out of the walk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hold {
    /// Drivers that need executors have their share of the cores.
    DriverShare,
    /// This user has all the cores that one may have.
    User(String),
}

/// A queue of drivers, or of applications' profiles.
#[derive(Debug, Clone)]
pub(crate) struct Waiting<I> {
    groups: Groups<I>,
    /// The first of each group that no cap holds, in queue order; apart by what they ask for that not every worker has.
    heads: BTreeMap<Offers, BTreeMap<Place, Group>>,
    /// The first of each group that a cap holds, in queue order.
    held: BTreeMap<Hold, BTreeMap<Place, Group>>,
    /// What holds each held group.
    held_by: BTreeMap<Group, Hold>,
    /// Caps that hold something and have got room since it was looked at.
    loosened: BTreeSet<Hold>,
    /// Groups whose head is new: nobody knows yet whether it fits somewhere. Not part of what `validate()` compares.
    fresh: BTreeSet<Group>,
    /// How many more executors must become possible before it makes sense to count for a gate again. Not part of what
    /// `validate()` compares. A gate that is not here has never been counted, which is the same as that nothing fits.
    lacking: BTreeMap<Group, u64>,
}

// === impl Waiting ===

impl<I> Default for Waiting<I> {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            heads: BTreeMap::new(),
            held: BTreeMap::new(),
            held_by: BTreeMap::new(),
            loosened: BTreeSet::new(),
            fresh: BTreeSet::new(),
            lacking: BTreeMap::new(),
        }
    }
}

impl<I: Clone + PartialEq> Waiting<I> {
    pub(crate) fn insert(&mut self, group: &Group, place: Place, id: I) {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.clone(), BTreeMap::new());
        }
        let Some(members) = self.groups.get_mut(group) else {
            return;
        };
        let before = members.first_key_value().map(|(first, _)| *first);
        members.insert(place, id);
        if before.is_none_or(|before| place <= before) {
            self.move_head(group, before, Some(place));
            if !self.held_by.contains_key(group) {
                self.fresh.insert(group.clone());
            }
        }
    }

    pub(crate) fn remove(&mut self, group: &Group, place: Place) {
        let Some(members) = self.groups.get_mut(group) else {
            return;
        };
        let before = members.first_key_value().map(|(first, _)| *first);
        members.remove(&place);
        let next = members.first_key_value().map(|(first, _)| *first);
        if before != next {
            self.move_head(group, before, next);
        }
        if next.is_none() {
            self.groups.remove(group);
            self.held_by.remove(group);
            self.fresh.remove(group);
            self.lacking.remove(group);
        }
    }

    /// The first of a group.
    pub(crate) fn head(&self, group: &Group) -> Option<(Place, I)> {
        let (place, id) = self.groups.get(group)?.first_key_value()?;
        Some((*place, id.clone()))
    }

    /// Forgets which groups are new, and says which were.
    pub(crate) fn take_fresh(&mut self) -> BTreeSet<Group> {
        std::mem::take(&mut self.fresh)
    }

    /// Whether any demand asks for at most so many cores and so much memory. Costs the number of different core
    /// counts: demands are ordered by cores, then memory.
    pub(crate) fn any_within(&self, cores: u64, memory: u64) -> bool {
        let mut from = Group::default();
        while let Some((Group { demand, .. }, _)) = self.groups.range(&from..).next() {
            if u64::from(demand.cores.0) > cores {
                return false;
            }
            if demand.memory.0 <= memory {
                return true;
            }
            let Some(next) = demand.cores.0.checked_add(1) else {
                return false;
            };
            from.demand.cores = Cores(next);
        }
        false
    }

    /// The next head in queue order that no cap holds and that asks for no more than this. Costs those passed over
    /// among the ones that ask for nothing but what is there.
    pub(crate) fn next_head(&self, after: Option<Place>, room: &Room) -> Option<(Place, &Group)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let there = |asked: &Offers| {
            let offers = room.offers.as_ref();
            offers.is_none_or(|offers| asked.is_subset(offers))
        };
        let fits = |Group { demand, .. }: &Group| {
            u64::from(demand.cores.0) <= room.cores && demand.memory.0 <= room.memory
        };
        let next = |heads: &BTreeMap<Place, Group>| {
            let mut behind = heads.range((from, Bound::Unbounded));
            behind
                .find(|(_, group)| fits(group))
                .map(|(place, _)| *place)
        };
        let kinds = self.heads.iter().filter(|(asked, _)| there(asked));
        let nearest = kinds.filter_map(|(_, heads)| Some((next(heads)?, heads)));
        let (place, heads) = nearest.min_by_key(|(place, _)| *place)?;
        Some((place, heads.get(&place)?))
    }

    // --- gates ---

    /// Workers have got room for so many executors more than at the last count: whether a gate may be open now.
    pub(crate) fn may_open(&mut self, group: &Group, more: u64) -> bool {
        let Some(gate) = group.gate else {
            return true;
        };
        let before = self.lacking.get(group).copied();
        let lacking = before.unwrap_or(gate.executors).saturating_sub(more);
        self.lacking.insert(group.clone(), lacking);
        lacking == 0
    }

    /// A gate is shut: at least so many executors are lacking.
    pub(crate) fn shut(&mut self, group: &Group, lacking: u64) {
        self.lacking.insert(group.clone(), lacking);
    }

    // --- caps ---

    /// Takes a group out of the walk until this cap has room for it.
    pub(crate) fn hold(&mut self, group: &Group, hold: Hold) {
        let Some((place, _)) = self.head(group) else {
            return;
        };
        self.unfile(group, place);
        self.held_by.insert(group.clone(), hold);
        self.file(group, place);
        self.fresh.remove(group);
    }

    /// This cap has more room than before.
    pub(crate) fn loosen(&mut self, hold: &Hold) {
        if self.held.contains_key(hold) {
            self.loosened.insert(hold.clone());
        }
    }

    /// Caps that hold something and have got room since it was looked at.
    pub(crate) fn loosened(&self) -> &BTreeSet<Hold> {
        &self.loosened
    }

    /// Lets the first group go, in queue order, that fits into the room which a cap has now. If there is none, the cap
    /// is no longer loosened. Costs the groups passed over.
    pub(crate) fn release(
        &mut self,
        hold: &Hold,
        fits: impl Fn(&Group) -> bool,
    ) -> Option<(Place, Group)> {
        let found = self.held.get(hold).and_then(|heads| {
            let found = heads.iter().find(|(_, group)| fits(group));
            found.map(|(place, group)| (*place, group.clone()))
        });
        let Some((place, group)) = found else {
            self.loosened.remove(hold);
            return None;
        };
        self.unfile(&group, place);
        self.held_by.remove(&group);
        self.file(&group, place);
        Some((place, group))
    }

    // --- for comparison ---

    /// Everything that waits.
    pub(crate) fn groups(&self) -> &Groups<I> {
        &self.groups
    }

    /// What holds each held group.
    pub(crate) fn held_by(&self) -> &BTreeMap<Group, Hold> {
        &self.held_by
    }

    /// Whether every group has its head where it belongs: in the walk, or under the cap that holds it.
    pub(crate) fn heads_are_right(&self) -> bool {
        let mut heads: BTreeMap<Offers, BTreeMap<Place, Group>> = BTreeMap::new();
        let mut held: BTreeMap<Hold, BTreeMap<Place, Group>> = BTreeMap::new();
        for (group, members) in &self.groups {
            let Some((place, _)) = members.first_key_value() else {
                return false;
            };
            match self.held_by.get(group) {
                Some(hold) => {
                    let heads = held.entry(hold.clone()).or_default();
                    heads.insert(*place, group.clone());
                }
                None => {
                    let heads = heads.entry(group.demand.offers_asked()).or_default();
                    heads.insert(*place, group.clone());
                }
            }
        }
        let known = self
            .held_by
            .keys()
            .all(|group| self.groups.contains_key(group));
        known && heads == self.heads && held == self.held
    }

    // --- heads ---

    fn move_head(&mut self, group: &Group, before: Option<Place>, next: Option<Place>) {
        // In this order: a cap that holds nothing for a moment would forget that it has got room.
        if let Some(next) = next {
            self.file(group, next);
        }
        if let Some(before) = before.filter(|before| next != Some(*before)) {
            self.unfile(group, before);
        }
    }

    fn file(&mut self, group: &Group, place: Place) {
        let heads = match self.held_by.get(group) {
            Some(hold) => self.held.entry(hold.clone()).or_default(),
            None => self.heads.entry(group.demand.offers_asked()).or_default(),
        };
        heads.insert(place, group.clone());
    }

    fn unfile(&mut self, group: &Group, place: Place) {
        let Some(hold) = self.held_by.get(group) else {
            take(&mut self.heads, &group.demand.offers_asked(), place);
            return;
        };
        if take(&mut self.held, hold, place) {
            self.loosened.remove(hold);
        }
    }
}

/// Takes a head out; true if it was the last of its kind.
fn take<K: Ord>(heads: &mut BTreeMap<K, BTreeMap<Place, Group>>, kind: &K, place: Place) -> bool {
    let Some(of_kind) = heads.get_mut(kind) else {
        return false;
    };
    of_kind.remove(&place);
    let last = of_kind.is_empty();
    if last {
        heads.remove(kind);
    }
    last
}

#[cfg(test)]
#[path = "waiting_test.rs"]
mod tests;
