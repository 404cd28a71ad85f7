//! `interrex logs`: a master knows where something runs, the agent there has its output.
//!
//! Following survives what happens to a driver: before it starts it waits, when the agent is unreachable it
//! asks again where the driver is. A new attempt on the same worker goes on in the same file; one on another
//! worker is shown from its beginning. What runs on one of Spark's own workers is shown by that alone: it is said where.

use std::time::{Duration, Instant};

use futures::StreamExt;
use interrex_client::control::ControlClient;
use interrex_proto::v1::StatusResponse;
use tokio::time::timeout;

use crate::{
    connect::Connect,
    exit::{Done, Exit, Failure},
    jobs, output,
};

/// How often to ask where a driver is that has no place yet.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// How long connecting to an agent may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes asked for at once when not following.
const SLICE_BYTES: u64 = 4 << 20;
/// How long an agent may take until it begins to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may bring nothing before it is looked whether all is as it was: a machine that is gone says
/// nothing at all.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an agent may be unreachable before its output is given up.
const AGENT_DEADLINE: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  interrex logs driver-20260201143200-0000
  interrex logs -f nightly-2026-02-01                # waits for its start, ends with it
  interrex logs app-20260201143200-0000/1 --stderr   # an executor";

/// Options of `interrex logs`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LogsArgs {
    /// A driver id or submission id, or APP/EXECUTOR
    #[arg(value_name = "ID[/EXECUTOR]")]
    id: String,
    /// Print what is written from now on, too, until it is over
    #[arg(short, long)]
    follow: bool,
    /// Print what was written to stderr
    #[arg(long)]
    stderr: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Where some output is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// The agent's address.
    web: String,
    /// The path below `/logs/`.
    path: String,
}

/// Something whose output is asked for.
#[derive(Debug)]
struct Source {
    id: String,
    executor: Option<u32>,
    stream: &'static str,
}

/// What the cluster says about a [`Source`].
#[derive(Debug)]
struct Seen {
    place: Option<Place>,
    /// Where one of Spark's own workers shows it, but for the name of the output; else empty.
    log_page: String,
    over: bool,
    state: String,
}

/// How reading an output ended.
enum Read {
    /// The agent said that this is all.
    End,
    /// The connection broke or the agent did not answer.
    Broken(String),
    /// The agent has no such output (yet).
    Missing,
}

/// Runs `interrex logs`.
pub(crate) async fn run(args: LogsArgs) -> Done {
    let source = Source::parse(&args.id, args.stderr)?;
    let client = args.connect.client()?;
    let http = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .no_proxy()
        .build();
    let http = http.map_err(|e| Failure::failed(format!("starting the HTTP client: {e}")))?;
    let mut reader = Reader {
        http,
        follow: args.follow,
        place: None,
        offset: 0,
        broken_at: None,
    };
    loop {
        let seen = source.look(&client).await?;
        if !seen.log_page.is_empty() {
            return Err(source.is_elsewhere(&seen.log_page));
        }
        let Some(place) = seen.place.clone() else {
            if seen.over || !args.follow {
                return Err(Failure::new(
                    Exit::NotFoundOrConflict,
                    format!("{} is {} and has written nothing", args.id, seen.state),
                ));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
            continue;
        };
        match reader.read(place).await? {
            Read::End if !args.follow || seen.over => return Ok(Exit::Ok),
            Read::Missing if !args.follow => {
                return Err(Failure::new(
                    Exit::NotFoundOrConflict,
                    format!("{}: the agent has no {} of it", args.id, source.stream),
                ));
            }
            Read::Missing if seen.over => return Ok(Exit::Ok),
            Read::Broken(why) if reader.gave_up() => {
                return Err(Failure::failed(format!("the agent does not answer: {why}")));
            }
            // It ended there, or moved: the next look tells.
            Read::End | Read::Missing | Read::Broken(_) => {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
    }
}

/// Reads one output after another, and knows how far it has come.
#[derive(Debug)]
struct Reader {
    http: reqwest::Client,
    follow: bool,
    place: Option<Place>,
    offset: u64,
    broken_at: Option<Instant>,
}

// === impl Source ===

impl Source {
    fn parse(text: &str, stderr: bool) -> Result<Self, Failure> {
        let stream = if stderr { "stderr" } else { "stdout" };
        let (id, executor) = match text.split_once('/') {
            None => (text, None),
            Some((id, number)) => {
                let wrong = |_| Failure::usage(format!("`{number}` is not an executor's number"));
                (id, Some(number.parse().map_err(wrong)?))
            }
        };
        Ok(Self {
            id: id.to_owned(),
            executor,
            stream,
        })
    }

    /// No agent has it.
    fn is_elsewhere(&self, log_page: &str) -> Failure {
        let what = match self.executor {
            None => self.id.clone(),
            Some(number) => format!("{}/{number}", self.id),
        };
        let text = format!(
            "{what} is on one of Spark's own workers, which alone shows its logs: {log_page}{}",
            self.stream
        );
        Failure::new(Exit::NotFoundOrConflict, text)
    }

    async fn look(&self, client: &ControlClient) -> Result<Seen, Failure> {
        let status = client.status(&self.id, false).await?;
        match self.executor {
            None => self.driver(&status),
            Some(number) => self.executor(&status, number),
        }
    }

    fn driver(&self, status: &StatusResponse) -> Result<Seen, Failure> {
        let Some(driver) = &status.driver else {
            let id = &self.id;
            return Err(Failure::usage(format!(
                "{id} is an application; name an executor, such as {id}/0"
            )));
        };
        let place = (!driver.worker_web.is_empty()).then(|| Place {
            web: driver.worker_web.clone(),
            path: format!("driver/{}/{}", driver.id, self.stream),
        });
        Ok(Seen {
            place,
            log_page: driver.log_page.clone(),
            over: status.over,
            state: driver.state.clone(),
        })
    }

    fn executor(&self, status: &StatusResponse, number: u32) -> Result<Seen, Failure> {
        let Some(app) = &status.application else {
            return Err(Failure::usage(format!(
                "{} is a driver and has no executors",
                self.id
            )));
        };
        let Some(executor) = app.executors.iter().find(|e| e.executor_id == number) else {
            let state = jobs::state(status).to_owned();
            return Ok(Seen {
                place: None,
                log_page: String::new(),
                over: status.over,
                state,
            });
        };
        let place = (!executor.worker_web.is_empty()).then(|| Place {
            web: executor.worker_web.clone(),
            path: format!("app/{}/{number}/{}", app.id, self.stream),
        });
        let running = matches!(executor.state.as_str(), "LAUNCHING" | "RUNNING" | "KILLING");
        Ok(Seen {
            place,
            log_page: executor.log_page.clone(),
            over: !running,
            state: executor.state.clone(),
        })
    }
}

// === impl Reader ===

impl Reader {
    /// Copies the output at `place` to stdout, from where the last reading of the same place stopped.
    async fn read(&mut self, place: Place) -> Result<Read, Failure> {
        if self.place.as_ref() != Some(&place) {
            if self.place.is_some() {
                output::say(&format!("--- now on {}", place.web));
            }
            self.offset = 0;
            self.broken_at = None;
            self.place = Some(place.clone());
        }
        loop {
            let before = self.offset;
            let read = self.read_slice(&place).await?;
            // A slice is bounded; one without a byte is the end of the file.
            if self.follow || self.offset == before || !matches!(read, Read::End) {
                return Ok(read);
            }
        }
    }

    async fn read_slice(&mut self, place: &Place) -> Result<Read, Failure> {
        let how = if self.follow {
            "follow=true".to_owned()
        } else {
            format!("limit={SLICE_BYTES}")
        };
        let (web, path, offset) = (&place.web, &place.path, self.offset);
        let url = format!("http://{web}/logs/{path}?offset={offset}&{how}");
        let asked = timeout(ANSWER_TIMEOUT, self.http.get(url).send());
        let response = match asked.await {
            Ok(Ok(response)) => response,
            Ok(Err(e)) => return Ok(self.broken(crate::exit::chain(&e))),
            Err(_elapsed) => return Ok(self.broken(format!("{web}: silence"))),
        };
        if response.status() == reqwest::StatusCode::SERVICE_UNAVAILABLE {
            return Ok(self.broken(format!("{web} is busy")));
        }
        if response.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(Read::Missing);
        }
        if !response.status().is_success() {
            return Err(Failure::failed(format!(
                "{} answered {}",
                place.web,
                response.status()
            )));
        }
        self.broken_at = None;
        let mut chunks = response.bytes_stream();
        loop {
            match timeout(IDLE_TIMEOUT, chunks.next()).await {
                Ok(Some(Ok(chunk))) => {
                    self.offset += u64::try_from(chunk.len()).unwrap_or_default();
                    if !output::stream(&chunk)? {
                        // Nobody reads on (`| head`): that is all.
                        return Err(Failure::new(Exit::Ok, ""));
                    }
                }
                Ok(Some(Err(e))) => return Ok(self.broken(crate::exit::chain(&e))),
                Ok(None) => return Ok(Read::End),
                Err(_elapsed) => return Ok(self.broken(format!("{web}: silence"))),
            }
        }
    }

    fn broken(&mut self, why: String) -> Read {
        self.broken_at.get_or_insert_with(Instant::now);
        Read::Broken(why)
    }

    fn gave_up(&self) -> bool {
        !self.follow
            || self
                .broken_at
                .is_some_and(|at| at.elapsed() >= AGENT_DEADLINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_of_spark_has_is_said_to_be_there() {
        let source = Source::parse("app-0/3", true).unwrap();
        let page = "http://h1:8081/logPage/?appId=app-0&executorId=3&logType=";
        let refused = source.is_elsewhere(page);
        assert_eq!(refused.exit, Exit::NotFoundOrConflict);
        let end = format!(
            "app-0/3 is on one of Spark's own workers, which alone shows its logs: {page}stderr"
        );
        assert_eq!(refused.message, end);
    }

    #[test]
    fn an_executor_is_named_behind_its_application() {
        let source = Source::parse("app-0/3", true).unwrap();
        assert_eq!(
            (source.id.as_str(), source.executor, source.stream),
            ("app-0", Some(3), "stderr")
        );
        assert_eq!(Source::parse("driver-0", false).unwrap().executor, None);
        assert_eq!(
            Source::parse("app-0/x", false).unwrap_err().exit,
            Exit::Usage
        );
    }
}
