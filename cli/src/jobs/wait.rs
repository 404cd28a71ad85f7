//! `interrex wait`, and the waiting of `interrex submit --wait`.

use std::time::Duration;

use interrex_client::control::{ClientError, ControlClient};
use interrex_proto::v1::StatusResponse;
use tokio::time::timeout;

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    jobs,
    output::{self, Format, OutputArgs},
};

/// How often to look for changes that are worth a word.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long the last question may take, when the time to wait is over.
const LAST_LOOK: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  interrex wait nightly-2026-02-01                   # a submission id
  interrex wait app-20260201143200-0000 --timeout 10m

Ctrl-C ends the waiting only; `interrex kill` ends the job.
Exit codes: 0 finished, 10 failed, 11 killed; at the timeout 12 if it has no place yet, else 6.";

/// Options of `interrex wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WaitArgs {
    /// A driver id, a submission id or an application id
    id: String,
    /// Stop waiting after this time; it goes on without us
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `interrex wait`.
pub(crate) async fn run(args: WaitArgs) -> Done {
    let client = args.connect.client()?;
    let (status, exit) = until_over(&client, &args.id, args.timeout).await?;
    if args.output.output == Format::Json {
        output::json(&status)?;
    }
    Ok(exit)
}

/// Waits until `id` is over or `limit` has passed, saying every change of its state on stderr.
///
/// # Errors
/// When the cluster cannot be asked any more, or does not know `id`.
pub(crate) async fn until_over(
    client: &ControlClient,
    id: &str,
    limit: Option<Duration>,
) -> Result<(StatusResponse, Exit), Failure> {
    let mut said = String::new();
    let waited = tokio::select! {
        waited = client.wait(id, limit) => waited,
        never = tell_changes(client, id, &mut said) => never,
    };
    let status = match waited {
        // The time is up, or no master could be asked for too long: another question tells which.
        Err(ClientError::Timeout { .. }) => last_look(client, id).await?,
        other => other?,
    };
    let now = jobs::describe(&status);
    if now != said {
        output::say(&now);
    }
    let exit = jobs::outcome(&status).unwrap_or_else(|| {
        output::say(&format!("still {} after the timeout", jobs::state(&status)));
        if jobs::is_waiting(&status) {
            Exit::Waiting
        } else {
            Exit::Timeout
        }
    });
    Ok((status, exit))
}

/// How it stands when the time is up, asked briefly: whoever set a time does not want to wait on.
async fn last_look(client: &ControlClient, id: &str) -> Result<StatusResponse, Failure> {
    match timeout(LAST_LOOK, client.status(id, false)).await {
        Ok(status) => Ok(status?),
        Err(_elapsed) => Err(Failure::new(
            Exit::NoLeader,
            format!("the time is up, and no leader says how {id} stands"),
        )),
    }
}

async fn tell_changes(client: &ControlClient, id: &str, said: &mut String) -> ! {
    loop {
        // An answer that does not come is no news; the waiting itself says what is wrong.
        if let Ok(status) = client.status(id, false).await {
            let now = jobs::describe(&status);
            if now != *said && !status.over {
                output::say(&now);
                *said = now;
            }
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}
