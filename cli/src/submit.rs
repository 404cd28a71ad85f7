//! `interrex submit`: a driver, that is one program on one agent.
//!
//! The submission id is the request id: it is said before anything is sent, so that whoever is cut off can
//! repeat the very same submission by hand without starting it twice.

use std::{collections::BTreeMap, time::Duration};

use interrex_client::control::ControlClient;
use interrex_proto::{
    trace::{self, Traceparent},
    v1::{CommandLine, DriverSpec, ResourceAmount, StatusResponse, SubmitResponse},
};
use tokio::time::timeout;
use tracing::{Instrument, Span};

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    jobs::{self, wait::until_over},
    output::{self, Format, OutputArgs},
    units::{MemoryMib, parse_memory, parse_pair, parse_resource_amount},
};

const EXAMPLES: &str = "\
Examples:
  interrex submit -- sh -c 'echo hello'
  interrex submit --wait -- sh -c 'exit 3'; echo $?                  # 10
  interrex submit --submission-id nightly-2026-02-01 --cores 2 --memory 2GiB -- /opt/job
  interrex submit --env LEVEL=debug -- sh -c 'echo {{DRIVER_ID}} $LEVEL'

Placeholders in the program, its arguments and environment: {{DRIVER_ID}} {{ATTEMPT}} {{CORES}} {{HOSTNAME}} \
{{WORKER_URL}} {{MASTERS}}; the driver also finds them as INTERREX_DRIVER_ID and so on.

Ctrl-C while it waits leaves the driver running; `interrex kill` ends it.
Repeating a submission with the same --submission-id is safe: it starts nothing twice.
Exit codes with --wait: 0 finished, 10 failed, 11 killed; at the --timeout 12 if it has no place yet, else 6.";

/// How long to ask why an accepted submission waits.
const REASON_DEADLINE: Duration = Duration::from_secs(2);

/// Options of `interrex submit`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct SubmitArgs {
    /// Names this submission; made up (and said) if none is given
    #[arg(long, value_name = "ID")]
    submission_id: Option<String>,
    /// A name for people; the program's name if none is given
    #[arg(long)]
    name: Option<String>,
    /// Cores that it needs
    #[arg(long, default_value_t = 1)]
    cores: u32,
    /// Memory that it needs
    #[arg(long, default_value = "512MiB", value_parser = parse_memory)]
    memory: MemoryMib,
    /// A custom resource that it needs, such as gpu=1
    #[arg(long, value_name = "NAME=AMOUNT", value_parser = parse_resource_amount)]
    resource: Vec<ResourceAmount>,
    /// Larger ones are placed first; equal ones in the order in which they came
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Start it again, elsewhere if need be, until it succeeds
    #[arg(long)]
    supervise: bool,
    /// It will register an application and ask for executors: drivers that do may hold only a share of all cores
    /// together, so that their executors find room
    #[arg(long)]
    needs_executors: bool,
    /// Never run it in two places at once: an agent that has lost the masters ends it, and they wait until it has
    /// before they start it elsewhere. Without this, a second run may begin before the first is fenced off
    #[arg(long)]
    at_most_once: bool,
    /// Wait for its end, and end with its outcome
    #[arg(long)]
    wait: bool,
    /// With --wait: stop waiting after this time; it goes on without us
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "wait")]
    timeout: Option<Duration>,
    /// A variable of its environment
    #[arg(long, value_name = "K=V", value_parser = parse_pair)]
    env: Vec<(String, String)>,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Runs `interrex submit`.
pub(crate) async fn run(args: SubmitArgs) -> Done {
    let client = args.connect.client()?;
    let id = args
        .submission_id
        .clone()
        .unwrap_or_else(interrex_client::new_request_id);
    output::say(&format!("submission {id}"));
    let submitted = client.submit(&id, spec(&args)?).instrument(span(&id));
    let submitted = args.connect.patiently(submitted).await;
    let answer = submitted.map_err(|error| {
        let mut failure = Failure::from(error);
        if matches!(failure.exit, Exit::NoLeader | Exit::Timeout) {
            failure.message.push_str(&format!(
                "\nit may have been accepted; to repeat it safely, add --submission-id {id}"
            ));
        }
        failure
    })?;
    if answer.replayed {
        output::say("this submission had been accepted before");
    }
    if !args.wait {
        print(&answer, args.output.output)?;
        if answer
            .driver
            .as_ref()
            .is_some_and(|d| d.state == "SUBMITTED")
        {
            say_why_it_waits(&client, &id).await;
        }
        return Ok(Exit::Ok);
    }
    let (status, exit) = until_over(&client, &id, args.timeout).await?;
    if args.output.output == Format::Json {
        output::json(&status)?;
    }
    hint(&status, exit);
    Ok(exit)
}

/// The beginning of the submission's trace, below what `TRACEPARENT` names, if that is set.
fn span(id: &str) -> Span {
    let caller = std::env::var(trace::TRACEPARENT_VARIABLE).ok();
    let caller = caller.and_then(|text| Traceparent::parse(&text));
    let span = tracing::trace_span!(
        target: trace::TARGET,
        "interrex submit",
        interrex.submission_id = id,
    );
    trace::below(caller.as_ref(), span)
}

/// It has no place yet: says why, if that can be learned at once. The submission itself has been accepted.
async fn say_why_it_waits(client: &ControlClient, id: &str) {
    if let Ok(Ok(status)) = timeout(REASON_DEADLINE, client.status(id, false)).await
        && jobs::is_waiting(&status)
        && let Some(driver) = &status.driver
        && !driver.message.is_empty()
    {
        output::say(&format!(
            "accepted, but it waits: {}; see: interrex explain {}",
            driver.message, driver.id
        ));
    }
}

fn spec(args: &SubmitArgs) -> Result<DriverSpec, Failure> {
    let (program, rest) = args
        .program
        .split_first()
        .ok_or_else(|| Failure::usage("name a program behind `--`"))?;
    let name = args.name.clone().unwrap_or_else(|| base_name(program));
    Ok(DriverSpec {
        at_most_once: args.at_most_once,
        needs_executors: args.needs_executors,
        priority: args.priority,
        name,
        user: user(),
        command: Some(CommandLine {
            program: program.clone(),
            args: rest.to_vec(),
            env: args.env.iter().cloned().collect::<BTreeMap<_, _>>(),
        }),
        spark: None,
        cores: args.cores,
        memory_mib: args.memory.0,
        resources: args.resource.clone(),
        supervise: args.supervise,
    })
}

fn print(answer: &SubmitResponse, format: Format) -> Result<(), Failure> {
    match (format, &answer.driver) {
        (Format::Json, _) => output::json(answer),
        (Format::Table, Some(driver)) => output::data(&format!("{} {}\n", driver.id, driver.state)),
        (Format::Table, None) => Err(Failure::failed("the answer names no driver")),
    }
}

fn hint(status: &StatusResponse, exit: Exit) {
    if exit == Exit::JobFailed
        && let Some(driver) = &status.driver
    {
        let (id, how) = (&driver.id, jobs::exit_text(driver.exit.as_ref()));
        let how = if how.is_empty() {
            String::new()
        } else {
            format!(" ({how})")
        };
        output::say(&format!("it failed{how}; see: interrex logs {id} --stderr"));
    }
}

/// The last part of a program's path, cut to what a name may be.
pub(crate) fn base_name(program: &str) -> String {
    let base = program.rsplit('/').next().unwrap_or(program);
    base.chars().take(64).collect()
}

/// Who submits, for people.
pub(crate) fn user() -> String {
    std::env::var("USER")
        .or_else(|_| std::env::var("LOGNAME"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_last_part_of_the_program() {
        assert_eq!(base_name("/usr/bin/sort"), "sort");
        assert_eq!(base_name("sh"), "sh");
        assert_eq!(base_name(&"x".repeat(1000)).len(), 64);
    }
}
