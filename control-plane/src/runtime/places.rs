//! How full every bounded queue is, and every set of places that an edge hands out (callers of one kind at a time), for
//! a scrape.
//!
//! Places are kept by weak references: an edge that is gone takes its gauge with it, and nothing is kept alive by being watched.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Semaphore;

use crate::{
    metrics::Queue,
    runtime::{
        hand_over::HAND_OVERS_MAX,
        heartbeat_acks::HEARD_MAX,
        port::{MAILBOX_MAX, READS_MAX},
        restore::RESTORES_MAX,
        shared::Shared,
    },
};

/// The sets of places of one master; a handful.
#[derive(Debug, Default)]
pub(crate) struct Places {
    watched: Mutex<Vec<Watched>>,
}

#[derive(Debug)]
struct Watched {
    queue: Queue,
    places: Weak<Semaphore>,
    max: usize,
}

/// Tells `each` how full every queue and every set of places is, and how full it may be; all queues are empty on a master
/// that does not lead. What the leader's loop and the sessions hold they tell themselves.
pub(crate) fn each_queue(shared: &Shared, each: &impl Fn(Queue, usize, usize)) {
    shared.places.each(each);
    let port = shared.port.borrow().clone();
    let port = port.as_ref();
    let queue = |queue, free: Option<usize>, max: usize| {
        each(queue, max.saturating_sub(free.unwrap_or(max)), max);
    };
    queue(
        Queue::Mailbox,
        port.map(|p| p.mailbox.capacity()),
        MAILBOX_MAX,
    );
    queue(Queue::Reads, port.map(|p| p.reads.capacity()), READS_MAX);
    queue(
        Queue::Heartbeats,
        port.map(|p| p.heard.capacity()),
        HEARD_MAX,
    );
    queue(
        Queue::HandOvers,
        port.map(|p| p.hand_overs.capacity()),
        HAND_OVERS_MAX,
    );
    let restores = shared.restores.borrow().clone();
    let free = restores.as_ref().map(|port| port.orders.capacity());
    queue(Queue::Restores, free, RESTORES_MAX);
}

// === impl Places ===

impl Places {
    /// From now on `places`, of which there are `max`, are told of as `queue`.
    pub(crate) fn watch(&self, queue: Queue, places: &Arc<Semaphore>, max: usize) {
        let places = Arc::downgrade(places);
        self.lock().push(Watched { queue, places, max });
    }

    /// Tells `each` how many places of each set are taken, and how many there are.
    pub(crate) fn each(&self, each: &impl Fn(Queue, usize, usize)) {
        for watched in self.lock().iter() {
            let free = watched.places.upgrade().map(|p| p.available_permits());
            let taken = free.map_or(0, |free| watched.max.saturating_sub(free));
            each(watched.queue, taken, watched.max);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        // A list that is only ever added to is whole after a panic, too.
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn told(places: &Places) -> Vec<(Queue, usize, usize)> {
        let all = RefCell::new(Vec::new());
        places.each(&|queue, taken, max| all.borrow_mut().push((queue, taken, max)));
        all.into_inner()
    }

    #[tokio::test]
    async fn places_are_told_while_they_are_taken_and_after_their_edge_is_gone() {
        let places = Places::default();
        let slots = Arc::new(Semaphore::new(3));
        places.watch(Queue::Explanations, &slots, 3);
        assert_eq!(told(&places), [(Queue::Explanations, 0, 3)]);
        let taken = Arc::clone(&slots).acquire_owned().await.unwrap();
        assert_eq!(told(&places), [(Queue::Explanations, 1, 3)]);
        drop((taken, slots));
        assert_eq!(told(&places), [(Queue::Explanations, 0, 3)]);
    }
}
