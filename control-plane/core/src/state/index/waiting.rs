//! Things that wait for a worker, grouped by equal demand, first come first served within a group. If the head of a
//! group fits nowhere, nothing behind it does: a queue of 50,000 equal drivers costs as much as a queue of one.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{
    ids::QueuePosition,
    resources::{Cores, Demand},
};

/// A queue of drivers or applications.
#[derive(Debug, Clone)]
pub(crate) struct Waiting<I> {
    groups: BTreeMap<Demand, BTreeMap<QueuePosition, I>>,
    /// The first of each group, in queue order.
    heads: BTreeMap<QueuePosition, Demand>,
    /// Groups whose head is new: nobody knows yet whether it fits somewhere. Not part of what `validate()` compares.
    fresh: BTreeSet<Demand>,
}

// === impl Waiting ===

impl<I> Default for Waiting<I> {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            heads: BTreeMap::new(),
            fresh: BTreeSet::new(),
        }
    }
}

impl<I: Clone + PartialEq> Waiting<I> {
    pub(crate) fn insert(&mut self, demand: &Demand, queue: QueuePosition, id: I) {
        if !self.groups.contains_key(demand) {
            self.groups.insert(demand.clone(), BTreeMap::new());
        }
        let Some(group) = self.groups.get_mut(demand) else {
            return;
        };
        let before = group.first_key_value().map(|(first, _)| *first);
        group.insert(queue, id);
        if before.is_none_or(|before| queue <= before) {
            if let Some(before) = before {
                self.heads.remove(&before);
            }
            self.heads.insert(queue, demand.clone());
            self.fresh.insert(demand.clone());
        }
    }

    pub(crate) fn remove(&mut self, demand: &Demand, queue: QueuePosition) {
        let Some(group) = self.groups.get_mut(demand) else {
            return;
        };
        group.remove(&queue);
        let next = group.first_key_value().map(|(first, _)| *first);
        if self.heads.get(&queue).is_some_and(|head| head == demand) {
            self.heads.remove(&queue);
            if let Some(next) = next {
                self.heads.insert(next, demand.clone());
            }
        }
        if next.is_none() {
            self.groups.remove(demand);
            self.fresh.remove(demand);
        }
    }

    /// The first of a group.
    pub(crate) fn head(&self, demand: &Demand) -> Option<(QueuePosition, I)> {
        let (queue, id) = self.groups.get(demand)?.first_key_value()?;
        Some((*queue, id.clone()))
    }

    /// Forgets which groups are new, and says which were.
    pub(crate) fn take_fresh(&mut self) -> BTreeSet<Demand> {
        std::mem::take(&mut self.fresh)
    }

    /// Whether any demand asks for at most so many cores and so much memory. Costs the number of different core
    /// counts: demands are ordered by cores, then memory.
    pub(crate) fn any_within(&self, cores: u64, memory: u64) -> bool {
        let mut from = Demand::default();
        while let Some((smallest, _)) = self.groups.range(&from..).next() {
            if u64::from(smallest.cores.0) > cores {
                return false;
            }
            if smallest.memory.0 <= memory {
                return true;
            }
            let Some(next) = smallest.cores.0.checked_add(1) else {
                return false;
            };
            from = Demand {
                cores: Cores(next),
                ..Demand::default()
            };
        }
        false
    }

    /// The next head in queue order that asks for at most so many cores and so much memory. Costs those passed over.
    pub(crate) fn next_head(
        &self,
        after: Option<QueuePosition>,
        (cores, memory): (u64, u64),
    ) -> Option<(QueuePosition, &Demand)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.heads
            .range((from, Bound::Unbounded))
            .find(|(_, demand)| u64::from(demand.cores.0) <= cores && demand.memory.0 <= memory)
            .map(|(queue, demand)| (*queue, demand))
    }

    /// Everything that waits, for comparison.
    pub(crate) fn groups(&self) -> &BTreeMap<Demand, BTreeMap<QueuePosition, I>> {
        &self.groups
    }

    /// Whether the heads are what the groups say, for comparison.
    pub(crate) fn heads_are_right(&self) -> bool {
        let heads: BTreeMap<_, _> = self
            .groups
            .iter()
            .filter_map(|(demand, group)| Some((*group.first_key_value()?.0, demand.clone())))
            .collect();
        heads == self.heads
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::MemoryMib;

    fn demand(cores: u32, memory: u64) -> Demand {
        Demand {
            cores: Cores(cores),
            memory: MemoryMib(memory),
            ..Demand::default()
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
}
