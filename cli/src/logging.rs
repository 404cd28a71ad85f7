//! Logs go to stderr, as text for people or as JSON for machines; data never does. What is logged can be changed while a
//! process runs.

use std::{io::IsTerminal, sync::OnceLock};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// Puts another filter in the place of the one that counts now.
type Replace = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// Set once the logger is installed.
static FILTER: OnceLock<(String, Replace)> = OnceLock::new();

/// The logging options, shared by every command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LogArgs {
    /// How log lines on stderr look; if not given, masters and agents write JSON where nobody looks at a terminal
    #[arg(long, global = true, value_enum, env = "INTERREX_LOG_FORMAT")]
    #[arg(help_heading = "Global options")]
    pub(crate) log_format: Option<LogFormat>,
    /// What is logged, such as `info` or `warn,interrex_agent=debug`
    #[arg(long, global = true, env = "INTERREX_LOG", value_name = "FILTER")]
    #[arg(help_heading = "Global options")]
    pub(crate) log_filter: Option<String>,
}

/// Installs the logger of this process. `default_filter` counts where no filter is given; `server`: a master or an agent,
/// whose log is read by machines unless it goes to a terminal.
///
/// # Errors
/// A filter that cannot be read is a usage failure.
pub(crate) fn install(args: &LogArgs, default_filter: &str, server: bool) -> Result<(), Failure> {
    let text = args.log_filter.as_deref().unwrap_or(default_filter);
    let filter = parse(text).map_err(|e| Failure::usage(format!("--log-filter {e}")))?;
    let terminal = std::io::stderr().is_terminal();
    let usual = match server && !terminal {
        true => LogFormat::Json,
        false => LogFormat::Text,
    };
    let base = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written (logs may share a full disk with the data) is lost. By default the library would
        // print that to stderr, which panics when it cannot be written either.
        .log_internal_errors(false)
        .with_ansi(terminal && std::env::var_os("NO_COLOR").is_none());
    let (installed, replace): (_, Replace) = match args.log_format.unwrap_or(usual) {
        LogFormat::Text => {
            let base = base.with_filter_reloading();
            let handle = base.reload_handle();
            let replace = move |filter| handle.reload(filter).map_err(|e| e.to_string());
            (base.try_init(), Box::new(replace))
        }
        LogFormat::Json => {
            let base = base.json().flatten_event(true).with_filter_reloading();
            let handle = base.reload_handle();
            let replace = move |filter| handle.reload(filter).map_err(|e| e.to_string());
            (base.try_init(), Box::new(replace))
        }
    };
    installed.map_err(|e| Failure::failed(format!("cannot install the logger: {e}")))?;
    // There is one logger, so this is the first time.
    drop(FILTER.set((text.to_owned(), replace)));
    Ok(())
}

/// Logs what `filter` says from now on; `None`: what the process was started with. Returns what counts now.
///
/// # Errors
/// In words: a filter that cannot be read; then nothing changes.
pub(crate) fn change(filter: Option<&str>) -> Result<String, String> {
    let (first, replace) = FILTER.get().ok_or("no logger is installed")?;
    let text = filter.unwrap_or(first);
    replace(parse(text)?)?;
    Ok(text.to_owned())
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|e| format!("`{filter}`: {e}"))
}
