//! How many executors of each profile an application wants, as it has asked for them: told to every leader. Pure.
//!
//! What a leader would refuse for good is refused here already: all targets go in one request, which is taken as a
//! whole, so one bad target kept here would keep the others from every leader.

use std::collections::{BTreeMap, BTreeSet};

use interrex_proto::{
    limits::{EXECUTORS_WANTED_MAX, PROFILES_PER_APP_MAX},
    v1,
};

/// What an application has asked for so far.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// The total of the application's own description; `None`: never asked for.
    own: Option<u32>,
    profiles: BTreeMap<u32, (v1::ResourceProfile, u32)>,
}

/// Why totals were not taken. Nothing of the request was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Described neither now nor before.
    #[error("profile {profile} is not known: describe what one of its executors needs")]
    Unknown {
        /// Which.
        profile: u32,
    },
    /// Described otherwise before.
    #[error(
        "profile {profile} was described otherwise before: give another description another id"
    )]
    Conflict {
        /// Which.
        profile: u32,
    },
    /// Profile 0 is the application's own description.
    #[error("profile 0 is the application's own description: give another one another id")]
    Own,
    /// Named twice in one request.
    #[error("profile {profile} is named twice")]
    Twice {
        /// Which.
        profile: u32,
    },
    /// More than anybody may ask for.
    #[error(
        "profile {profile}: {total} executors; at most {EXECUTORS_WANTED_MAX} can be asked for"
    )]
    Total {
        /// Of which profile.
        profile: u32,
        /// What was asked for.
        total: u32,
    },
    /// No further profile is possible.
    #[error("an application can have {PROFILES_PER_APP_MAX} profiles besides its own description")]
    TooMany,
}

// === impl Targets ===

impl Targets {
    /// Takes all of these, or none. A profile that is not named keeps its total.
    pub(super) fn take(&mut self, targets: Vec<v1::ExecutorTarget>) -> Result<(), TargetError> {
        let mut named = BTreeSet::new();
        let mut new = 0;
        for target in &targets {
            self.check(target)?;
            let profile = target.profile_id;
            if !named.insert(profile) {
                return Err(TargetError::Twice { profile });
            }
            new += usize::from(profile != 0 && !self.profiles.contains_key(&profile));
        }
        if self.profiles.len() + new > PROFILES_PER_APP_MAX {
            return Err(TargetError::TooMany);
        }
        for target in targets {
            self.set(target);
        }
        Ok(())
    }

    fn check(&self, target: &v1::ExecutorTarget) -> Result<(), TargetError> {
        let (profile, total) = (target.profile_id, target.total);
        if total > EXECUTORS_WANTED_MAX {
            return Err(TargetError::Total { profile, total });
        }
        match (&target.profile, self.profiles.get(&profile)) {
            (Some(_), _) if profile == 0 => Err(TargetError::Own),
            (None, None) if profile != 0 => Err(TargetError::Unknown { profile }),
            (Some(now), Some((before, _))) if now != before => {
                Err(TargetError::Conflict { profile })
            }
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    fn set(&mut self, target: v1::ExecutorTarget) {
        if target.profile_id == 0 {
            self.own = Some(target.total);
        } else if let Some((_, total)) = self.profiles.get_mut(&target.profile_id) {
            *total = target.total;
        } else if let Some(profile) = target.profile {
            self.profiles
                .insert(target.profile_id, (profile, target.total));
        }
    }

    /// Lowers a profile's total by one, because one of its executors is given up; `live`: how many of it there are,
    /// which is what counts where there was no limit.
    pub(super) fn lower(&mut self, profile: u32, limit: Option<u32>, live: u32) {
        if profile == 0 {
            let total = self.own.or(limit).unwrap_or(live);
            self.own = Some(total.saturating_sub(1));
        } else if let Some((_, total)) = self.profiles.get_mut(&profile) {
            *total = total.saturating_sub(1);
        }
    }

    /// All of it in one request; `None`: nothing was asked for.
    pub(super) fn request(&self, app_id: &str) -> Option<v1::RequestExecutors> {
        let own = self.own.map(|total| v1::ExecutorTarget {
            profile_id: 0,
            profile: None,
            total,
        });
        if self.profiles.is_empty() {
            return own.map(|own| v1::RequestExecutors {
                app_id: app_id.to_owned(),
                total: own.total,
                targets: Vec::new(),
            });
        }
        let further = self.profiles.iter();
        let further = further.map(|(id, (profile, total))| v1::ExecutorTarget {
            profile_id: *id,
            profile: Some(profile.clone()),
            total: *total,
        });
        Some(v1::RequestExecutors {
            app_id: app_id.to_owned(),
            total: self.own.unwrap_or_default(),
            targets: own.into_iter().chain(further).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(profile_id: u32, cores: Option<u32>, total: u32) -> v1::ExecutorTarget {
        v1::ExecutorTarget {
            profile_id,
            profile: cores.map(|cores| v1::ResourceProfile {
                cores: Some(cores),
                ..Default::default()
            }),
            total,
        }
    }

    fn totals(targets: &Targets) -> Vec<(u32, u32)> {
        let request = targets.request("app-1").unwrap_or_default();
        let totals = request.targets.iter();
        totals
            .map(|target| (target.profile_id, target.total))
            .collect()
    }

    #[test]
    fn a_bare_total_is_told_as_one() {
        let mut targets = Targets::default();
        assert_eq!(targets.request("app-1"), None);
        targets.take(vec![target(0, None, 7)]).unwrap();
        let request = targets.request("app-1").unwrap();
        assert_eq!((request.total, request.targets), (7, vec![]));
    }

    #[test]
    fn what_is_not_named_is_kept_and_told_again_with_its_description() {
        let mut targets = Targets::default();
        targets.take(vec![target(1, Some(2), 3)]).unwrap();
        assert_eq!(
            totals(&targets),
            [(1, 3)],
            "the own total was never asked for"
        );
        targets.take(vec![target(0, None, 4)]).unwrap();
        targets.take(vec![target(1, None, 5)]).unwrap();
        assert_eq!(totals(&targets), [(0, 4), (1, 5)]);
        let told = targets.request("app-1").unwrap().targets;
        assert_eq!(told[1], target(1, Some(2), 5));
    }

    #[test]
    fn what_every_leader_would_refuse_is_not_taken_and_takes_nothing_along() {
        let mut targets = Targets::default();
        targets.take(vec![target(1, Some(2), 3)]).unwrap();
        let mut refused = |bad| {
            targets
                .take(vec![target(1, None, 9), bad])
                .expect_err("must be refused")
        };
        assert_eq!(
            refused(target(2, None, 1)),
            TargetError::Unknown { profile: 2 }
        );
        assert_eq!(
            refused(target(1, Some(2), 1)),
            TargetError::Twice { profile: 1 }
        );
        assert_eq!(refused(target(0, Some(2), 1)), TargetError::Own);
        let total = u32::MAX;
        assert_eq!(
            refused(target(0, None, total)),
            TargetError::Total { profile: 0, total }
        );
        let conflict = targets.take(vec![target(1, Some(3), 1)]);
        assert_eq!(conflict, Err(TargetError::Conflict { profile: 1 }));
        let many = (2..=102).map(|id| target(id, Some(1), 0)).collect();
        assert_eq!(targets.take(many), Err(TargetError::TooMany));
        assert_eq!(totals(&targets), [(1, 3)]);
    }

    #[test]
    fn a_total_is_lowered_from_what_was_asked_for_the_limit_or_what_is_there() {
        let lowered = |asked: Option<u32>, limit| {
            let mut targets = Targets::default();
            if let Some(total) = asked {
                targets.take(vec![target(0, None, total)]).unwrap();
            }
            targets.lower(0, limit, 4);
            targets.own
        };
        assert_eq!(lowered(Some(9), Some(5)), Some(8));
        assert_eq!(lowered(None, Some(5)), Some(4));
        assert_eq!(lowered(None, None), Some(3));
        assert_eq!(lowered(Some(0), None), Some(0));
    }
}
