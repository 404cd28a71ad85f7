//! The executors of one application.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{ExecutorId, ProfileId},
    state::{
        executor::{Executor, ExecutorState},
        index::place::Group,
    },
    time::Timestamp,
};

/// Executors of one application, by whether they are over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AppLoad {
    /// Not over, with their cores.
    active: BTreeMap<ExecutorId, u32>,
    /// Of these, the ones whose process exists and is not to end.
    running: BTreeSet<ExecutorId>,
    /// Of the active, the ones that do not count any more: their worker was drained.
    drained: BTreeSet<ExecutorId>,
    /// Over, oldest first.
    ended: BTreeSet<(Timestamp, ExecutorId)>,
    /// The sum over `active` without `drained`. Written only where `active` is, and compared by `validate()`.
    cores: u64,
    /// How many of `active` without `drained` are of each profile. Written only where `active` is, and compared by
    /// `validate()`.
    profiles: BTreeMap<ProfileId, u64>,
    /// In which group each profile stands among the starving that does.
    pub(crate) queued: BTreeMap<ProfileId, Group>,
    /// The user and the cores of it that are part of the user's sum; `None` before the application is recorded.
    pub(crate) billed: Option<(String, u64)>,
}

// === impl AppLoad ===

impl AppLoad {
    pub(crate) fn insert(&mut self, executor: &Executor) {
        if executor.state.is_final() {
            self.ended
                .insert((executor.finished_at.unwrap_or_default(), executor.id));
            return;
        }
        self.forget_active(executor);
        self.active.insert(executor.id, executor.cores.0);
        if executor.drained {
            self.drained.insert(executor.id);
        } else {
            self.cores += u64::from(executor.cores.0);
            *self.profiles.entry(executor.profile).or_default() += 1;
        }
        if executor.state == ExecutorState::Running {
            self.running.insert(executor.id);
        }
    }

    pub(crate) fn remove(&mut self, executor: &Executor) {
        self.ended
            .remove(&(executor.finished_at.unwrap_or_default(), executor.id));
        self.running.remove(&executor.id);
        self.forget_active(executor);
    }

    fn forget_active(&mut self, executor: &Executor) {
        let drained = self.drained.remove(&executor.id);
        if let Some(cores) = self.active.remove(&executor.id)
            && !drained
        {
            self.cores -= u64::from(cores);
            if let Some(count) = self.profiles.get_mut(&executor.profile) {
                *count -= 1;
                if *count == 0 {
                    self.profiles.remove(&executor.profile);
                }
            }
        }
    }

    /// Executors that are not over.
    pub(crate) fn active(&self) -> impl Iterator<Item = ExecutorId> + '_ {
        self.active.keys().copied()
    }

    pub(crate) fn active_count(&self) -> u64 {
        self.active.len() as u64
    }

    /// Executors of one profile that are not over and count towards what the application wants.
    pub(crate) fn counted_of(&self, profile: ProfileId) -> u64 {
        self.profiles.get(&profile).copied().unwrap_or(0)
    }

    /// Cores over all executors that count.
    pub(crate) fn cores(&self) -> u64 {
        self.cores
    }

    pub(crate) fn any_running(&self) -> bool {
        !self.running.is_empty()
    }

    /// Executors that are over, oldest first.
    pub(crate) fn ended(&self) -> &BTreeSet<(Timestamp, ExecutorId)> {
        &self.ended
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
            && self.ended.is_empty()
            && self.queued.is_empty()
            && self.billed.is_none()
    }
}
