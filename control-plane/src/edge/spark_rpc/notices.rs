//! What the leader tells an application → Spark's messages. Pure.

use interrex_proto::v1::{self, ExecutorInfo};
use interrex_spark_wire::{
    Outbound,
    message::{ExecutorChange, ExecutorState},
};

/// A new executor.
pub(super) fn added(executor: &ExecutorInfo) -> Outbound {
    Outbound::ExecutorAdded {
        id: signed(executor.executor_id),
        worker_id: executor.worker_id.clone(),
        host_port: executor.worker_web.clone(),
        cores: signed(executor.cores),
        memory_mib: i32::try_from(executor.memory_mib).unwrap_or(i32::MAX),
    }
}

/// A change of an executor; nothing where Spark has no word for it.
pub(super) fn updated(executor: &ExecutorInfo) -> Option<Outbound> {
    let state = match executor.state.as_str() {
        "LAUNCHING" => ExecutorState::Launching,
        "RUNNING" => ExecutorState::Running,
        "DECOMMISSIONED" => ExecutorState::Decommissioned,
        "KILLED" => ExecutorState::Killed,
        "FAILED" => ExecutorState::Failed,
        "LOST" => ExecutorState::Lost,
        "EXITED" => ExecutorState::Exited,
        // KILLING: it is still there.
        _ => return None,
    };
    let exit_status = executor.exit.and_then(|exit| {
        // As a shell counts signals.
        exit.code.or(exit.signal.map(|signal| 128 + signal))
    });
    Some(Outbound::ExecutorUpdated(ExecutorChange {
        id: signed(executor.executor_id),
        state,
        message: Some(executor.message.clone()).filter(|m| !m.is_empty()),
        exit_status,
        worker_host: is_of_worker(state).then(|| executor.worker_host.clone()),
    }))
}

/// All that an application is told of an executor that it may not have heard of.
pub(super) fn as_it_is(executor: &ExecutorInfo) -> impl Iterator<Item = Outbound> + use<> {
    let is_over = matches!(
        executor.state.as_str(),
        "KILLED" | "FAILED" | "LOST" | "EXITED"
    );
    let new = (!is_over).then(|| added(executor));
    new.into_iter().chain(updated(executor))
}

/// Whether the whole worker goes, and its files with it: then the driver gives up, or moves, what is there.
fn is_of_worker(state: ExecutorState) -> bool {
    match state {
        ExecutorState::Lost | ExecutorState::Decommissioned => true,
        ExecutorState::Launching
        | ExecutorState::Running
        | ExecutorState::Killed
        | ExecutorState::Failed
        | ExecutorState::Exited => false,
    }
}

/// A worker that is gone with its files.
pub(super) fn worker_removed(removed: v1::WorkerRemoved) -> Outbound {
    Outbound::WorkerRemoved {
        id: removed.worker_id,
        host: removed.host,
        message: removed.message,
    }
}

/// The end.
pub(super) fn app_removed(removed: v1::ApplicationRemoved) -> Outbound {
    let message = if removed.message.is_empty() {
        removed.state
    } else {
        removed.message
    };
    Outbound::ApplicationRemoved { message }
}

fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor(state: &str) -> ExecutorInfo {
        ExecutorInfo {
            executor_id: 3,
            worker_host: "h1".to_owned(),
            state: state.to_owned(),
            ..ExecutorInfo::default()
        }
    }

    fn change(executor: &ExecutorInfo) -> ExecutorChange {
        match updated(executor) {
            Some(Outbound::ExecutorUpdated(change)) => change,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_a_worker_that_goes_makes_a_driver_give_up_its_files() {
        for state in ["LOST", "DECOMMISSIONED"] {
            assert_eq!(change(&executor(state)).worker_host, Some("h1".to_owned()));
        }
        assert_eq!(change(&executor("EXITED")).worker_host, None);
        assert_eq!(updated(&executor("KILLING")), None);
    }

    #[test]
    fn an_exit_is_a_code_or_a_signal_as_a_shell_counts() {
        let exit = |code, signal| {
            let mut ended = executor("EXITED");
            ended.exit = Some(v1::Exit { code, signal });
            change(&ended).exit_status
        };
        assert_eq!(exit(Some(3), None), Some(3));
        assert_eq!(exit(None, Some(9)), Some(137));
    }
}
