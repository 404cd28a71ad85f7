//! Things that wait for a worker, in groups of equal demand and equal caps, first come first served within a group. If
//! the head of a group fits nowhere, or a cap holds it, nothing behind it does better: a queue of 50,000 equal drivers
//! costs as much as a queue of one, and to hold it or to let it go is one step.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{
    ids::QueuePosition,
    resources::{Cores, Demand},
};

/// Which caps something counts against. Equal for all where no such cap is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    /// A driver that will ask for executors, while the share of these is capped.
    pub(crate) sharing: bool,
    /// Whose it is, while users are capped; "" is a user like any other.
    pub(crate) user: Option<String>,
}

/// What makes things equal: the head speaks for all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) demand: Demand,
    pub(crate) class: Class,
}

/// A cap that keeps a group out of the walk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hold {
    /// Drivers that need executors have their share of the cores.
    DriverShare,
    /// This user has all the cores that one may have.
    User(String),
}

/// A queue of drivers or applications.
#[derive(Debug, Clone)]
pub(crate) struct Waiting<I> {
    groups: BTreeMap<Group, BTreeMap<QueuePosition, I>>,
    /// The first of each group that no cap holds, in queue order.
    heads: BTreeMap<QueuePosition, Group>,
    /// The first of each group that a cap holds, in queue order.
    held: BTreeMap<Hold, BTreeMap<QueuePosition, Group>>,
    /// What holds each held group.
    held_by: BTreeMap<Group, Hold>,
    /// Caps that hold something and have got room since it was looked at.
    loosened: BTreeSet<Hold>,
    /// Groups whose head is new: nobody knows yet whether it fits somewhere. Not part of what `validate()` compares.
    fresh: BTreeSet<Group>,
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
        }
    }
}

impl<I: Clone + PartialEq> Waiting<I> {
    pub(crate) fn insert(&mut self, group: &Group, queue: QueuePosition, id: I) {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.clone(), BTreeMap::new());
        }
        let Some(members) = self.groups.get_mut(group) else {
            return;
        };
        let before = members.first_key_value().map(|(first, _)| *first);
        members.insert(queue, id);
        if before.is_none_or(|before| queue <= before) {
            self.move_head(group, before, Some(queue));
            if !self.held_by.contains_key(group) {
                self.fresh.insert(group.clone());
            }
        }
    }

    pub(crate) fn remove(&mut self, group: &Group, queue: QueuePosition) {
        let Some(members) = self.groups.get_mut(group) else {
            return;
        };
        let before = members.first_key_value().map(|(first, _)| *first);
        members.remove(&queue);
        let next = members.first_key_value().map(|(first, _)| *first);
        if before != next {
            self.move_head(group, before, next);
        }
        if next.is_none() {
            self.groups.remove(group);
            self.held_by.remove(group);
            self.fresh.remove(group);
        }
    }

    /// The first of a group.
    pub(crate) fn head(&self, group: &Group) -> Option<(QueuePosition, I)> {
        let (queue, id) = self.groups.get(group)?.first_key_value()?;
        Some((*queue, id.clone()))
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

    /// The next head in queue order that no cap holds and that asks for at most so many cores and so much memory. Costs
    /// those passed over.
    pub(crate) fn next_head(
        &self,
        after: Option<QueuePosition>,
        (cores, memory): (u64, u64),
    ) -> Option<(QueuePosition, &Group)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.heads
            .range((from, Bound::Unbounded))
            .find(|(_, Group { demand, .. })| {
                u64::from(demand.cores.0) <= cores && demand.memory.0 <= memory
            })
            .map(|(queue, group)| (*queue, group))
    }

    // --- caps ---

    /// Takes a group out of the walk until this cap has room for it.
    pub(crate) fn hold(&mut self, group: &Group, hold: Hold) {
        let Some((queue, _)) = self.head(group) else {
            return;
        };
        self.unfile(group, queue);
        self.held_by.insert(group.clone(), hold);
        self.file(group, queue);
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
        fits: impl Fn(Cores) -> bool,
    ) -> Option<(QueuePosition, Group)> {
        let found = self.held.get(hold).and_then(|heads| {
            let found = heads.iter().find(|(_, group)| fits(group.demand.cores));
            found.map(|(queue, group)| (*queue, group.clone()))
        });
        let Some((queue, group)) = found else {
            self.loosened.remove(hold);
            return None;
        };
        self.unfile(&group, queue);
        self.held_by.remove(&group);
        self.file(&group, queue);
        Some((queue, group))
    }

    // --- for comparison ---

    /// Everything that waits.
    pub(crate) fn groups(&self) -> &BTreeMap<Group, BTreeMap<QueuePosition, I>> {
        &self.groups
    }

    /// What holds each held group.
    pub(crate) fn held_by(&self) -> &BTreeMap<Group, Hold> {
        &self.held_by
    }

    /// Whether every group has its head where it belongs: in the walk, or under the cap that holds it.
    pub(crate) fn heads_are_right(&self) -> bool {
        let mut heads = BTreeMap::new();
        let mut held: BTreeMap<Hold, BTreeMap<QueuePosition, Group>> = BTreeMap::new();
        for (group, members) in &self.groups {
            let Some((queue, _)) = members.first_key_value() else {
                return false;
            };
            match self.held_by.get(group) {
                Some(hold) => drop(
                    held.entry(hold.clone())
                        .or_default()
                        .insert(*queue, group.clone()),
                ),
                None => drop(heads.insert(*queue, group.clone())),
            }
        }
        let known = self
            .held_by
            .keys()
            .all(|group| self.groups.contains_key(group));
        known && heads == self.heads && held == self.held
    }

    // --- heads ---

    fn move_head(
        &mut self,
        group: &Group,
        before: Option<QueuePosition>,
        next: Option<QueuePosition>,
    ) {
        // In this order: a cap that holds nothing for a moment would forget that it has got room.
        if let Some(next) = next {
            self.file(group, next);
        }
        if let Some(before) = before.filter(|before| next != Some(*before)) {
            self.unfile(group, before);
        }
    }

    fn file(&mut self, group: &Group, queue: QueuePosition) {
        match self.held_by.get(group) {
            Some(hold) => {
                let heads = self.held.entry(hold.clone()).or_default();
                heads.insert(queue, group.clone());
            }
            None => drop(self.heads.insert(queue, group.clone())),
        }
    }

    fn unfile(&mut self, group: &Group, queue: QueuePosition) {
        let Some(hold) = self.held_by.get(group) else {
            self.heads.remove(&queue);
            return;
        };
        if let Some(heads) = self.held.get_mut(hold) {
            heads.remove(&queue);
            if heads.is_empty() {
                self.held.remove(hold);
                self.loosened.remove(hold);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::MemoryMib;

    fn demand(cores: u32, memory: u64) -> Group {
        let demand = Demand {
            cores: Cores(cores),
            memory: MemoryMib(memory),
            ..Demand::default()
        };
        Group {
            demand,
            class: Class::default(),
        }
    }

    #[test]
    fn heads_come_in_queue_order_if_they_are_small_enough() {
        let mut waiting = Waiting::default();
        for (n, (cores, memory)) in [(3, 1), (1, 30), (2, 20), (1, 10), (2, 20)]
            .iter()
            .enumerate()
        {
            waiting.insert(&demand(*cores, *memory), QueuePosition(n as u64), n);
        }
        let next = |after: Option<u64>, within| {
            waiting
                .next_head(after.map(QueuePosition), within)
                .map(|(queue, _)| queue.0)
        };
        assert_eq!(next(None, (2, 20)), Some(2));
        assert_eq!(next(Some(2), (2, 20)), Some(3));
        assert_eq!(next(Some(3), (2, 20)), None);
        assert!(waiting.any_within(1, 10) && waiting.any_within(u64::MAX, u64::MAX));
        assert!(!waiting.any_within(1, 9) && !waiting.any_within(0, 100));
        waiting.remove(&demand(2, 20), QueuePosition(2));
        assert!(waiting.heads_are_right());
        assert_eq!(waiting.head(&demand(2, 20)), Some((QueuePosition(4), 4)));
    }

    #[test]
    fn only_a_new_head_makes_a_group_new() {
        let mut waiting = Waiting::default();
        waiting.insert(&demand(1, 1), QueuePosition(5), 5);
        assert_eq!(waiting.take_fresh().len(), 1);
        waiting.insert(&demand(1, 1), QueuePosition(6), 6);
        assert!(waiting.take_fresh().is_empty());
        waiting.insert(&demand(1, 1), QueuePosition(4), 4);
        assert_eq!(waiting.take_fresh().len(), 1);
        assert_eq!(waiting.head(&demand(1, 1)), Some((QueuePosition(4), 4)));
    }

    #[test]
    fn a_held_group_leaves_the_walk_and_comes_back_in_queue_order() {
        let mut waiting = Waiting::default();
        for (n, cores) in [4, 1, 2, 1].iter().enumerate() {
            waiting.insert(&demand(*cores, 1), QueuePosition(n as u64), n);
        }
        for cores in [4, 1, 2] {
            waiting.hold(&demand(cores, 1), Hold::DriverShare);
        }
        let most = (u64::MAX, u64::MAX);
        assert_eq!(waiting.next_head(None, most), None);
        assert!(waiting.take_fresh().is_empty() && waiting.heads_are_right());
        // The head of a held group may change.
        waiting.remove(&demand(1, 1), QueuePosition(1));
        waiting.loosen(&Hold::User("nobody".to_owned()));
        waiting.loosen(&Hold::DriverShare);
        assert_eq!(waiting.loosened().len(), 1);
        let small = |cores: Cores| cores.0 <= 2;
        let mut next = || {
            let released = waiting.release(&Hold::DriverShare, small);
            assert!(waiting.heads_are_right());
            released.map(|(queue, _)| queue.0)
        };
        assert_eq!([next(), next(), next()], [Some(2), Some(3), None]);
        assert!(waiting.loosened().is_empty());
        assert_eq!(
            waiting.next_head(None, most),
            Some((QueuePosition(2), &demand(2, 1)))
        );
        waiting.remove(&demand(4, 1), QueuePosition(0));
        assert!(waiting.held_by().is_empty() && waiting.heads_are_right());
    }
}
