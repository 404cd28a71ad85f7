//! Sums over the whole cluster that caps are measured by. Carried along with each write, and derived anew by
//! `validate()`.

use std::collections::BTreeMap;

/// Cores, by what caps ask about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Cores of workers that take new work: alive and not being drained.
    pub(crate) cores_offered: u64,
    /// Drivers that need executors and hold resources.
    pub(crate) sharing: Held,
    /// Cores that each user's drivers and executors hold together; nobody with none.
    pub(crate) by_user: BTreeMap<String, u64>,
}

/// How many hold how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) count: u64,
    pub(crate) cores: u64,
}

// === impl Sums ===

impl Sums {
    /// Cores that a user holds.
    pub(crate) fn of_user(&self, user: &str) -> u64 {
        self.by_user.get(user).copied().unwrap_or_default()
    }

    pub(crate) fn add_user(&mut self, user: &str, cores: u64) {
        if cores == 0 {
            return;
        }
        match self.by_user.get_mut(user) {
            Some(sum) => *sum = sum.saturating_add(cores),
            None => drop(self.by_user.insert(user.to_owned(), cores)),
        }
    }

    pub(crate) fn take_user(&mut self, user: &str, cores: u64) {
        if let Some(sum) = self.by_user.get_mut(user) {
            *sum = sum.saturating_sub(cores);
            if *sum == 0 {
                self.by_user.remove(user);
            }
        }
    }
}

// === impl Held ===

impl Held {
    pub(crate) fn add(&mut self, cores: u64) {
        self.count = self.count.saturating_add(1);
        self.cores = self.cores.saturating_add(cores);
    }

    pub(crate) fn take(&mut self, cores: u64) {
        self.count = self.count.saturating_sub(1);
        self.cores = self.cores.saturating_sub(cores);
    }
}
