//! Logs go to stderr, as text for people or as JSON for machines; data never does.

use std::io::IsTerminal;

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

/// The logging options, shared by every command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LogArgs {
    /// How log lines on stderr look
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "text",
        env = "INTERREX_LOG_FORMAT"
    )]
    #[arg(help_heading = "Global options")]
    pub(crate) log_format: LogFormat,
    /// What is logged, such as `info` or `warn,interrex_agent=debug`
    #[arg(long, global = true, env = "INTERREX_LOG", value_name = "FILTER")]
    #[arg(help_heading = "Global options")]
    pub(crate) log_filter: Option<String>,
}

/// Installs the logger of this process. `default_filter` counts where no filter is given.
///
/// # Errors
/// A filter that cannot be read is a usage failure.
pub(crate) fn install(args: &LogArgs, default_filter: &str) -> Result<(), Failure> {
    let filter = args.log_filter.as_deref().unwrap_or(default_filter);
    let filter = EnvFilter::try_new(filter)
        .map_err(|e| Failure::usage(format!("--log-filter `{filter}`: {e}")))?;
    let base = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written (logs may share a full disk with the data) is lost. By default the library would
        // print that to stderr, which panics when it cannot be written either.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let installed = match args.log_format {
        LogFormat::Text => base.try_init(),
        LogFormat::Json => base.json().flatten_event(true).try_init(),
    };
    installed.map_err(|e| Failure::failed(format!("cannot install the logger: {e}")))
}
