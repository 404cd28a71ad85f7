//! `interrex worker drain|undrain`: empty a worker, and let it have work again.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use clap::Subcommand;
use interrex_client::control::ControlClient;
use interrex_proto::v1::{DrainWorkersRequest, ListKind, UndrainWorkersRequest, WorkerStatus};

use crate::{
    connect::{Connect, DEV_MASTERS},
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
    token::TokenArgs,
};

/// How often to look whether a worker is empty.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  interrex worker drain w1 --deadline 10m --reason 'new kernel' --wait
  interrex worker drain --host node7
  interrex worker undrain w1
  interrex list workers --state DECOMMISSIONED";

const DRAIN_EXAMPLES: &str = "\
Examples:
  interrex worker drain w1
  interrex worker drain w1 --deadline 10m --wait
  interrex worker drain --host node7 --reason 'new disk'

A drained worker gets no new work, also after a failover or a restart of its agent, until `undrain`. Applications get \
other executors in place of those there; drivers run on. At the deadline what still runs is ended: supervised drivers \
go on elsewhere, others are KILLED. Draining again changes the deadline and the reason; without --deadline it has none.
Here --deadline is the drain's; a request's own stands before: interrex worker --deadline 5s drain w1.
Ctrl-C while it waits leaves the worker drained.";

const UNDRAIN_EXAMPLES: &str = "\
Examples:
  interrex worker undrain w1
  interrex worker undrain --host node7

It gets work again at once. Executors that were DECOMMISSIONED run on and stay so until they end.";

/// Options of `interrex worker`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    command: WorkerCommand,
    /// The masters: `A,B,C` or `spark://A,B,C`; the default is what `interrex dev` starts
    #[arg(
        long,
        global = true,
        env = "INTERREX_MASTERS",
        value_name = "A,B,C",
        default_value = DEV_MASTERS
    )]
    masters: String,
    /// How long one request may look for a leader and be repeated
    // Not global as elsewhere: `drain` has a deadline of its own.
    #[arg(
        long,
        env = "INTERREX_DEADLINE",
        value_name = "TIME",
        default_value = "30s"
    )]
    #[arg(value_parser = humantime::parse_duration)]
    deadline: Duration,
    #[command(flatten)]
    token: TokenArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What to do with workers.
#[derive(Debug, Subcommand)]
enum WorkerCommand {
    /// Empty a worker: nothing new is started there
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain {
        #[command(flatten)]
        named: Named,
        /// End what still runs there after this time; without it, it may end by itself
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        deadline: Option<Duration>,
        /// Why, for people
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
        /// Wait until nothing runs there any more
        #[arg(long)]
        wait: bool,
    },
    /// Let a drained worker have work again
    #[command(after_help = UNDRAIN_EXAMPLES)]
    Undrain {
        #[command(flatten)]
        named: Named,
    },
}

/// Which workers: one by its id, or all of a host.
#[derive(Debug, Clone, clap::Args)]
#[group(required = true, multiple = false)]
struct Named {
    /// The worker's id
    id: Option<String>,
    /// All workers on this host, in whatever letters
    #[arg(long)]
    host: Option<String>,
}

/// Runs `interrex worker`.
pub(crate) async fn run(args: WorkerArgs) -> Done {
    let connect = Connect {
        masters: args.masters,
        deadline: args.deadline,
        token: args.token,
    };
    let client = connect.client()?;
    let format = args.output.output;
    let request_id = interrex_client::new_request_id();
    match args.command {
        WorkerCommand::Drain {
            named,
            deadline,
            reason,
            wait,
        } => {
            let request = DrainWorkersRequest {
                request_id,
                worker_id: named.id.clone().unwrap_or_default(),
                host: named.host.clone().unwrap_or_default(),
                deadline_ms: deadline
                    .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
                reason,
            };
            let answer = connect.patiently(client.drain_workers(request)).await?;
            named.check(answer.workers)?;
            tell(format, &answer, answer.workers, "being drained")?;
            if wait {
                until_empty(&client, &named).await?;
            }
        }
        WorkerCommand::Undrain { named } => {
            let request = UndrainWorkersRequest {
                request_id,
                worker_id: named.id.clone().unwrap_or_default(),
                host: named.host.clone().unwrap_or_default(),
            };
            let answer = connect.patiently(client.undrain_workers(request)).await?;
            tell(format, &answer, answer.workers, "not drained any more")?;
        }
    }
    Ok(Exit::Ok)
}

// === impl Named ===

impl Named {
    fn matches(&self, worker: &WorkerStatus) -> bool {
        match (&self.id, &self.host) {
            (Some(id), _) => *id == worker.id,
            (None, Some(host)) => host.eq_ignore_ascii_case(&worker.host),
            (None, None) => false,
        }
    }

    /// A mistyped host would look like one that is drained.
    fn check(&self, drained: u32) -> Result<(), Failure> {
        match &self.host {
            Some(host) if drained == 0 => Err(Failure::new(
                Exit::NotFoundOrConflict,
                format!("no worker is on host {host}; see: interrex list workers"),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

fn tell(
    format: Format,
    answer: &impl serde::Serialize,
    workers: u32,
    what: &str,
) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(answer),
        Format::Table => {
            let are = if workers == 1 {
                "worker is"
            } else {
                "workers are"
            };
            output::data(&format!("{workers} {are} {what}\n"))
        }
    }
}

/// Waits until nothing runs on the drained workers, saying on stderr what is left whenever that changes.
///
/// # Errors
/// When the cluster cannot be asked any more, or somebody takes the drain back.
async fn until_empty(client: &ControlClient, named: &Named) -> Result<(), Failure> {
    let mut said = BTreeMap::new();
    loop {
        let listing = client.list(ListKind::Workers, None).await?;
        let mut busy = false;
        for worker in listing.workers.iter().filter(|w| named.matches(w)) {
            let left = left_on(worker)?;
            busy |= left.is_some();
            let text = left.unwrap_or_else(|| format!("{}: empty", worker.id));
            if said.get(&worker.id) != Some(&text) {
                output::say(&text);
                said.insert(worker.id.clone(), text);
            }
        }
        if !busy {
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// What is left on a worker, in words; `None`: nothing.
fn left_on(worker: &WorkerStatus) -> Result<Option<String>, Failure> {
    let (drivers, executors) = (worker.drivers.len(), worker.executors.len());
    if drivers + executors == 0 {
        return Ok(None);
    }
    let Some(drain) = &worker.drain else {
        return Err(Failure::failed(format!(
            "worker {} is not drained any more",
            worker.id
        )));
    };
    let until = drain.deadline_ms.map_or_else(String::new, |at| {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(at);
        format!(", ended at {}", humantime::format_rfc3339_seconds(at))
    });
    Ok(Some(format!(
        "{}: {drivers} drivers and {executors} executors are left{until}",
        worker.id
    )))
}

#[cfg(test)]
mod tests {
    use interrex_proto::v1::DrainStatus;

    use super::*;

    fn worker(id: &str, host: &str) -> WorkerStatus {
        WorkerStatus {
            id: id.to_owned(),
            host: host.to_owned(),
            ..WorkerStatus::default()
        }
    }

    #[test]
    fn a_host_is_found_in_whatever_letters_and_an_id_only_as_it_is() {
        let host = Named {
            id: None,
            host: Some("Node7".to_owned()),
        };
        assert!(host.matches(&worker("w1", "NODE7")) && !host.matches(&worker("Node7", "x")));
        let id = Named {
            id: Some("w1".to_owned()),
            host: None,
        };
        assert!(id.matches(&worker("w1", "x")) && !id.matches(&worker("W1", "x")));
        assert!(host.check(0).is_err() && host.check(2).is_ok());
    }

    #[test]
    fn what_is_left_is_told_until_it_is_nothing_or_the_drain_is_taken_back() {
        let mut w1 = worker("w1", "h");
        assert!(matches!(left_on(&w1), Ok(None)));
        w1.drivers.push("driver-1".to_owned());
        assert!(left_on(&w1).is_err());
        w1.drain = Some(DrainStatus {
            deadline_ms: Some(0),
            ..DrainStatus::default()
        });
        let left = left_on(&w1).unwrap().unwrap();
        assert_eq!(
            left,
            "w1: 1 drivers and 0 executors are left, ended at 1970-01-01T00:00:00Z"
        );
    }
}
