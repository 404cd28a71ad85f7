//! Who changed what: one line in the audit log for each change that a named caller asks for.
//!
//! The edge that checks a caller's token names it for the length of the request; whoever hands a change to the leader's
//! loop writes it down with its outcome. Sessions of agents and applications are named when they attach, not for each
//! message: what they report are facts, no wishes.

use std::fmt::Display;

use interrex_core::{
    command::{Command, WorkersNamed},
    transition::Reply,
};

use super::Caller;
use crate::runtime::error::RequestError;

tokio::task_local! {
    static CALLER: Caller;
}

/// Runs `work` in the name of `caller`.
pub(crate) fn named<F: Future>(
    caller: Caller,
    work: F,
) -> tokio::task::futures::TaskLocalFuture<Caller, F> {
    CALLER.scope(caller, work)
}

/// What became of a command.
pub(crate) fn command(
    about: Option<(&'static str, String)>,
    outcome: &Result<Reply, RequestError>,
) {
    match (about, outcome) {
        // Whoever asked goes to the leader, who writes it down.
        (None, _) | (_, Err(RequestError::NotLeader { .. })) => {}
        (Some((change, of)), _) => self::change(change, &of, outcome),
    }
}

/// What became of a change that is no command.
pub(crate) fn change<T, E: Display>(change: &'static str, of: &str, outcome: &Result<T, E>) {
    let named = CALLER.try_with(|caller| match caller {
        Caller::Anybody => None,
        Caller::Named(name) => Some(name.clone()),
    });
    let Ok(Some(caller)) = named else {
        return;
    };
    match outcome {
        Ok(_) => tracing::info!(
            target: "interrex::audit", event = "change", %caller, change, of, outcome = "done", "audit"
        ),
        Err(error) => tracing::info!(
            target: "interrex::audit", event = "change", %caller, change, of, outcome = %error, "audit"
        ),
    }
}

/// A change in words, if a caller can ask for it: what, and of what.
pub(crate) fn about(command: &Command) -> Option<(&'static str, String)> {
    if !CALLER
        .try_with(|caller| *caller != Caller::Anybody)
        .unwrap_or(false)
    {
        return None;
    }
    match command {
        Command::SubmitDriver { request, spec, .. } => {
            Some(("submit", format!("{request} ({})", spec.name)))
        }
        Command::Kill { id, .. } => Some(("kill", id.clone())),
        Command::KillAllDrivers { .. } => Some(("kill all", "every driver".to_owned())),
        Command::ClearCompleted { .. } => Some(("clear", "what is over".to_owned())),
        Command::DrainWorkers { workers, .. } => Some(("drain", workers_named(workers))),
        Command::UndrainWorkers { workers, .. } => Some(("undrain", workers_named(workers))),
        Command::RegisterWorker { .. }
        | Command::Report { .. }
        | Command::WorkerDisconnected { .. }
        | Command::ExpireWorker { .. }
        | Command::RegisterApplication { .. }
        | Command::UnregisterApplication { .. }
        | Command::ExpireApplication { .. }
        | Command::RequestExecutors { .. }
        | Command::KillExecutors { .. }
        | Command::AcceptingChanged { .. }
        | Command::Tick
        | Command::Initialize { .. }
        | Command::TakeOver { .. } => None,
    }
}

fn workers_named(workers: &WorkersNamed) -> String {
    match workers {
        WorkersNamed::Id(id) => id.to_string(),
        WorkersNamed::Host(host) => format!("host {host}"),
    }
}
