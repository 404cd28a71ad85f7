//! `interrex status`.

use interrex_proto::v1::{ApplicationStatus, DriverStatus, ProfileStatus, StatusResponse};

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    jobs::exit_text,
    output::{self, Format, OutputArgs},
    units::timestamp,
};

const EXAMPLES: &str = "\
Examples:
  interrex status driver-20260201143200-0000
  interrex status -o json nightly-2026-02-01    # by submission id

Exit code 0 when it is known, whatever its state; 5 when it is not.";

/// Options of `interrex status`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// A driver id, a submission id or an application id
    id: String,
    /// Accept an answer that was not confirmed by a quorum
    #[arg(long)]
    stale: bool,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `interrex status`.
pub(crate) async fn run(args: StatusArgs) -> Done {
    let client = args.connect.client()?;
    let status = client.status(&args.id, args.stale);
    let status = args.connect.patiently(status).await?;
    print(&status, args.output.output)?;
    Ok(Exit::Ok)
}

/// Prints a status in the chosen format.
pub(crate) fn print(status: &StatusResponse, format: Format) -> Result<(), Failure> {
    match (format, &status.driver, &status.application) {
        (Format::Json, _, _) => output::json(status),
        (Format::Table, Some(driver), _) => output::data(&driver_text(driver)),
        (Format::Table, None, Some(app)) => output::data(&application_text(app)?),
        (Format::Table, None, None) => Err(Failure::failed("the answer is empty")),
    }
}

fn driver_text(driver: &DriverStatus) -> String {
    fields(&[
        ("id", driver.id.clone()),
        ("submission", driver.submission_id.clone()),
        ("name", driver.name.clone()),
        ("state", driver.state.clone()),
        ("attempt", driver.attempt.to_string()),
        ("priority", priority(driver.priority)),
        ("worker", driver.worker_id.clone()),
        ("cores", driver.cores.to_string()),
        ("memory", format!("{} MiB", driver.memory_mib)),
        ("supervised", driver.supervise.to_string()),
        ("at most once", driver.at_most_once.to_string()),
        ("exit", exit_text(driver.exit.as_ref())),
        ("message", driver.message.clone()),
        ("submitted", timestamp(driver.submitted_at_ms)),
        ("started", timestamp(driver.started_at_ms)),
        ("finished", timestamp(driver.finished_at_ms)),
    ])
}

fn application_text(app: &ApplicationStatus) -> Result<String, Failure> {
    let wanted = app
        .executors_wanted
        .map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    let mut text = fields(&[
        ("id", app.id.clone()),
        ("name", app.name.clone()),
        ("state", app.state.clone()),
        ("priority", priority(app.priority)),
        ("cores", app.cores_granted.to_string()),
        ("executors wanted", wanted),
        ("executors at once", at_once(app.min_executors)),
        ("executors completed", app.executors_completed.to_string()),
        ("message", app.message.clone()),
        ("registered", timestamp(app.registered_at_ms)),
        ("finished", timestamp(app.finished_at_ms)),
    ]);
    if app.profiles.len() > 1 {
        text.push_str(&profiles_text(&app.profiles));
    }
    if !app.executors.is_empty() {
        let rows = app.executors.iter().map(|e| {
            let exit = exit_text(e.exit.as_ref());
            vec![
                e.executor_id.to_string(),
                e.worker_id.clone(),
                e.state.clone(),
                exit,
            ]
        });
        let header = ["EXECUTOR", "WORKER", "STATE", "EXIT"];
        text.push_str(&format!(
            "\n{}\n",
            output::format_table(&header, rows.collect())
        ));
    }
    Ok(text)
}

fn profiles_text(profiles: &[ProfileStatus]) -> String {
    let rows = profiles.iter().map(|p| {
        let needs = p.profile.clone().unwrap_or_default();
        let unset = if p.profile_id == 0 { "all" } else { "as 0" };
        let or_app = |n: Option<String>| n.unwrap_or_else(|| unset.to_owned());
        let custom = needs.resources.iter();
        let custom: Vec<_> = custom.map(|r| format!("{}={}", r.name, r.amount)).collect();
        vec![
            p.profile_id.to_string(),
            or_app(needs.cores.map(|n| n.to_string())),
            or_app(needs.memory_mib.map(|n| format!("{n} MiB"))),
            custom.join(" "),
            p.wanted
                .map_or_else(|| "no limit".to_owned(), |n| n.to_string()),
            p.granted.to_string(),
        ]
    });
    let header = [
        "PROFILE",
        "CORES",
        "MEMORY",
        "RESOURCES",
        "WANTED",
        "GRANTED",
    ];
    format!("\n{}\n", output::format_table(&header, rows.collect()))
}

/// What everybody has needs no line.
fn priority(priority: i32) -> String {
    if priority == 0 {
        String::new()
    } else {
        priority.to_string()
    }
}

fn at_once(min: u32) -> String {
    if min > 1 {
        format!("at least {min}")
    } else {
        String::new()
    }
}

fn fields(fields: &[(&str, String)]) -> String {
    let shown = fields
        .iter()
        .filter(|(_, value)| !value.is_empty() && value != "-");
    shown
        .map(|(name, value)| format!("{name:<20} {value}\n"))
        .collect()
}
