//! The executors that an application knows of, so that each is told once as added and once as removed, whatever
//! was lost or repeated on the way. Pure.

use std::collections::{BTreeMap, BTreeSet};

use interrex_proto::v1::ExecutorInfo;

use super::event::AppEvent;

/// Live executors by id, and which ids are over. Ids are never used twice in one application.
#[derive(Debug, Default)]
pub(super) struct Roster {
    live: BTreeMap<u32, ExecutorInfo>,
    over: OverIds,
}

/// A set of ids that stays small: all below `below`, and those in `above`.
#[derive(Debug, Default)]
struct OverIds {
    below: u32,
    above: BTreeSet<u32>,
}

// === impl Roster ===

impl Roster {
    pub(super) fn is_live(&self, id: u32) -> bool {
        self.live.contains_key(&id)
    }

    /// Of which profile a live executor is.
    pub(super) fn profile_of(&self, id: u32) -> Option<u32> {
        self.live.get(&id).map(|executor| executor.resource_profile)
    }

    /// The live executors of a profile.
    pub(super) fn live_of(&self, profile: u32) -> impl Iterator<Item = u32> + '_ {
        let of_profile = self.live.values();
        of_profile
            .filter(move |executor| executor.resource_profile == profile)
            .map(|executor| executor.executor_id)
    }

    /// Takes one executor as the leader described it just now, in an `ExecutorAdded` or `ExecutorUpdated`.
    pub(super) fn observe(&mut self, executor: ExecutorInfo, events: &mut Vec<AppEvent>) {
        let id = executor.executor_id;
        if self.over.contains(id) {
            return; // a repeat, or an older picture than the one told
        }
        let known = self.live.get(&id);
        if known.is_none() {
            events.push(AppEvent::ExecutorAdded(executor.clone()));
        }
        if is_over(&executor.state) {
            self.live.remove(&id);
            self.over.insert(id);
            events.push(AppEvent::ExecutorRemoved(executor));
            return;
        }
        if known.is_some_and(|known| *known != executor) {
            events.push(AppEvent::ExecutorUpdated(executor.clone()));
        }
        self.live.insert(id, executor);
    }

    /// Takes the leader's whole picture after an attachment: what is new is added, what differs updated, and what
    /// is missing has ended while the application was not attached.
    pub(super) fn reconcile(&mut self, executors: Vec<ExecutorInfo>, events: &mut Vec<AppEvent>) {
        let named: BTreeSet<u32> = executors
            .iter()
            .map(|executor| executor.executor_id)
            .collect();
        for executor in executors {
            self.observe(executor, events);
        }
        let missing: Vec<u32> = self
            .live
            .keys()
            .copied()
            .filter(|id| !named.contains(id))
            .collect();
        for id in missing {
            if let Some(mut executor) = self.live.remove(&id) {
                self.over.insert(id);
                "LOST".clone_into(&mut executor.state);
                "ended while the application was not attached".clone_into(&mut executor.message);
                events.push(AppEvent::ExecutorRemoved(executor));
            }
        }
    }
}

// === impl OverIds ===

impl OverIds {
    fn contains(&self, id: u32) -> bool {
        id < self.below || self.above.contains(&id)
    }

    fn insert(&mut self, id: u32) {
        self.above.insert(id);
        while self.above.remove(&self.below) {
            self.below = self.below.saturating_add(1);
        }
    }
}

//= spark v4.1.x ExecutorState.isFinished
fn is_over(state: &str) -> bool {
    matches!(state, "KILLED" | "FAILED" | "LOST" | "EXITED")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor(executor_id: u32, state: &str) -> ExecutorInfo {
        ExecutorInfo {
            executor_id,
            state: state.to_owned(),
            ..ExecutorInfo::default()
        }
    }

    fn observe(roster: &mut Roster, executor: ExecutorInfo) -> Vec<AppEvent> {
        let mut events = Vec::new();
        roster.observe(executor, &mut events);
        events
    }

    fn reconcile(roster: &mut Roster, executors: Vec<ExecutorInfo>) -> Vec<AppEvent> {
        let mut events = Vec::new();
        roster.reconcile(executors, &mut events);
        events
    }

    #[test]
    fn a_repeated_message_is_told_once() {
        let mut roster = Roster::default();
        let running = executor(0, "RUNNING");
        assert_eq!(
            observe(&mut roster, running.clone()),
            [AppEvent::ExecutorAdded(running.clone())]
        );
        assert_eq!(observe(&mut roster, running), []);
        let exited = executor(0, "EXITED");
        assert_eq!(
            observe(&mut roster, exited.clone()),
            [AppEvent::ExecutorRemoved(exited.clone())]
        );
        assert_eq!(observe(&mut roster, exited), []);
        assert_eq!(
            observe(&mut roster, executor(0, "RUNNING")),
            [],
            "the dead do not rise"
        );
    }

    #[test]
    fn an_end_without_a_beginning_is_told_as_both() {
        let mut roster = Roster::default();
        let lost = executor(3, "LOST");
        assert_eq!(
            observe(&mut roster, lost.clone()),
            [
                AppEvent::ExecutorAdded(lost.clone()),
                AppEvent::ExecutorRemoved(lost)
            ]
        );
    }

    #[test]
    fn what_was_missed_while_detached_is_told_once() {
        let mut roster = Roster::default();
        let first = reconcile(
            &mut roster,
            vec![executor(0, "RUNNING"), executor(1, "LAUNCHING")],
        );
        assert_eq!(first.len(), 2);
        let picture = vec![executor(1, "RUNNING"), executor(2, "LAUNCHING")];
        let second = reconcile(&mut roster, picture.clone());
        let removed = ExecutorInfo {
            message: "ended while the application was not attached".to_owned(),
            ..executor(0, "LOST")
        };
        assert_eq!(
            second,
            [
                AppEvent::ExecutorUpdated(executor(1, "RUNNING")),
                AppEvent::ExecutorAdded(executor(2, "LAUNCHING")),
                AppEvent::ExecutorRemoved(removed),
            ]
        );
        assert_eq!(
            reconcile(&mut roster, picture),
            [],
            "the same picture holds no news"
        );
        assert!(roster.is_live(1) && roster.is_live(2) && !roster.is_live(0));
    }

    #[test]
    fn ids_that_are_over_take_no_room_once_all_below_are_over() {
        let mut over = OverIds::default();
        for id in [3, 1, 0, 2] {
            over.insert(id);
        }
        assert_eq!((over.below, over.above.len()), (4, 0));
        assert!(over.contains(3) && !over.contains(4));
    }
}
