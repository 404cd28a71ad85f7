//! `interrex list drivers|apps|workers`.

use clap::ValueEnum;
use interrex_proto::v1::{ListKind, ListRequest, ListResponse, WorkerStatus};

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    jobs::exit_text,
    output::{self, Format, OutputArgs},
    units::timestamp,
};

const EXAMPLES: &str = "\
Examples:
  interrex list drivers
  interrex list drivers --state RUNNING
  interrex list workers -o json";

/// What to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Drivers, newest last
    Drivers,
    /// Applications
    Apps,
    /// Workers
    Workers,
}

/// Options of `interrex list`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// What to list
    #[arg(value_enum)]
    what: What,
    /// Only those in this state
    #[arg(long)]
    state: Option<String>,
    /// Accept an answer that was not confirmed by a quorum
    #[arg(long)]
    stale: bool,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `interrex list`: every page, as one table or one JSON document.
pub(crate) async fn run(args: ListArgs) -> Done {
    let client = args.connect.client()?;
    let state = args.state.unwrap_or_default().to_uppercase();
    args.what.check_state(&state)?;
    let mut request = ListRequest {
        kind: args.what.kind().into(),
        state,
        stale_ok: args.stale,
        ..ListRequest::default()
    };
    let mut all = ListResponse::default();
    loop {
        let page = client.list_page(request.clone());
        let page = args.connect.patiently(page).await?;
        all.drivers.extend(page.drivers);
        all.applications.extend(page.applications);
        all.workers.extend(page.workers);
        if page.next_page_token.is_empty() || page.next_page_token == request.page_token {
            break;
        }
        request.page_token = page.next_page_token;
    }
    match args.output.output {
        Format::Json => output::json(&all)?,
        Format::Table => print(args.what, &all)?,
    }
    Ok(Exit::Ok)
}

// === impl What ===

impl What {
    fn kind(self) -> ListKind {
        match self {
            Self::Drivers => ListKind::Drivers,
            Self::Apps => ListKind::Applications,
            Self::Workers => ListKind::Workers,
        }
    }

    /// The names of states, as answers give them.
    fn states(self) -> &'static [&'static str] {
        match self {
            Self::Drivers => &[
                "SUBMITTED",
                "LAUNCHING",
                "RUNNING",
                "RELAUNCHING",
                "FINISHED",
                "KILLED",
                "FAILED",
                "ERROR",
            ],
            Self::Apps => &["WAITING", "RUNNING", "FINISHED", "FAILED", "KILLED"],
            Self::Workers => &["ALIVE", "DECOMMISSIONED", "UNKNOWN", "DEAD"],
        }
    }

    /// A mistyped state would look like an empty cluster.
    fn check_state(self, state: &str) -> Result<(), Failure> {
        if state.is_empty() || self.states().contains(&state) {
            return Ok(());
        }
        let states = self.states().join(", ");
        Err(Failure::usage(format!(
            "--state {state}: the states are {states}"
        )))
    }
}

const DRIVERS: [&str; 7] = [
    "ID",
    "STATE",
    "NAME",
    "WORKER",
    "EXIT",
    "PRIORITY",
    "SUBMITTED",
];
const APPS: [&str; 7] = [
    "ID",
    "STATE",
    "NAME",
    "RUNNING",
    "COMPLETED",
    "PRIORITY",
    "REGISTERED",
];

fn print(what: What, all: &ListResponse) -> Result<(), Failure> {
    match what {
        What::Drivers => {
            let rows = all.drivers.iter().map(|d| {
                let (exit, at) = (exit_text(d.exit.as_ref()), timestamp(d.submitted_at_ms));
                vec![
                    d.id.clone(),
                    d.state.clone(),
                    d.name.clone(),
                    d.worker_id.clone(),
                    exit,
                    d.priority.to_string(),
                    at,
                ]
            });
            output::table(&DRIVERS, rows.collect())
        }
        What::Apps => {
            let rows = all.applications.iter().map(|a| {
                let running = a.executors.iter().filter(|e| e.state == "RUNNING").count();
                let (running, at) = (running.to_string(), timestamp(a.registered_at_ms));
                let done = a.executors_completed.to_string();
                vec![
                    a.id.clone(),
                    a.state.clone(),
                    a.name.clone(),
                    running,
                    done,
                    a.priority.to_string(),
                    at,
                ]
            });
            output::table(&APPS, rows.collect())
        }
        What::Workers => {
            let rows = all.workers.iter().map(worker_row);
            output::table(
                &["ID", "STATE", "HOST", "CORES", "MEMORY", "WEB", "NOTE"],
                rows.collect(),
            )
        }
    }
}

fn worker_row(worker: &WorkerStatus) -> Vec<String> {
    let cores = format!("{}/{}", worker.cores_used, worker.cores);
    let memory = format!("{}/{} MiB", worker.memory_mib_used, worker.memory_mib);
    vec![
        worker.id.clone(),
        worker.state.clone(),
        worker.host.clone(),
        cores,
        memory,
        worker.web.clone(),
        worker_note(worker),
    ]
}

/// Why a worker gets no new work, as far as its state does not say it.
fn worker_note(worker: &WorkerStatus) -> String {
    let mut notes = Vec::new();
    if let Some(drain) = &worker.drain {
        let until = drain.deadline_ms.map(timestamp);
        let until = until.map_or_else(String::new, |at| format!(" until {at}"));
        let why = match drain.reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        notes.push(format!("draining{until}{why}"));
    }
    if !worker.not_accepting.is_empty() {
        notes.push(format!("takes no work: {}", worker.not_accepting));
    }
    notes.join("; ")
}

#[cfg(test)]
mod tests {
    use interrex_proto::v1::DrainStatus;

    use super::*;

    #[test]
    fn a_state_that_does_not_exist_is_refused_with_those_that_do() {
        assert!(What::Drivers.check_state("RUNNING").is_ok());
        assert!(What::Workers.check_state("").is_ok());
        let refused = What::Workers.check_state("RUNNING").unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.message.contains("ALIVE"), "{}", refused.message);
        assert!(What::Workers.check_state("DECOMMISSIONED").is_ok());
    }

    #[test]
    fn a_worker_that_gets_no_work_says_why() {
        let mut worker = WorkerStatus::default();
        assert_eq!(worker_note(&worker), "");
        worker.drain = Some(DrainStatus {
            deadline_ms: Some(1_000),
            reason: "new disk".to_owned(),
            ..DrainStatus::default()
        });
        worker.not_accepting = "disk full".to_owned();
        assert_eq!(
            worker_note(&worker),
            "draining until 1970-01-01T00:00:01Z: new disk; takes no work: disk full"
        );
    }
}
