//! Who runs where. One pass after each command, over what that command made possible: drivers first, then executors.
//!
//! Between passes this holds (and `validate()` checks it): nothing that waits fits on any worker, unless the last
//! pass stopped at its bound, `max_drivers` holds drivers back or a cap holds it (`holds.rs`). So a pass needs to look
//! only at
//! * what is new in the queue, on all workers,
//! * all that waits, on workers that have got room since, and
//! * what a cap held that has got room since, on all workers.
//!
//! A queue is made of groups of equal demand and equal caps. If the head of a group does not fit, nothing behind it
//! does, so a pass walks over heads only, in queue order, until the room is used up: it costs what it places, and the
//! heads that it passes over because they are too big. A full cluster costs nothing.
//!
//! Spark instead goes over all applications and all workers at each event (2.7 s at 2,000 workers and 500
//! applications); the placements are the same.

mod drivers;
mod executors;
mod gate;
mod holds;
pub(crate) mod plan;
pub(crate) mod wants;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::WorkerId,
    resources::Demand,
    state::{
        cluster::ClusterState,
        index::{
            load::Used,
            offer::Offers,
            place::{Group, Place},
            waiting::{Hold, Room, Waiting},
        },
    },
};

/// Drivers and applications served in one pass. What is left is served by the next command or tick.
pub(crate) const SERVED_PER_PASS_MAX: usize = 1_000;

/// On which workers a group is to be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// On all.
    All,
    /// On those that have got room since the last pass.
    Grown,
}

/// A walk over the heads of a queue.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    /// New heads, to be tried on all workers.
    fresh: BTreeMap<Place, Group>,
    /// Heads among the fresh that a cap has let go, until they have been looked at.
    let_go: BTreeMap<Place, Hold>,
    /// Workers that have got room since the last pass.
    grown: &'a BTreeSet<WorkerId>,
    /// The most that any worker has that the others are to be tried on.
    most: Room,
    /// Everything is to be tried on all workers.
    everything: bool,
    /// Whether any but the fresh heads may fit.
    others: bool,
    after: Option<Place>,
}

/// One head of a queue.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) place: Place,
    pub(crate) group: Group,
    pub(crate) scope: Scope,
}

// === impl Walk ===

impl Walk<'_> {
    /// The next head that may fit.
    pub(crate) fn next<I: Clone + PartialEq>(&mut self, queue: &Waiting<I>) -> Option<Head> {
        let fresh = self.fresh.first_key_value().map(|(place, _)| *place);
        let other = if self.others {
            queue.next_head(self.after, &self.most)
        } else {
            None
        };
        match (fresh, other) {
            (fresh, Some((place, group))) if fresh.is_none_or(|fresh| place < fresh) => {
                self.after = Some(place);
                let scope = if self.everything {
                    Scope::All
                } else {
                    Scope::Grown
                };
                let group = group.clone();
                Some(Head {
                    place,
                    group,
                    scope,
                })
            }
            (Some(_) | None, Some(_) | None) => {
                let (place, group) = self.fresh.pop_first()?;
                self.after = self.after.max(Some(place));
                let scope = Scope::All;
                Some(Head {
                    place,
                    group,
                    scope,
                })
            }
        }
    }

    /// The head that was to be served is served, or has left its group: the one behind it comes up in its own turn.
    pub(crate) fn gone<I: Clone + PartialEq>(&mut self, queue: &Waiting<I>, head: Head) {
        if head.scope == Scope::All
            && !self.everything
            && let Some((place, _)) = queue.head(&head.group)
        {
            self.fresh.insert(place, head.group);
        }
    }

    /// Something was placed: the head behind comes up, and there is less room.
    pub(crate) fn placed<I: Clone + PartialEq>(
        &mut self,
        state: &ClusterState,
        queue: &Waiting<I>,
        head: Head,
    ) {
        self.gone(queue, head);
        self.shrunk(state);
    }

    /// There is less room.
    pub(crate) fn shrunk(&mut self, state: &ClusterState) {
        self.most = state.most_of(self.grown, self.everything);
        self.others &= self.most.cores > 0;
    }
}

// === impl ClusterState ===

impl ClusterState {
    /// One pass.
    pub(crate) fn schedule(&mut self) {
        let grown = std::mem::take(&mut self.pass.grown);
        let everything = std::mem::take(&mut self.pass.unfinished);
        let drivers = self.index.waiting.take_fresh();
        let apps = self.index.starving.take_fresh();
        if self.index.free.is_empty() {
            return;
        }
        let grown: BTreeSet<WorkerId> = grown
            .into_iter()
            .filter(|id| self.index.free.get(id).is_some())
            .collect();
        let mut left = SERVED_PER_PASS_MAX;
        self.place_drivers(&drivers, &grown, everything, &mut left);
        self.place_executors(&apps, &grown, everything, &mut left);
    }

    /// The most that any of these workers has left, or any at all.
    fn most_of(&self, workers: &BTreeSet<WorkerId>, everything: bool) -> Room {
        let index = &self.index.free;
        if everything {
            return Room {
                cores: index.cores_max(),
                memory: index.memory_max(),
                offers: None,
            };
        }
        let mut most = Room::default();
        let mut offers = Offers::new();
        for id in workers {
            let Some(free) = index.get(id) else { continue };
            most.cores = most.cores.max(free.cores);
            most.memory = most.memory.max(free.memory);
            offers.extend(index.offers_of(id).iter().cloned());
        }
        most.offers = Some(offers);
        most
    }

    /// A walk over what may fit now.
    fn walk<'a, I: Clone + PartialEq>(
        &self,
        queue: &Waiting<I>,
        fresh: &BTreeSet<Group>,
        grown: &'a BTreeSet<WorkerId>,
        everything: bool,
    ) -> Walk<'a> {
        let head = |group: &Group| Some((queue.head(group)?.0, group.clone()));
        let most = self.most_of(grown, everything);
        let others = queue.any_within(most.cores, most.memory);
        Walk {
            fresh: if everything {
                BTreeMap::new()
            } else {
                fresh.iter().filter_map(head).collect()
            },
            let_go: BTreeMap::new(),
            grown,
            most,
            everything,
            others,
            after: None,
        }
    }

    /// Whether an alive worker with room can take this in addition.
    pub(crate) fn fits_on(&self, id: &WorkerId, demand: &Demand) -> bool {
        let Some(free) = self.index.free.get(id) else {
            return false;
        };
        if free.cores < u64::from(demand.cores.0)
            || free.memory < demand.memory.0
            || (demand.needs_agent && !free.is_agent)
            || self.shrunk.contains(id)
        {
            return false;
        }
        if demand.resources.is_empty() && demand.capability.is_none() {
            return true;
        }
        let Some(worker) = self.workers.get(id) else {
            return false;
        };
        self.used_on(id).leaves_room_for(&worker.spec, demand)
    }

    /// What is in use on a worker.
    pub(crate) fn used_on(&self, id: &WorkerId) -> &Used {
        static NOTHING: Used = Used::NONE;
        self.index.loads.get(id).map_or(&NOTHING, |load| &load.used)
    }
}
