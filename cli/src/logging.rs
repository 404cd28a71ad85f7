//! Logs go to stderr, as text for people or as JSON for machines; data never does. What is logged can be changed while a
//! process runs.

use std::{
    io::IsTerminal,
    sync::{Mutex, OnceLock, PoisonError},
};

use clap::ValueEnum;
use interrex_web::log_level::{LogControl, LogFilter};
use tracing_subscriber::{
    EnvFilter, Layer, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

use crate::exit::Failure;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
}

/// What hears of spans and events beside the log, by a filter of its own.
pub(crate) type Beside = Box<dyn Layer<Registry> + Send + Sync>;

/// Puts another filter in the place of the one that counts now.
type Replace = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// The logger of this process.
struct Logger {
    /// The filter that it was started with.
    first: String,
    now: Mutex<String>,
    replace: Replace,
}

/// Set once the logger is installed.
static LOGGER: OnceLock<Logger> = OnceLock::new();

/// Lets the web server of this process show and change what is logged.
#[derive(Debug)]
struct OverHttp;

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

/// Installs the logger of this process, and `traces` beside it, if there are any. `default_filter` counts where no filter is
/// given; `server`: a master or an agent, whose log is read by machines unless it goes to a terminal.
///
/// # Errors
/// A filter that cannot be read is a usage failure.
pub(crate) fn install(
    args: &LogArgs,
    default_filter: &str,
    server: bool,
    traces: Option<Beside>,
) -> Result<(), Failure> {
    let text = args.log_filter.as_deref().unwrap_or(default_filter);
    let filter = parse(text).map_err(|e| Failure::usage(format!("--log-filter {e}")))?;
    let (filter, handle) = reload::Layer::new(filter);
    let terminal = std::io::stderr().is_terminal();
    let usual = match server && !terminal {
        true => LogFormat::Json,
        false => LogFormat::Text,
    };
    let base = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // A line that cannot be written (logs may share a full disk with the data) is lost. By default the library would
        // print that to stderr, which panics when it cannot be written either.
        .log_internal_errors(false)
        .with_ansi(terminal && std::env::var_os("NO_COLOR").is_none());
    let lines = match args.log_format.unwrap_or(usual) {
        LogFormat::Text => base.boxed(),
        LogFormat::Json => base.json().flatten_event(true).boxed(),
    };
    let installed = tracing_subscriber::registry()
        .with(traces)
        .with(lines.with_filter(filter))
        .try_init();
    installed.map_err(|e| Failure::failed(format!("cannot install the logger: {e}")))?;
    let replace = move |filter| handle.reload(filter).map_err(|e| e.to_string());
    let logger = Logger {
        first: text.to_owned(),
        now: Mutex::new(text.to_owned()),
        replace: Box::new(replace),
    };
    // There is one logger, so this is the first time.
    drop(LOGGER.set(logger));
    Ok(())
}

/// For the web server of this process.
pub(crate) fn control() -> LogControl {
    LogControl::new(OverHttp)
}

/// Logs what `filter` says from now on; `None`: what the process was started with. Returns what counts now.
///
/// # Errors
/// In words: a filter that cannot be read; then nothing changes.
pub(crate) fn change(filter: Option<&str>) -> Result<String, String> {
    let logger = LOGGER.get().ok_or("no logger is installed")?;
    let text = filter.unwrap_or(&logger.first);
    let filter = parse(text)?;
    // Whole after a panic: it is set in one step.
    let mut now = logger.now.lock().unwrap_or_else(PoisonError::into_inner);
    (logger.replace)(filter)?;
    text.clone_into(&mut now);
    Ok(text.to_owned())
}

// === impl OverHttp ===

impl LogFilter for OverHttp {
    fn get(&self) -> String {
        let now = LOGGER.get().map(|logger| &logger.now);
        let now = now.map(|now| now.lock().unwrap_or_else(PoisonError::into_inner).clone());
        now.unwrap_or_default()
    }

    fn set(&self, filter: Option<&str>) -> Result<String, String> {
        let filter = change(filter)?;
        tracing::info!(
            event = "log_filter_changed",
            filter,
            "the log filter is changed over HTTP"
        );
        Ok(filter)
    }
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(filter).map_err(|e| format!("`{filter}`: {e}"))
}
