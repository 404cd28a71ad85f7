//! What agents say about their processes: messages → core. Checked only for form; whether a report is of any
//! interest is the core's decision.

use interrex_core::{
    command::{FullReport, ProcessChange, Report, RunningDriver, RunningExecutor, Subject},
    ids::{AppId, Attempt, DriverId, ExecutorId, ReportSequence},
    resources::{Cores, MemoryMib},
    time::Timestamp,
};
use interrex_proto::v1::{self, ProcessState, work_report::Body};

use crate::{
    edge::validate::{self, FieldError},
    messages,
};

/// All that an agent runs, out of its registration. Reports of its outbox that make no sense are returned by
/// number, to be acknowledged: else they would come again for ever.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn full_report(
    drivers: Vec<v1::RunningDriver>,
    executors: Vec<v1::RunningExecutor>,
    unacknowledged: Vec<v1::WorkReport>,
) -> Result<(FullReport, Vec<u64>), FieldError> {
    let mut full = FullReport::default();
    let mut senseless = Vec::new();
    for driver in drivers {
        validate::id("drivers.driver_id", &driver.driver_id)?;
        full.drivers.push(RunningDriver {
            driver: DriverId::from(driver.driver_id),
            attempt: Attempt(driver.attempt),
            started_at: Timestamp(driver.started_at_ms),
        });
    }
    for executor in executors {
        validate::id("executors.app_id", &executor.app_id)?;
        full.executors.push(RunningExecutor {
            app: AppId::from(executor.app_id),
            executor: ExecutorId(executor.executor_id),
            cores: Cores(executor.cores),
            memory: MemoryMib(executor.memory_mib),
            started_at: Timestamp(executor.started_at_ms),
        });
    }
    for message in unacknowledged {
        let sequence = message.sequence;
        match report(message) {
            Ok(report) => full.unacknowledged.push(report),
            Err(error) => {
                tracing::warn!(sequence, %error, "a report makes no sense: dropped");
                senseless.push(sequence);
            }
        }
    }
    Ok((full, senseless))
}

/// One entry of an agent's outbox.
///
/// # Errors
/// [`FieldError`] with the first thing that is wrong.
pub fn report(message: v1::WorkReport) -> Result<Report, FieldError> {
    let sequence = ReportSequence(message.sequence);
    let nothing = || FieldError::new("report", "names neither a driver nor an executor");
    let (subject, change, at_ms) = match message.body.ok_or_else(nothing)? {
        Body::Driver(changed) => {
            validate::id("report.driver_id", &changed.driver_id)?;
            let subject = Subject::Driver {
                driver: DriverId::from(changed.driver_id),
                attempt: Attempt(changed.attempt),
            };
            let change = change(changed.state, changed.exit, changed.message)?;
            (subject, change, changed.at_ms)
        }
        Body::Executor(changed) => {
            validate::id("report.app_id", &changed.app_id)?;
            let subject = Subject::Executor {
                app: AppId::from(changed.app_id),
                executor: ExecutorId(changed.executor_id),
            };
            let change = change(changed.state, changed.exit, changed.message)?;
            (subject, change, changed.at_ms)
        }
    };
    Ok(Report {
        sequence,
        at: Timestamp(at_ms),
        subject,
        change,
    })
}

fn change(
    state: i32,
    exit: Option<v1::Exit>,
    message: String,
) -> Result<ProcessChange, FieldError> {
    let exit = messages::exit(exit.unwrap_or_default());
    match ProcessState::try_from(state) {
        Ok(ProcessState::Running) => Ok(ProcessChange::Running),
        Ok(ProcessState::Exited) => Ok(ProcessChange::Exited(exit)),
        Ok(ProcessState::Killed) => Ok(ProcessChange::Killed(exit)),
        Ok(ProcessState::Failed) => Ok(ProcessChange::Failed(validate::cut_message(message))),
        Ok(ProcessState::Unspecified) | Err(_) => Err(FieldError::new(
            "report.state",
            format!("`{state}` is no state of a process"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver_report(sequence: u64, state: ProcessState) -> v1::WorkReport {
        v1::WorkReport {
            sequence,
            body: Some(Body::Driver(v1::DriverChanged {
                driver_id: "driver-1".into(),
                attempt: 2,
                state: state.into(),
                exit: Some(v1::Exit {
                    code: Some(3),
                    signal: None,
                }),
                message: "x".repeat(10_000),
                at_ms: 5,
            })),
        }
    }

    #[test]
    fn each_state_of_a_process_becomes_its_change() {
        let change = |state| report(driver_report(1, state)).unwrap().change;
        let exit = interrex_core::state::driver::Exit {
            code: Some(3),
            signal: None,
        };
        assert_eq!(change(ProcessState::Running), ProcessChange::Running);
        assert_eq!(change(ProcessState::Exited), ProcessChange::Exited(exit));
        assert_eq!(change(ProcessState::Killed), ProcessChange::Killed(exit));
        let ProcessChange::Failed(message) = change(ProcessState::Failed) else {
            panic!()
        };
        assert_eq!(
            message.len(),
            interrex_proto::limits::TEXT_BYTES_MAX,
            "cut, not refused"
        );
    }

    #[test]
    fn a_senseless_report_is_named_and_does_not_spoil_the_registration() {
        let reports = vec![
            driver_report(1, ProcessState::Running),
            driver_report(2, ProcessState::Unspecified),
            v1::WorkReport {
                sequence: 3,
                body: None,
            },
        ];
        let (full, senseless) = full_report(vec![], vec![], reports).unwrap();
        assert_eq!(full.unacknowledged.len(), 1);
        assert_eq!(senseless, vec![2, 3]);
    }
}
