//! SIGHUP: a master or an agent reads its configuration file again, and takes over what can be changed while it runs.
//! That is the log filter, and the files of tokens; everything else waits for a restart.
//!
//! What must never happen: that a file which was being edited ends a process. What cannot be read is logged, and nothing
//! changes.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    config::File,
    exit::{Done, Failure},
    logging,
};

/// The key that is read again.
const LOG_FILTER: &str = "log-filter";

/// What else is read again: its name, and how.
type Again = (&'static str, Box<dyn Fn() -> Result<(), String> + Send>);
static ALSO: Mutex<Vec<Again>> = Mutex::new(Vec::new());

/// Has `again` called at each SIGHUP from now on.
pub(crate) fn also(what: &'static str, again: impl Fn() -> Result<(), String> + Send + 'static) {
    let mut also = ALSO.lock().unwrap_or_else(PoisonError::into_inner);
    also.push((what, Box::new(again)));
}

/// Runs `server`, and reads `config` again at each SIGHUP meanwhile.
pub(crate) async fn at_hangups(
    config: Option<PathBuf>,
    server: impl Future<Output = Done>,
) -> Done {
    let mut hangups =
        signal(SignalKind::hangup()).map_err(|e| Failure::io("listening for SIGHUP", &e))?;
    let server = std::pin::pin!(server);
    tokio::select! {
        done = server => done,
        () = follow(config, &mut hangups) => Err(Failure::failed("the system delivers no signals any more")),
    }
}

async fn follow(config: Option<PathBuf>, hangups: &mut Signal) {
    while hangups.recv().await.is_some() {
        for (what, again) in &*ALSO.lock().unwrap_or_else(PoisonError::into_inner) {
            match again() {
                Ok(()) => tracing::info!(event = "reloaded", what, "SIGHUP: read again"),
                Err(error) => {
                    tracing::warn!(
                        event = "reload_failed",
                        what,
                        error,
                        "SIGHUP: what counted before still does"
                    )
                }
            }
        }
        match reload(config.clone()) {
            Ok(filter) => tracing::info!(
                event = "log_filter_changed",
                filter,
                "SIGHUP: the log filter is read again"
            ),
            Err(error) => {
                tracing::warn!(event = "reload_failed", error, "SIGHUP: nothing is changed")
            }
        }
    }
}

/// The log filter that counts now.
fn reload(config: Option<PathBuf>) -> Result<String, String> {
    let path = config.ok_or("this process was started without --config")?;
    let file = File::read(&path).map_err(|e| e.to_string())?;
    let filter = match file.table.get(LOG_FILTER) {
        None => None,
        Some(toml::Value::String(filter)) => Some(filter.as_str()),
        Some(other) => {
            return Err(format!(
                "`{LOG_FILTER}` is {}; write a string",
                other.type_str()
            ));
        }
    };
    logging::change(filter)
}
