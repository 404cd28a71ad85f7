//! Things that wait for a worker, grouped by equal demand, first come first served within a group. If the head of a
//! group fits nowhere, nothing behind it does: a queue of 50,000 equal drivers costs as much as a queue of one.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ids::QueuePosition, resources::Demand};

/// A queue of drivers or applications.
#[derive(Debug, Clone)]
pub(crate) struct Waiting<I> {
    groups: BTreeMap<Demand, BTreeMap<QueuePosition, I>>,
    /// Groups whose head is new: nobody knows yet whether it fits somewhere. Not part of what `validate()` compares.
    fresh: BTreeSet<Demand>,
}

// === impl Waiting ===

impl<I> Default for Waiting<I> {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            fresh: BTreeSet::new(),
        }
    }
}

impl<I: Clone + PartialEq> Waiting<I> {
    pub(crate) fn insert(&mut self, demand: &Demand, queue: QueuePosition, id: I) {
        if !self.groups.contains_key(demand) {
            self.groups.insert(demand.clone(), BTreeMap::new());
        }
        if let Some(group) = self.groups.get_mut(demand) {
            group.insert(queue, id);
            if group
                .first_key_value()
                .is_some_and(|(first, _)| *first == queue)
            {
                self.fresh.insert(demand.clone());
            }
        }
    }

    pub(crate) fn remove(&mut self, demand: &Demand, queue: QueuePosition) {
        if let Some(group) = self.groups.get_mut(demand) {
            group.remove(&queue);
            if group.is_empty() {
                self.groups.remove(demand);
                self.fresh.remove(demand);
            }
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

    /// Demands that ask for at most these cores.
    pub(crate) fn demands_up_to(&self, cores: u64) -> impl Iterator<Item = &Demand> {
        // Demands are ordered by cores first.
        self.groups
            .keys()
            .take_while(move |demand| u64::from(demand.cores.0) <= cores)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Everything that waits, for comparison.
    pub(crate) fn groups(&self) -> &BTreeMap<Demand, BTreeMap<QueuePosition, I>> {
        &self.groups
    }
}
