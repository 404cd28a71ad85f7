//! SIGHUP: a master or an agent reads its configuration file again, and takes over what can be changed while it runs.
//! That is the log filter; everything else waits for a restart.
//!
//! What must never happen: that a file which was being edited ends a process. What cannot be read is logged, and nothing
//! changes.

use std::path::PathBuf;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    config::File,
    exit::{Done, Failure},
    logging,
};

/// The key that is read again.
const LOG_FILTER: &str = "log-filter";

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
