//! `interrex cluster`: status, transfer-leader, add, remove.

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
  interrex cluster remove m4";

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
    /// Add a master, or let one whose disk was wiped back in
    #[command(after_help = "Example:\n  interrex cluster add m4=10.0.0.4:7077")]
    Add {
        /// The master and its RPC address
        #[arg(value_name = "ID=ADDR", value_parser = parse_member)]
        member: (String, String),
    },
    /// Remove a master
    #[command(after_help = "Example:\n  interrex cluster remove m4")]
    Remove {
        /// The master
        id: String,
    },
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
        ClusterCommand::Add { member: (id, rpc) } => {
            let answer = client.add_master(&id, &rpc);
            let answer = args.connect.patiently(answer).await?;
            show(format, &answer, &format!("{}\n", answer.message))?;
        }
        ClusterCommand::Remove { id } => {
            let answer = args.connect.patiently(client.remove_master(&id)).await?;
            show(format, &answer, &format!("{}\n", answer.message))?;
        }
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
    output::data(&text)
}
