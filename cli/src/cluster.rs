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
}

/// What to do with the masters.
#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Show the masters, who leads, and since which epoch
    Status(Shared),
    /// Hand leadership to another master
    TransferLeader {
        /// To this master; the most up-to-date standby if none is named
        id: Option<String>,
        #[command(flatten)]
        shared: Shared,
    },
    /// Add a master, or let one whose disk was wiped back in
    Add {
        /// The master and its RPC address
        #[arg(value_name = "ID=ADDR", value_parser = parse_member)]
        member: (String, String),
        #[command(flatten)]
        shared: Shared,
    },
    /// Remove a master
    Remove {
        /// The master
        id: String,
        #[command(flatten)]
        shared: Shared,
    },
}

#[derive(Debug, clap::Args)]
struct Shared {
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
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
    match args.command {
        ClusterCommand::Status(shared) => {
            let cluster = shared.connect.client()?.cluster().await?;
            match shared.output.output {
                Format::Json => output::json(&cluster)?,
                Format::Table => print(&cluster)?,
            }
            let leaderless = cluster.leader.is_empty();
            Ok(if leaderless { Exit::NoLeader } else { Exit::Ok })
        }
        ClusterCommand::TransferLeader { id, shared } => {
            let answer = shared
                .connect
                .client()?
                .transfer_leader(id.as_deref())
                .await?;
            match shared.output.output {
                Format::Json => output::json(&answer)?,
                Format::Table => {
                    output::data(&format!(
                        "{} leads in epoch {}\n",
                        answer.leader, answer.epoch
                    ))?;
                }
            }
            Ok(Exit::Ok)
        }
        ClusterCommand::Add {
            member: (id, rpc),
            shared,
        } => {
            let answer = shared.connect.client()?.add_master(&id, &rpc).await?;
            match shared.output.output {
                Format::Json => output::json(&answer)?,
                Format::Table => output::data(&format!("{}\n", answer.message))?,
            }
            Ok(Exit::Ok)
        }
        ClusterCommand::Remove { id, shared } => {
            let answer = shared.connect.client()?.remove_master(&id).await?;
            match shared.output.output {
                Format::Json => output::json(&answer)?,
                Format::Table => output::data(&format!("{}\n", answer.message))?,
            }
            Ok(Exit::Ok)
        }
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
    output::data(&text)
}
