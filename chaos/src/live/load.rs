//! The clients that a run starts: processes of this program, each with its own part of the history.

use std::{ffi::OsString, time::Duration};

pub(super) use super::client::Hold;

use super::{ledger::MARK, options::LiveError, stage::Stage, work::JobKind};

/// The clients that make the load.
pub(super) const SUBMITTERS: [&str; 2] = ["c1", "c2"];
/// The one of them that submits over REST.
const OVER_REST: &str = "c2";
/// The application that runs from the beginning to the end.
pub(super) const APP: &str = "a1";
/// Its executors.
pub(super) const EXECUTORS: u32 = 2;

/// A client that makes one submission.
#[derive(Debug, Clone)]
pub(super) struct OneShot {
    /// The client's name.
    pub(super) client: String,
    /// The submission's request id.
    pub(super) id: String,
    /// What it submits.
    pub(super) job: JobKind,
    /// Where it waits.
    pub(super) hold: Hold,
    /// Masters that it knows.
    pub(super) masters: Vec<String>,
}

// === impl OneShot ===

impl OneShot {
    pub(super) fn start(&self, stage: &mut Stage<'_>) -> Result<(), LiveError> {
        let mut args = common(stage, &self.client, &self.masters);
        let hold = match self.hold {
            Hold::BeforeSend => "before-send",
            Hold::AfterReply => "after-reply",
            Hold::No => "no",
        };
        push(&mut args, "--submit", &self.id);
        push(
            &mut args,
            "--work-ms",
            &self.job.work.as_millis().to_string(),
        );
        push(&mut args, "--hold", hold);
        if self.job.at_most_once {
            args.push("--at-most-once".into());
        }
        stage.start_with(&self.client, args)
    }

    /// How it ended; `None` if it goes on.
    pub(super) async fn ended(&self, stage: &mut Stage<'_>, limit: Duration) -> Option<String> {
        stage.ended(&self.client, limit).await
    }
}

/// Starts the clients that submit all the time, `rate` submissions a second together.
pub(super) fn start_submitters(stage: &mut Stage<'_>, rate: f64) -> Result<(), LiveError> {
    let masters = stage.cluster.places.masters_list();
    for client in SUBMITTERS {
        let mut args = common(stage, client, &masters);
        let share = rate / SUBMITTERS.len() as f64;
        push(&mut args, "--rate", &share.to_string());
        push(&mut args, "--seed", &stage.chance.seed().to_string());
        if client == OVER_REST {
            let rest = stage.cluster.places.rest_list().join(",");
            push(&mut args, "--rest", &rest);
        }
        stage.start_with(client, args)?;
    }
    Ok(())
}

/// Starts an application whose executors never end by themselves.
pub(super) fn start_app(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    let masters = stage.cluster.places.masters_list().join(",");
    let mut args: Vec<OsString> = vec!["--exit-with-parent".into()];
    args.push(std::process::id().to_string().into());
    args.push("run".into());
    push(&mut args, "--masters", &masters);
    push(&mut args, "--name", APP);
    push(&mut args, "--executors", &EXECUTORS.to_string());
    push(&mut args, "--memory", "64MiB");
    push(&mut args, "--env", &format!("{MARK}={}", stage.site.run));
    args.extend(["--", "sleep", "1000000"].map(OsString::from));
    stage.start_with(APP, args)
}

fn common(stage: &Stage<'_>, name: &str, masters: &[String]) -> Vec<OsString> {
    let places = &stage.cluster.places;
    let mut args: Vec<OsString> = vec!["--exit-with-parent".into()];
    args.push(std::process::id().to_string().into());
    args.extend(["chaos".into(), "client".into()]);
    push(&mut args, "--name", name);
    push(&mut args, "--at", &masters.join(","));
    let began = stage.journal.clock().began_us().to_string();
    push(&mut args, "--began-us", &began);
    args.extend(["--history".into(), places.client_history(name).into()]);
    args.extend(["--ledger".into(), places.ledger().into()]);
    push(&mut args, "--run", &stage.site.run);
    args
}

fn push(args: &mut Vec<OsString>, option: &str, value: &str) {
    args.extend([option.into(), value.into()]);
}
