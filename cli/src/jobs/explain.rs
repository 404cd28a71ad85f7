//! `interrex explain`.

use interrex_proto::v1::{ExplainResponse, WaitExplained};

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
};

const EXAMPLES: &str = "\
Examples:
  interrex explain driver-20260201143200-0000       # why it waits, where it runs, how it ended
  interrex explain nightly-2026-02-01               # by submission id
  interrex explain app-20260201143200-0000 -o json
  interrex explain w1                               # what runs on a worker, and whether it takes more

Exit code 0 when it is known, whatever its state; 5 when it is not.";

/// Options of `interrex explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// A driver id, a submission id, an application id or a worker id
    id: String,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `interrex explain`.
pub(crate) async fn run(args: ExplainArgs) -> Done {
    let client = args.connect.client()?;
    let explained = args.connect.patiently(client.explain(&args.id)).await?;
    print(&explained, args.output.output)?;
    Ok(Exit::Ok)
}

fn print(explained: &ExplainResponse, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(explained),
        Format::Table => output::data(&text(explained)),
    }
}

fn text(explained: &ExplainResponse) -> String {
    let ExplainResponse {
        id,
        kind,
        state,
        summary,
        details,
        waits,
    } = explained;
    let mut text = format!("{kind} {id} {state}\n{summary}\n");
    for detail in details {
        text.push_str(&format!("- {detail}\n"));
    }
    for wait in waits {
        text.push_str(&wait_text(wait, waits.len() > 1));
    }
    text
}

fn wait_text(wait: &WaitExplained, with_profile: bool) -> String {
    let mut text = "\n".to_owned();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{name:<8} {value}\n"));
        }
    };
    if with_profile {
        field("profile", &wait.profile_id.to_string());
        field("reason", &wait.reason);
    }
    if wait.hopeless {
        field(
            "warning",
            "it cannot start until somebody changes something",
        );
    }
    field("needs", &wait.needs);
    let (place, order) = (wait.queue_before.saturating_add(1), &wait.queue_order);
    let queue = format!("number {place} of {}, {order}", wait.queue_length);
    field("queue", &queue);
    for held in &wait.held {
        field("limit", held);
    }
    let rows = wait.workers.iter().map(|verdict| {
        let row = [&verdict.worker_id, &verdict.words];
        row.map(Clone::clone).to_vec()
    });
    if !wait.workers.is_empty() {
        let table = output::format_table(&["WORKER", "SAYS"], rows.collect());
        text.push_str(&format!("\n{table}\n"));
    }
    for more in &wait.more_workers {
        text.push_str(&format!("and {} more: {}\n", more.workers, more.words));
    }
    text
}

#[cfg(test)]
mod tests {
    use interrex_proto::v1::{VerdictCount, WorkerVerdict};

    use super::*;

    #[test]
    fn an_explanation_begins_with_the_answer() {
        let verdict = |id: &str, words: &str| WorkerVerdict {
            worker_id: id.to_owned(),
            fits: words == "fits",
            words: words.to_owned(),
        };
        let explained = ExplainResponse {
            id: "driver-1".to_owned(),
            kind: "driver".to_owned(),
            state: "SUBMITTED".to_owned(),
            summary: "held: maxDrivers 1 reached".to_owned(),
            details: vec!["failed once; last: exit code 1".to_owned()],
            waits: vec![WaitExplained {
                needs: "1 core and 512 MiB".to_owned(),
                queue_before: 2,
                queue_length: 4,
                queue_order: "by priority".to_owned(),
                held: vec!["held: maxDrivers 1 reached".to_owned()],
                workers: vec![
                    verdict("w1", "fits"),
                    verdict("w2", "lacks cores (has 0 of 4 free)"),
                ],
                more_workers: vec![VerdictCount {
                    words: "lacks cores".to_owned(),
                    workers: 7,
                }],
                ..WaitExplained::default()
            }],
        };
        let want = "\
driver driver-1 SUBMITTED
held: maxDrivers 1 reached
- failed once; last: exit code 1

needs    1 core and 512 MiB
queue    number 3 of 4, by priority
limit    held: maxDrivers 1 reached

WORKER  SAYS
w1      fits
w2      lacks cores (has 0 of 4 free)
and 7 more: lacks cores
";
        assert_eq!(text(&explained), want);
    }
}
