//! `interrex cluster recover`: a cluster of one out of a survivor, when a quorum is lost for good.

use std::{collections::BTreeMap, path::PathBuf};

use interrex_persistence::raft::{Neighbour, RecoverError, Survivor};

use super::parse_member;
use crate::{
    exit::{Done, Exit, Failure, chain},
    output,
    token::TokenArgs,
};

const EXAMPLES: &str = "\
Examples:
  interrex cluster recover --data-dir /var/lib/interrex/m1         look at what is there; nothing is changed
  interrex cluster recover --data-dir /var/lib/interrex/m1 --yes

Only when a quorum of masters is lost for good. Stop the survivor first; of several, take the one with the newest \
entry. Afterwards it is a cluster of one with everything that its directory holds, under a larger epoch. Start it as \
before, start fresh masters with empty data directories, and let them in with `interrex cluster add`. The other \
masters of the old cluster are refused: their directories have to go.";

/// Options of `interrex cluster recover`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RecoverArgs {
    /// The survivor's data directory; its master must not run
    #[arg(long, value_name = "D")]
    data_dir: PathBuf,
    /// Where the other masters are now, if elsewhere than they were
    #[arg(long, value_name = "ID=ADDR,...", value_delimiter = ',', value_parser = parse_member)]
    peers: Vec<(String, String)>,
    #[command(flatten)]
    token: TokenArgs,
    /// Do it
    #[arg(long)]
    yes: bool,
}

/// Runs `interrex cluster recover`.
pub(super) async fn run(args: RecoverArgs) -> Done {
    let path = args.data_dir.clone();
    let opened = tokio::task::spawn_blocking(move || Survivor::open(&path)).await;
    let opened = opened.map_err(|e| Failure::failed(format!("reading the directory: {e}")))?;
    let survivor = opened.map_err(|e| refused(&e))?;
    let moved: BTreeMap<String, String> = args.peers.into_iter().collect();
    let neighbours = survivor.neighbours(&moved, args.token.credentials()?).await;
    output::data(&picture(&survivor, &neighbours))?;
    survivor.check(&neighbours).map_err(|e| refused(&e))?;
    let id = survivor.id().to_owned();
    if !args.yes {
        output::say("nothing was changed; give --yes to recover");
        return Ok(Exit::Ok);
    }
    let term = survivor.recover(&neighbours);
    let term = term.await.map_err(|e| refused(&e))?;
    output::data(&format!(
        "{id} is a cluster of one now, and leads with an epoch above {term} when it is started.\n\
         The nodes of {} are refused from now on: empty their data directories, start them with --join, and add them \
         with `interrex cluster add`.\n",
        names(&neighbours)
    ))?;
    Ok(Exit::Ok)
}

fn picture(survivor: &Survivor, neighbours: &[Neighbour]) -> String {
    let mut text = format!(
        "{} of cluster {}: newest entry {} of term {}\n",
        survivor.id(),
        survivor.cluster_id(),
        survivor.newest_entry(),
        survivor.newest_term()
    );
    for neighbour in neighbours {
        let answers = if neighbour.answers {
            "answers"
        } else {
            "does not answer as the member that it was"
        };
        let Neighbour { id, rpc, .. } = neighbour;
        text.push_str(&format!("{id} at {rpc}: {answers}\n"));
    }
    text
}

fn names(neighbours: &[Neighbour]) -> String {
    let ids: Vec<&str> = neighbours.iter().map(|n| n.id.as_str()).collect();
    ids.join(", ")
}

fn refused(error: &RecoverError) -> Failure {
    Failure::failed(chain(error))
}
