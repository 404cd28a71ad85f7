//! `interrex cluster`: status, transfer-leader, add, remove, recover.

mod progress;
mod recover;

use std::time::Duration;

use clap::Subcommand;
use interrex_proto::v1::ClusterResponse;

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
    units::parse_address,
};

const EXAMPLES: &str = "\
Examples:
  interrex cluster status
  interrex cluster status -o json
  interrex cluster transfer-leader m2
  interrex cluster add m4=10.0.0.4:7077
  interrex cluster remove m4
  interrex cluster recover --data-dir /var/lib/interrex/m1 --yes";

const ADD_EXAMPLES: &str = "\
Examples:
  interrex master --id m4 --data-dir D --bind 10.0.0.4:7077 --insecure --join 10.0.0.1:7077    first, on the new machine
  interrex cluster add m4=10.0.0.4:7077

It learns without a vote, and votes when it has caught up; progress is shown on stderr. Repeating the command is safe \
and finishes what was left half way; `cluster remove` undoes it.";

/// Longest wait for the removal of a master.
const REMOVE_DEADLINE: Duration = Duration::from_secs(70);

/// Options of `interrex cluster`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// What to do with the masters.
#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Show the masters, who leads, and since which epoch
    #[command(after_help = "Example:\n  interrex cluster status -o json")]
    Status,
    /// Hand leadership to another master
    #[command(after_help = "Example:\n  interrex cluster transfer-leader m2")]
    TransferLeader {
        /// To this master; the most up-to-date standby if none is named
        id: Option<String>,
    },
    /// Add a master, let one whose disk was wiped back in, or note that it has moved
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// The master and its RPC address
        #[arg(value_name = "ID=ADDR", value_parser = parse_member)]
        member: (String, String),
        /// How long it may take to catch up
        #[arg(long, value_name = "TIME", default_value = "10m")]
        #[arg(value_parser = humantime::parse_duration)]
        within: Duration,
    },
    /// Remove a master; the leader hands over first
    #[command(after_help = "Example:\n  interrex cluster remove m4")]
    Remove {
        /// The master
        id: String,
    },
    /// Make a cluster of one out of a survivor, when a quorum is lost for good
    Recover(recover::RecoverArgs),
}

fn parse_member(text: &str) -> Result<(String, String), String> {
    let (id, address) = text.split_once('=').ok_or("write ID=HOST:PORT")?;
    if id.is_empty() {
        return Err("write ID=HOST:PORT".to_owned());
    }
    Ok((id.to_owned(), parse_address(address)?))
}

/// Runs `interrex cluster`.
pub(crate) async fn run(args: ClusterArgs) -> Done {
    let client = args.connect.client()?;
    let format = args.output.output;
    match args.command {
        ClusterCommand::Status => {
            let cluster = args.connect.patiently(client.cluster()).await?;
            match format {
                Format::Json => output::json(&cluster)?,
                Format::Table => print(&cluster)?,
            }
            let leaderless = cluster.leader.is_empty();
            return Ok(if leaderless { Exit::NoLeader } else { Exit::Ok });
        }
        ClusterCommand::TransferLeader { id } => {
            let answer = client.transfer_leader(id.as_deref());
            let answer = args.connect.patiently(answer).await?;
            let text = format!("{} leads in epoch {}\n", answer.leader, answer.epoch);
            show(format, &answer, &text)?;
        }
        ClusterCommand::Add {
            member: (id, rpc),
            within,
        } => {
            // Whoever cannot reach the cluster is told so by the usual deadline, not by that of catching up.
            args.connect.patiently(client.cluster()).await?;
            let client = args.connect.client_within(within)?;
            let add = client.add_master(&id, &rpc);
            let answer = progress::shown(add, &client, &id).await?;
            show(format, &answer, &format!("{}\n", answer.message))?;
        }
        ClusterCommand::Remove { id } => {
            let within = args.connect.deadline.max(REMOVE_DEADLINE);
            let client = args.connect.client_within(within)?;
            let answer = args.connect.patiently(client.remove_master(&id)).await?;
            show(format, &answer, &format!("{}\n", answer.message))?;
        }
        ClusterCommand::Recover(args) => return recover::run(args).await,
    }
    Ok(Exit::Ok)
}

fn show(format: Format, answer: &impl serde::Serialize, text: &str) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(answer),
        Format::Table => output::data(text),
    }
}

fn print(cluster: &ClusterResponse) -> Result<(), Failure> {
    let leader = if cluster.leader.is_empty() {
        "nobody"
    } else {
        &cluster.leader
    };
    let mut text = format!(
        "cluster {}: {leader} leads in epoch {}, state {} (says {})\n\n",
        cluster.cluster_id, cluster.epoch, cluster.state, cluster.answered_by
    );
    let rows = cluster.masters.iter().map(|m| {
        let healthy = if m.healthy { "yes" } else { "no" };
        let lag = m.lag.map_or_else(|| "-".to_owned(), |lag| lag.to_string());
        vec![
            m.id.clone(),
            m.role.clone(),
            m.rpc.clone(),
            healthy.to_owned(),
            lag,
        ]
    });
    let header = ["ID", "ROLE", "RPC", "HEALTHY", "LAG"];
    text.push_str(&output::format_table(&header, rows.collect()));
    text.push('\n');
    if cluster.quarantined_records > 0 {
        text.push_str(&format!(
            "\n{} records cannot be read; they are kept and not used. To see which: interrex snapshot save FILE, then \
             interrex snapshot inspect FILE\n",
            cluster.quarantined_records
        ));
    }
    if !cluster.change.is_empty() {
        text.push_str(&format!("\n{}\n", cluster.change));
    }
    output::data(&text)
}
