//! `interrex debug log-level`: what masters and agents log, seen and changed while they run.

use std::time::Duration;

use futures::{StreamExt, stream};
use interrex_client::control::ControlClient;
use interrex_proto::v1::ListKind;
use interrex_web::log_level::PATH;
use reqwest::{Client, Method, header};
use serde::Serialize;

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    output::{self, Format, OutputArgs},
};

const EXAMPLES: &str = "\
Examples:
  interrex debug log-level                                       # what every master logs
  interrex debug log-level debug,openraft=warn                   # every master
  interrex debug log-level --agents info,interrex_agent=debug    # every master and every agent
  interrex debug log-level --addr 10.0.0.9:8081 trace            # one of them, at its web address
  interrex debug log-level --reset --agents                      # what they were started with

It counts until the process ends, or is told otherwise, here or by SIGHUP.";

/// How long one process may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Processes that are asked at a time.
const AT_A_TIME: usize = 16;
/// Longest answer that is shown, in characters.
const ANSWER_MAX: usize = 500;

/// Options of `interrex debug log-level`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct LogLevelArgs {
    /// What is logged from now on, such as `debug` or `info,interrex_agent=debug`; shown only if not given
    filter: Option<String>,
    /// Log again what the process was started with
    #[arg(long, conflicts_with = "filter")]
    reset: bool,
    /// Only the master or agent with this web address; may be repeated
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "agents")]
    addr: Vec<String>,
    /// Every agent, too
    #[arg(long)]
    agents: bool,
    #[command(flatten)]
    connect: Connect,
    #[command(flatten)]
    output: OutputArgs,
}

/// One process, and what it answered.
#[derive(Debug, Serialize)]
struct Answer {
    id: String,
    web: String,
    /// What it logs now.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    /// Why it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Asks everybody, and shows what they answer.
pub(super) async fn run(args: LogLevelArgs) -> Done {
    let web = Client::builder().no_proxy().timeout(ANSWER_WITHIN).build();
    let web = web.map_err(|e| Failure::failed(format!("starting the HTTP client: {e}")))?;
    let places = match args.addr.is_empty() {
        true => known(&args).await?,
        false => args.addr.iter().map(|a| (a.clone(), a.clone())).collect(),
    };
    let put = match (&args.filter, args.reset) {
        (Some(filter), _) => Some(filter.as_str()),
        (None, true) => Some(""),
        (None, false) => None,
    };
    let token = args.connect.token.credentials()?.header();
    let asked = places
        .into_iter()
        .map(|(id, address)| ask(&web, id, address, put, token.as_deref()));
    let answers: Vec<Answer> = stream::iter(asked).buffered(AT_A_TIME).collect().await;
    let silent = answers.iter().filter(|a| a.error.is_some()).count();
    let all = answers.len();
    show(answers, args.output.output)?;
    match silent {
        0 => Ok(Exit::Ok),
        _ => Err(Failure::failed(format!("{silent} of {all} did not do it"))),
    }
}

/// The masters, and the agents if they are asked for, with their web addresses.
async fn known(args: &LogLevelArgs) -> Result<Vec<(String, String)>, Failure> {
    let client: ControlClient = args.connect.client()?;
    let cluster = args.connect.patiently(client.cluster()).await?;
    let masters = cluster.masters.into_iter().map(|m| (m.id, m.web));
    let mut places: Vec<_> = masters.collect();
    if args.agents {
        let workers = client.list(ListKind::Workers, None).await?.workers;
        let reachable = workers.into_iter().filter(|worker| worker.state != "DEAD");
        places.extend(reachable.map(|worker| (worker.id, worker.web)));
    }
    Ok(places)
}

async fn ask(
    web: &Client,
    id: String,
    address: String,
    put: Option<&str>,
    token: Option<&str>,
) -> Answer {
    let url = format!("http://{address}{PATH}");
    let mut request = match put {
        Some(filter) => web.request(Method::PUT, url).body(filter.to_owned()),
        None => web.get(url),
    };
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, token);
    }
    let said = async {
        let answer = request.send().await?;
        let done = answer.status().is_success();
        Ok::<_, reqwest::Error>((done, answer.text().await?))
    };
    let (filter, error) = match said.await {
        Ok((true, text)) => (Some(shown(&text)), None),
        Ok((false, text)) => (None, Some(shown(&text))),
        Err(error) => (None, Some(crate::exit::chain(&error))),
    };
    Answer {
        id,
        web: address,
        filter,
        error,
    }
}

fn shown(text: &str) -> String {
    text.trim().chars().take(ANSWER_MAX).collect()
}

fn show(answers: Vec<Answer>, format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => output::json(&answers),
        Format::Table => {
            let row = |answer: Answer| {
                let said = answer
                    .filter
                    .or(answer.error.map(|e| format!("error: {e}")));
                vec![answer.id, answer.web, said.unwrap_or_default()]
            };
            let rows = answers.into_iter().map(row).collect();
            output::table(&["ID", "WEB", "LOGS"], rows)
        }
    }
}
