//! Sums over the whole cluster that caps are measured by. Carried along with each write, and derived anew by
//! `validate()`.

use std::collections::BTreeMap;

use crate::caps::Share;

/// Cores, by what caps ask about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// What workers offer, and what drivers that need executors hold of it.
    pub(crate) share: Share,
    /// Cores that each user's drivers and executors hold together; nobody with none.
    pub(crate) by_user: BTreeMap<String, u64>,
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
