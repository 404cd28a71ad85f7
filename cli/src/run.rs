//! `interrex run`: an application that is nothing but executors of one command.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use interrex_client::app::{
    AppClient, AppEnd, AppEvent, AppEvents, AppHandle, AppOptions, UnregisterError,
};
use interrex_proto::v1::{ApplicationSpec, CommandLine, ExecutorInfo, ResourceAmount};

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    jobs,
    output::{self, Format, OutputArgs},
    shutdown::Shutdown,
    submit::{base_name, user},
    units::{MemoryMib, parse_memory, parse_pair, parse_resource_amount},
};

/// How long the cluster may take to confirm that the application has ended.
const UNREGISTER_DEADLINE: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  interrex run --executors 4 -- sh -c 'echo executor $INTERREX_EXECUTOR_ID'
  interrex run --executors 8 --min-executors 8 --priority 10 -- ./all-or-nothing
  interrex run --executors 2 --cores-per-executor 2 --memory 1GiB -- ./worker --app {{APP_ID}}

Each executor runs PROGRAM once. An executor that fails is replaced, up to the cluster's limit. The command ends \
when all executors have completed (0), when the application has failed (10) or was killed (11). Ctrl-C ends all \
executors together. A leader that dies on the way is only mentioned: executors run on.

Placeholders: {{APP_ID}} {{EXECUTOR_ID}} {{CORES}} {{HOSTNAME}} {{WORKER_URL}} {{MASTERS}}.";

/// Options of `interrex run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// Executors to run
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    executors: u32,
    /// Cores of each executor
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    cores_per_executor: u32,
    /// Memory of each executor
    #[arg(long, default_value = "512MiB", value_parser = parse_memory)]
    memory: MemoryMib,
    /// A custom resource that each executor needs, such as gpu=1
    #[arg(long, value_name = "NAME=AMOUNT", value_parser = parse_resource_amount)]
    resource: Vec<ResourceAmount>,
    /// Larger ones are served first; equal ones in the order in which they came
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Start nothing before so many executors fit at once
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_executors: u32,
    /// A name for people; the program's name if none is given
    #[arg(long)]
    name: Option<String>,
    /// A variable of the executors' environment
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

/// Runs `interrex run`, and says at its end how it stands.
pub(crate) async fn run(args: RunArgs) -> Done {
    let mut shutdown = Shutdown::listen()?;
    let started = AppClient::start_with_events(AppOptions::new(args.connect.list()?, spec(&args)?));
    let (app, events) = started.map_err(|e| Failure::usage(e.to_string()))?;
    let done = follow(&args, &app, events, &mut shutdown).await;
    if args.output.output == Format::Json
        && let Some(id) = app.app_id()
    {
        // How it ended, as `interrex status -o json` says it; the exit code stays that of the end.
        let client = args.connect.client()?;
        match client.status(&id, false).await {
            Ok(status) => output::json(&status)?,
            Err(error) => output::say(&format!("the end of {id} is not known: {error}")),
        }
    }
    done
}

/// Shows what happens until the application is over.
async fn follow(
    args: &RunArgs,
    app: &AppHandle,
    mut events: AppEvents,
    shutdown: &mut Shutdown,
) -> Done {
    // Only the first leader has a deadline: executors that run are not given up for an outage of the masters.
    let no_leader = tokio::time::sleep(args.connect.deadline);
    tokio::pin!(no_leader);
    let wanted = usize::try_from(args.executors).unwrap_or(usize::MAX);
    let mut completed = BTreeSet::new();
    loop {
        tokio::select! {
            signal = shutdown.asked() => return interrupted(app, shutdown, signal).await,
            event = events.recv() => match event {
                Some(event) => {
                    show(&event);
                    if let AppEvent::ExecutorRemoved(e) = &event && succeeded(e) {
                        completed.insert(e.executor_id);
                    }
                    if completed.len() >= wanted {
                        return finish(app).await;
                    }
                }
                None => break,
            },
            () = &mut no_leader, if app.app_id().is_none() => {
                let waited = args.connect.deadline;
                let message = format!("no master has taken the application within {waited:?}");
                return Err(Failure::new(Exit::NoLeader, message));
            }
        }
    }
    outcome(app, &args.connect).await
}

/// It ended by itself, and well. A program that is told to end may do so with exit code 0, and has not done its work.
fn succeeded(executor: &ExecutorInfo) -> bool {
    executor.state == "EXITED" && executor.exit.is_some_and(|exit| exit.code == Some(0))
}

/// Every executor has completed: nothing is left to do but to say so.
async fn finish(app: &AppHandle) -> Done {
    match app
        .unregister(false, "all executors have completed", UNREGISTER_DEADLINE)
        .await
    {
        Ok(()) | Err(UnregisterError::Over(AppEnd::Finished { .. })) => {
            output::say("finished: all executors have completed");
            Ok(Exit::Ok)
        }
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

async fn interrupted(app: &AppHandle, shutdown: &mut Shutdown, signal: &str) -> Done {
    output::say(&format!(
        "{signal}: ending all executors (again to leave them to the cluster)"
    ));
    let ended = app.unregister(false, format!("ended by {signal}"), UNREGISTER_DEADLINE);
    tokio::select! {
        result = ended => match result {
            Ok(()) => Err(Failure::new(Exit::JobKilled, format!("ended by {signal}"))),
            Err(error) => Err(Failure::failed(error.to_string())),
        },
        _ = shutdown.asked() => Err(Failure::failed("left without ending the application")),
    }
}

async fn outcome(app: &AppHandle, connect: &Connect) -> Done {
    match app.wait().await {
        AppEnd::Finished { message } => {
            output::say(&format!("finished{}", with_message(&message)));
            Ok(Exit::Ok)
        }
        AppEnd::Unregistered { .. } => Ok(Exit::Ok),
        AppEnd::Dead { reason } => {
            let exit = match app.app_id() {
                // It was never taken: the specification was refused.
                None => Exit::Refused,
                Some(id) => match connect.client()?.status(&id, false).await {
                    Ok(status) => jobs::outcome(&status).unwrap_or(Exit::JobFailed),
                    Err(_) => Exit::JobFailed,
                },
            };
            Err(Failure::new(exit, reason))
        }
        AppEnd::Closed => Err(Failure::failed("the application was closed")),
    }
}

fn show(event: &AppEvent) {
    match event {
        AppEvent::Connected { app_id } => output::say(&format!("application {app_id}")),
        AppEvent::Disconnected => {
            output::say("the leader is gone; executors run on, looking for the next leader");
        }
        AppEvent::ExecutorAdded(e) | AppEvent::ExecutorUpdated(e) => output::say(&line(e)),
        AppEvent::ExecutorRemoved(e) => output::say(&line(e)),
        AppEvent::WorkerRemoved(w) => {
            output::say(&format!(
                "worker {} is lost{}",
                w.worker_id,
                with_message(&w.message)
            ));
        }
        // Said when the command ends.
        AppEvent::Dead { .. } | AppEvent::Finished { .. } => {}
    }
}

fn line(executor: &ExecutorInfo) -> String {
    let how = jobs::ended_text(executor.exit.as_ref(), &executor.message);
    format!(
        "executor {} on {}: {}{}",
        executor.executor_id,
        executor.worker_id,
        executor.state,
        with_message(&how)
    )
}

fn with_message(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}

fn spec(args: &RunArgs) -> Result<ApplicationSpec, Failure> {
    let (program, rest) = args
        .program
        .split_first()
        .ok_or_else(|| Failure::usage("name a program behind `--`"))?;
    if args.min_executors > args.executors {
        let (min, all) = (args.min_executors, args.executors);
        return Err(Failure::usage(format!(
            "--min-executors {min}: give at most --executors ({all})"
        )));
    }
    let cores_max = args.executors.checked_mul(args.cores_per_executor);
    Ok(ApplicationSpec {
        min_executors: args.min_executors,
        spark: None,
        priority: args.priority,
        name: args.name.clone().unwrap_or_else(|| base_name(program)),
        user: user(),
        command: Some(CommandLine {
            program: program.clone(),
            args: rest.to_vec(),
            env: args.env.iter().cloned().collect::<BTreeMap<_, _>>(),
        }),
        cores_max: Some(cores_max.ok_or_else(|| Failure::usage("too many cores in all"))?),
        cores_per_executor: Some(args.cores_per_executor),
        memory_mib_per_executor: args.memory.0,
        resources_per_executor: args.resource.clone(),
        executor_limit: Some(args.executors),
        completes: true,
        ui_url: String::new(),
    })
}
