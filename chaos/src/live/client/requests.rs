//! Requests with their invocation and outcome in the history, repeated under the same id until they have one.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use interrex_client::control::{ClientError, ClientOptions, ControlClient};
use interrex_proto::v1::{DriverSpec, DriverStatus};
use serde_json::json;

use super::{
    Notes,
    rest::{RestClient, RestCreated},
};
use crate::{
    history::{Kind, Op},
    live::work::{JobKind, Site},
};

/// How long the client library tries by itself before we repeat the request.
const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// The pause before a request is repeated.
const PAUSE: Duration = Duration::from_millis(200);
/// Each try over REST is a request of its own, and the library that waits for a leader is not there: without longer pauses,
/// clients would keep a busy machine from electing one.
const REST_PAUSE_MAX: Duration = Duration::from_secs(2);
/// The longest that a request is repeated; then its outcome is unknown. Longer than any fault of a run lasts.
pub(in crate::live) const GIVE_UP_AFTER: Duration = Duration::from_secs(90);
/// How long a read may take before it is given up: nobody waits for a read.
const READ_DEADLINE: Duration = Duration::from_secs(5);

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::live) enum Told {
    /// It was done.
    Ok,
    /// It was surely not done.
    Fail,
    /// Nobody knows.
    Unknown,
}

/// Makes requests and writes them down.
#[derive(Debug, Clone)]
pub(in crate::live) struct Requests {
    client: ControlClient,
    /// Where submissions go, if not to the other.
    rest: Option<Arc<RestClient>>,
    notes: Notes,
    site: Site,
}

// === impl Requests ===

impl Requests {
    pub(in crate::live) fn new(masters: &[String], notes: Notes, site: Site) -> io::Result<Self> {
        let mut options = ClientOptions::new(masters.to_vec());
        options.total_deadline = CALL_DEADLINE;
        let client = ControlClient::new(options).map_err(io::Error::other)?;
        Ok(Self {
            client,
            rest: None,
            notes,
            site,
        })
    }

    /// The same, but submits over REST at these addresses of masters. Everything else stays as it was.
    pub(super) fn over_rest(mut self, masters: &[String]) -> io::Result<Self> {
        self.rest = Some(Arc::new(RestClient::new(masters)?));
        Ok(self)
    }

    /// Says that a submission is about to be made.
    pub(in crate::live) fn begin_submit(&self, id: &str, job: &JobKind) -> io::Result<()> {
        self.notes
            .note(Kind::Invoke, Op::Submit, id, None, job.told())
    }

    /// Submits a job under `id`, until it is told what became of it.
    pub(in crate::live) async fn submit(&self, id: &str, job: &JobKind) -> io::Result<Told> {
        self.begin_submit(id, job)?;
        self.submit_begun(id, job).await
    }

    /// The same, when it has been said.
    pub(in crate::live) async fn submit_begun(&self, id: &str, job: &JobKind) -> io::Result<Told> {
        let spec = job.spec(&self.site, id);
        if let Some(rest) = &self.rest {
            return self.submit_over(rest, id, &spec).await;
        }
        let answer = persistently(|| self.client.submit(id, spec.clone())).await;
        match answer {
            Ok(answer) => {
                let driver = answer.driver.unwrap_or_default();
                let value = json!({
                    "driver": driver.id, "state": driver.state, "replayed": answer.replayed,
                });
                let attempt = Some(driver.attempt);
                self.notes.note(Kind::Ok, Op::Submit, id, attempt, value)?;
                Ok(Told::Ok)
            }
            Err(why) => self.not_done(Op::Submit, id, &why),
        }
    }

    async fn submit_over(
        &self,
        rest: &RestClient,
        id: &str,
        spec: &DriverSpec,
    ) -> io::Result<Told> {
        let began = Instant::now();
        let (mut unknown, mut pause) = (false, PAUSE);
        let failed = loop {
            match rest.submit(id, spec).await {
                Ok(RestCreated { driver, replayed }) => {
                    let value = json!({"driver": driver, "replayed": replayed, "over": "rest"});
                    self.notes.note(Kind::Ok, Op::Submit, id, None, value)?;
                    return Ok(Told::Ok);
                }
                Err(failed) => {
                    unknown |= failed.unknown;
                    if !failed.retryable || began.elapsed() >= GIVE_UP_AFTER {
                        break failed;
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(REST_PAUSE_MAX);
        };
        self.given_up(Op::Submit, id, unknown, &failed.reason)
    }

    /// Kills what was submitted under `id`.
    pub(in crate::live) async fn kill(&self, id: &str) -> io::Result<Told> {
        self.notes
            .note(Kind::Invoke, Op::Kill, id, None, json!(null))?;
        let request = format!("kill-{id}");
        match persistently(|| self.client.kill(&request, id)).await {
            Ok(answer) => {
                let value = json!({"state": answer.state, "already_over": answer.already_over});
                self.notes.note(Kind::Ok, Op::Kill, id, None, value)?;
                Ok(Told::Ok)
            }
            Err(why) => self.not_done(Op::Kill, id, &why),
        }
    }

    /// Reads the status of what was submitted under `id`, once.
    pub(in crate::live) async fn read(&self, id: &str) -> io::Result<Option<DriverStatus>> {
        self.notes
            .note(Kind::Invoke, Op::Status, id, None, json!(null))?;
        let answer = tokio::time::timeout(READ_DEADLINE, self.client.status(id, false)).await;
        let (kind, driver, value) = match answer {
            Ok(Ok(status)) => {
                let driver = status.driver.unwrap_or_default();
                let value = json!({
                    "driver": driver.id, "state": driver.state, "worker": driver.worker_id,
                });
                (Kind::Ok, Some(driver), value)
            }
            Ok(Err(ClientError::NotFound { .. })) => {
                (Kind::Ok, None, json!({"state": "NOT_FOUND"}))
            }
            // A read without an answer tells nothing, whatever the reason.
            Ok(Err(error)) => (Kind::Fail, None, json!({"reason": error.to_string()})),
            Err(_) => (Kind::Fail, None, json!({"reason": "no answer in time"})),
        };
        let attempt = driver.as_ref().map(|driver| driver.attempt);
        self.notes.note(kind, Op::Status, id, attempt, value)?;
        Ok(driver)
    }

    fn not_done(&self, op: Op, id: &str, why: &NotDone) -> io::Result<Told> {
        self.given_up(op, id, why.unknown, &why.error.to_string())
    }

    fn given_up(&self, op: Op, id: &str, unknown: bool, reason: &str) -> io::Result<Told> {
        let (kind, told) = if unknown {
            (Kind::Unknown, Told::Unknown)
        } else {
            (Kind::Fail, Told::Fail)
        };
        let value = json!({"reason": reason});
        self.notes.note(kind, op, id, None, value)?;
        Ok(told)
    }
}

/// Why a request was given up.
#[derive(Debug)]
struct NotDone {
    error: ClientError,
    /// One of its tries may have had its effect.
    unknown: bool,
}

/// Repeats a request until it is answered, refused, or given up.
async fn persistently<T, F>(mut request: impl FnMut() -> F) -> Result<T, NotDone>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let began = Instant::now();
    let mut unknown = false;
    loop {
        let error = match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if let ClientError::Timeout {
            outcome_unknown: true,
            ..
        } = error
        {
            unknown = true;
        }
        if !error.retryable() || began.elapsed() >= GIVE_UP_AFTER {
            return Err(NotDone { error, unknown });
        }
        tokio::time::sleep(PAUSE).await;
    }
}
