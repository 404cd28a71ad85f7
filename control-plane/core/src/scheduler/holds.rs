//! Caps: the share of drivers that need executors, and the cores of one user. What a cap forbids is *held*: it leaves
//! the walk, and comes back in its old place when the cap may have room.
//!
//! A cap only ever holds back. When workers go and the rest is more than a cap allows, nothing is ended.

use crate::{
    config::ClusterConfig,
    scheduler::Walk,
    state::{
        app::Application,
        cluster::ClusterState,
        driver::Driver,
        index::{
            Index,
            place::{Class, Group, Place},
            sums::Sums,
            waiting::{Hold, Waiting},
        },
    },
};

// === impl Driver ===

impl Driver {
    /// Which caps it counts against.
    pub(crate) fn class(&self, config: &ClusterConfig) -> Class {
        Class {
            sharing: self.spec.needs_executors && config.driver_share_max.is_some(),
            user: config.user_cores_max.map(|_| self.spec.user.clone()),
        }
    }
}

// === impl Application ===

impl Application {
    /// Which caps it counts against.
    pub(crate) fn class(&self, config: &ClusterConfig) -> Class {
        Class {
            sharing: false,
            user: config.user_cores_max.map(|_| self.spec.user.clone()),
        }
    }
}

// === impl Hold ===

impl Hold {
    /// Whether this cap allows so many cores more.
    pub(crate) fn allows(&self, cores: u64, sums: &Sums, config: &ClusterConfig) -> bool {
        match self {
            Self::DriverShare => sums.share.allows(cores, config),
            Self::User(user) => config.user_may_have(sums.of_user(user), cores),
        }
    }
}

// === impl ClusterState ===

impl ClusterState {
    /// The cap that forbids this group's head now, if one does.
    pub(crate) fn hold_on(&self, group: &Group) -> Option<Hold> {
        let share = group.class.sharing.then_some(Hold::DriverShare);
        let user = group.class.user.clone().map(Hold::User);
        let (sums, config) = (&self.index.sums, &self.config);
        share
            .into_iter()
            .chain(user)
            .find(|hold| !hold.allows(group.cores(), sums, config))
    }

    /// Cores that the caps on its user leave to something of this class.
    pub(crate) fn user_room(&self, class: &Class) -> u64 {
        let (Some(user), Some(max)) = (&class.user, self.config.user_cores_max) else {
            return u64::MAX;
        };
        u64::from(max.0).saturating_sub(self.index.sums.of_user(user))
    }

    /// Brings the first group that each cap with new room holds into a walk. Its next one follows when that has been
    /// looked at, so a queue that is held costs what is let go.
    pub(crate) fn let_go<I: Clone + PartialEq>(
        &mut self,
        walk: &mut Walk<'_>,
        queue: impl Fn(&mut Index) -> &mut Waiting<I>,
    ) {
        let loosened: Vec<_> = queue(&mut self.index).loosened().iter().cloned().collect();
        for hold in loosened {
            self.let_next_go(walk, hold, &queue);
        }
    }

    /// The head at `visited` has been looked at: if a cap had let it go, the next one behind that cap comes up.
    pub(crate) fn visited<I: Clone + PartialEq>(
        &mut self,
        walk: &mut Walk<'_>,
        visited: Place,
        queue: impl Fn(&mut Index) -> &mut Waiting<I>,
    ) {
        if let Some(hold) = walk.let_go.remove(&visited) {
            self.let_next_go(walk, hold, &queue);
        }
    }

    fn let_next_go<I: Clone + PartialEq>(
        &mut self,
        walk: &mut Walk<'_>,
        hold: Hold,
        queue: impl Fn(&mut Index) -> &mut Waiting<I>,
    ) {
        // The queue is borrowed apart from the sums.
        let sums = std::mem::take(&mut self.index.sums);
        let fits = |group: &Group| hold.allows(group.cores(), &sums, &self.config);
        let released = queue(&mut self.index).release(&hold, fits);
        self.index.sums = sums;
        if let Some((place, group)) = released {
            walk.fresh.insert(place, group);
            walk.let_go.insert(place, hold);
        }
    }
}
