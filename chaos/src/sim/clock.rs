//! Time and order of the simulated world: one queue of events, ordered by time and then by when they were put in.

use std::{collections::BTreeMap, fmt, time::Duration};

/// A moment of the world, in microseconds since its start. Nodes see it through clocks of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct At(pub(crate) u64);

/// Events that are to happen.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    events: BTreeMap<(At, u64), E>,
    next: u64,
}

// === impl At ===

impl At {
    /// This much later.
    #[must_use]
    pub(crate) fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)),
        )
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

// === impl Queue ===

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self {
            events: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<E> Queue<E> {
    /// Something will happen at `at`; what is put in later for the same moment happens later.
    pub(crate) fn put(&mut self, at: At, event: E) {
        self.events.insert((at, self.next), event);
        self.next += 1;
    }

    /// The next thing that happens.
    pub(crate) fn pop(&mut self) -> Option<(At, E)> {
        self.events
            .pop_first()
            .map(|((at, _order), event)| (at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_by_time_and_then_in_the_order_of_their_putting_in() {
        let mut queue = Queue::default();
        queue.put(At(2), "c");
        queue.put(At(1), "a");
        queue.put(At(2), "d");
        queue.put(At(1), "b");
        let mut order = Vec::new();
        while let Some((_, event)) = queue.pop() {
            order.push(event);
        }
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
