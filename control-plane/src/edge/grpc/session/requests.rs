//! What an application asks for while it is registered: messages → commands, checked. A refusal names the field.

use std::sync::Arc;

use interrex_core::{
    command::{Command, ExecutorTarget},
    ids::{AppId, ExecutorId, ProfileId},
};
use interrex_proto::v1;

use crate::{
    edge::validate::{self, FieldError},
    messages::resource_profile,
};

/// The end of an application; nothing of it is refused.
pub fn unregister(app: &AppId, message: v1::UnregisterApplication) -> Command {
    Command::UnregisterApplication {
        app: app.clone(),
        failed: message.failed,
        message: validate::cut_message(message.message),
    }
}

/// Totals of executors, checked.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn executors(app: &AppId, message: v1::RequestExecutors) -> Result<Command, FieldError> {
    validate::request_executors(&message)?;
    let targets = if message.targets.is_empty() {
        vec![ExecutorTarget::of_default(message.total)]
    } else {
        message.targets.into_iter().map(target).collect()
    };
    Ok(Command::RequestExecutors {
        app: app.clone(),
        targets,
    })
}

/// Executors to end, checked. Whether it has them is the core's to say.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn kill(app: &AppId, message: v1::KillExecutors) -> Result<Command, FieldError> {
    validate::kill_executors(&message)?;
    Ok(Command::KillExecutors {
        app: app.clone(),
        executors: message.executor_ids.into_iter().map(ExecutorId).collect(),
    })
}

fn target(message: v1::ExecutorTarget) -> ExecutorTarget {
    ExecutorTarget {
        profile: ProfileId(message.profile_id),
        needs: message.profile.map(resource_profile).map(Arc::new),
        total: message.total,
    }
}

#[cfg(test)]
mod tests {
    use interrex_core::config::{EXECUTORS_WANTED_MAX, PROFILES_PER_APP_MAX};
    use interrex_proto::limits;

    use super::*;

    fn targets(message: v1::RequestExecutors) -> Result<Vec<ExecutorTarget>, String> {
        match executors(&"app-1".into(), message) {
            Ok(Command::RequestExecutors { targets, .. }) => Ok(targets),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    fn asked(targets: Vec<v1::ExecutorTarget>) -> v1::RequestExecutors {
        v1::RequestExecutors {
            app_id: "app-1".into(),
            total: 9,
            targets,
        }
    }

    fn described(profile: v1::ResourceProfile) -> v1::ExecutorTarget {
        v1::ExecutorTarget {
            profile_id: 1,
            profile: Some(profile),
            total: 2,
        }
    }

    #[test]
    fn the_edges_and_the_core_have_the_same_limits() {
        assert_eq!(limits::EXECUTORS_WANTED_MAX, EXECUTORS_WANTED_MAX);
        assert_eq!(limits::PROFILES_PER_APP_MAX, PROFILES_PER_APP_MAX);
    }

    #[test]
    fn a_bare_total_is_about_the_default_profile_and_targets_outdo_it() {
        assert_eq!(
            targets(asked(vec![])),
            Ok(vec![ExecutorTarget::of_default(9)])
        );
        let both = targets(asked(vec![
            v1::ExecutorTarget::default(),
            described(v1::ResourceProfile::default()),
        ]))
        .expect("valid");
        assert_eq!(both[0], ExecutorTarget::of_default(0));
        assert_eq!((both[1].profile, both[1].total), (ProfileId(1), 2));
    }

    #[test]
    fn a_refusal_names_the_profile_and_the_field() {
        let refused = |target: v1::ExecutorTarget| targets(asked(vec![target])).expect_err("bad");
        let absurd = v1::ExecutorTarget {
            total: u32::MAX,
            ..described(v1::ResourceProfile::default())
        };
        assert_eq!(
            refused(absurd),
            "targets.1.total: `4294967295` executors; at most 1000000 can be asked for"
        );
        let profile = |cores, memory_mib| v1::ResourceProfile {
            cores,
            memory_mib,
            ..Default::default()
        };
        let no_cores = refused(described(profile(Some(0), None)));
        assert!(
            no_cores.starts_with("targets.1.profile.cores: `0`"),
            "{no_cores}"
        );
        let memory = refused(described(profile(None, Some(u64::MAX))));
        assert!(
            memory.starts_with("targets.1.profile.memory_mib: "),
            "{memory}"
        );
        let gpus = v1::ResourceProfile {
            resources: vec![v1::ResourceAmount {
                name: "gpu".into(),
                amount: 0,
            }],
            ..Default::default()
        };
        let gpus = refused(described(gpus));
        assert!(
            gpus.starts_with("targets.profile.resources.gpu: `0`"),
            "{gpus}"
        );
        let own = v1::ExecutorTarget {
            profile_id: 0,
            ..described(v1::ResourceProfile::default())
        };
        assert!(refused(own).starts_with("targets.0.profile: "));
    }

    #[test]
    fn a_profile_is_named_once_and_there_are_not_too_many() {
        let one = described(v1::ResourceProfile::default());
        let twice = targets(asked(vec![one.clone(), one])).expect_err("twice");
        assert_eq!(twice, "targets: profile 1 is listed twice");
        let many = (0..200).map(|profile_id| v1::ExecutorTarget {
            profile_id,
            ..Default::default()
        });
        let many = targets(asked(many.collect())).expect_err("too many");
        assert_eq!(many, "targets: has 200 entries; at most 101 are allowed");
        let total = targets(v1::RequestExecutors {
            total: u32::MAX,
            ..Default::default()
        });
        assert!(total.is_err_and(|error| error.starts_with("total: ")));
    }

    #[test]
    fn a_kill_names_a_bounded_number_of_executors() {
        let message = |count: usize| v1::KillExecutors {
            app_id: "app-1".into(),
            executor_ids: vec![0; count],
        };
        assert!(kill(&"app-1".into(), message(10_000)).is_ok());
        let many = kill(&"app-1".into(), message(limits::LIST_ENTRIES_MAX + 1));
        assert!(many.is_err_and(|error| error.field == "executor_ids"));
    }
}
