//! `interrex kill`.

use crate::{
    connect::Connect,
    exit::{Done, Exit},
    output::{self, Format, OutputArgs},
};

const EXAMPLES: &str = "\
Examples:
  interrex kill nightly-2026-02-01             # a submission id
  interrex kill app-20260201143200-0000

Killing what is over already is not an error: the answer says so.";

/// Options of `interrex kill`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KillArgs {
    /// A driver id, a submission id or an application id
    id: String,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `interrex kill`.
pub(crate) async fn run(args: KillArgs) -> Done {
    let request_id = interrex_client::new_request_id();
    let client = args.connect.client()?;
    let answer = client.kill(&request_id, &args.id);
    let answer = args.connect.patiently(answer).await?;
    match args.output.output {
        Format::Json => output::json(&answer)?,
        Format::Table => {
            let mut text = format!("{} {}", answer.id, answer.state);
            if !answer.message.is_empty() {
                text.push_str(": ");
                text.push_str(&answer.message);
            }
            output::data(&format!("{text}\n"))?;
        }
    }
    Ok(Exit::Ok)
}
