//! What people ask about drivers and applications: status, explain, wait, kill, logs, list.

pub(crate) mod explain;
pub(crate) mod kill;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod status;
pub(crate) mod wait;

use interrex_proto::v1::{ApplicationStatus, DriverStatus, Exit as ProcessExit, StatusResponse};

use crate::exit::Exit;

/// The exit code for something that is over; `None` while it is not.
pub(crate) fn outcome(status: &StatusResponse) -> Option<Exit> {
    status.over.then(|| match state(status) {
        "FINISHED" => Exit::Ok,
        "KILLED" => Exit::JobKilled,
        _ => Exit::JobFailed,
    })
}

/// Whether it is accepted but has no place yet.
pub(crate) fn is_waiting(status: &StatusResponse) -> bool {
    !status.over && matches!(state(status), "SUBMITTED" | "WAITING" | "RELAUNCHING")
}

/// The state in Spark's words.
pub(crate) fn state(status: &StatusResponse) -> &str {
    match (&status.driver, &status.application) {
        (Some(driver), _) => &driver.state,
        (None, Some(app)) => &app.state,
        (None, None) => "UNKNOWN",
    }
}

/// One line about a change, for people.
pub(crate) fn describe(status: &StatusResponse) -> String {
    match (&status.driver, &status.application) {
        (Some(driver), _) => describe_driver(driver),
        (None, Some(app)) => describe_application(app),
        (None, None) => "nothing is known".to_owned(),
    }
}

fn describe_driver(driver: &DriverStatus) -> String {
    let mut text = format!("{} {}", driver.id, driver.state);
    if !driver.worker_id.is_empty() {
        text.push_str(&format!(
            " on {} (attempt {})",
            driver.worker_id, driver.attempt
        ));
    }
    let how = ended_text(driver.exit.as_ref(), &driver.message);
    if !how.is_empty() {
        text.push_str(": ");
        text.push_str(&how);
    }
    text
}

fn describe_application(app: &ApplicationStatus) -> String {
    let running = app
        .executors
        .iter()
        .filter(|e| e.state == "RUNNING")
        .count();
    let mut text = format!(
        "{} {}: {running} executors running, {} completed",
        app.id, app.state, app.executors_completed
    );
    if !app.message.is_empty() {
        text.push_str(": ");
        text.push_str(&app.message);
    }
    text
}

/// How a process ended, in words; empty while it runs.
pub(crate) fn exit_text(exit: Option<&ProcessExit>) -> String {
    match exit {
        Some(ProcessExit {
            signal: Some(signal),
            ..
        }) => format!("signal {signal}"),
        Some(ProcessExit {
            code: Some(code), ..
        }) => format!("exit code {code}"),
        Some(ProcessExit {
            code: None,
            signal: None,
        })
        | None => String::new(),
    }
}

/// How a process ended and what was said about it, each once.
pub(crate) fn ended_text(exit: Option<&ProcessExit>, message: &str) -> String {
    let how = exit_text(exit);
    if how.is_empty() || message.contains(&how) {
        return message.to_owned();
    }
    if message.is_empty() {
        how
    } else {
        format!("{how}: {message}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(state: &str, over: bool) -> StatusResponse {
        let driver = DriverStatus {
            state: state.to_owned(),
            ..DriverStatus::default()
        };
        StatusResponse {
            driver: Some(driver),
            over,
            ..StatusResponse::default()
        }
    }

    #[test]
    fn an_outcome_becomes_its_documented_code() {
        for (state, exit) in [
            ("FINISHED", Exit::Ok),
            ("FAILED", Exit::JobFailed),
            ("ERROR", Exit::JobFailed),
            ("KILLED", Exit::JobKilled),
        ] {
            assert_eq!(outcome(&driver(state, true)), Some(exit), "{state}");
        }
        assert_eq!(outcome(&driver("RUNNING", false)), None);
    }

    #[test]
    fn only_what_has_no_place_is_waiting() {
        assert!(is_waiting(&driver("SUBMITTED", false)));
        assert!(!is_waiting(&driver("RUNNING", false)));
        assert!(!is_waiting(&driver("FINISHED", true)));
    }
}
