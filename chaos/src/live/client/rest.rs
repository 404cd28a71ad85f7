//! Submissions over REST, as Spark's clients and `curl` make them: to one master after the other, under one id.

use std::{
    collections::BTreeMap,
    io,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use interrex_proto::v1::DriverSpec;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

/// How long one master may take. Longer than an election: a master that takes one up waits for the leader.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The header that names a submission.
const ID_HEADER: &str = "Idempotency-Key";
/// The header of an answer that was given before.
const REPLAYED_HEADER: &str = "Idempotent-Replayed";

/// Calls masters over REST.
#[derive(Debug)]
pub(super) struct RestClient {
    http: reqwest::Client,
    masters: Vec<String>,
    next: AtomicUsize,
}

/// What was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RestCreated {
    pub(super) driver: String,
    pub(super) replayed: bool,
}

/// Why nothing is known to have been created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RestFailed {
    pub(super) reason: String,
    /// It may have been created all the same.
    pub(super) unknown: bool,
    /// Another try may succeed.
    pub(super) retryable: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    success: Option<bool>,
    submission_id: Option<String>,
    message: Option<String>,
}

// === impl RestClient ===

impl RestClient {
    pub(super) fn new(masters: &[String]) -> io::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(CALL_TIMEOUT)
            .build()
            .map_err(io::Error::other)?;
        Ok(Self {
            http,
            masters: masters.to_vec(),
            next: AtomicUsize::new(0),
        })
    }

    /// Submits `spec` under `id`, to one master, which takes it to the leader; the next call goes to the next one.
    pub(super) async fn submit(
        &self,
        id: &str,
        spec: &DriverSpec,
    ) -> Result<RestCreated, RestFailed> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let master = turn.checked_rem(self.masters.len());
        let Some(master) = master.and_then(|turn| self.masters.get(turn)) else {
            return Err(RestFailed {
                reason: "no master is known".to_owned(),
                unknown: false,
                retryable: false,
            });
        };
        let sent = self
            .http
            .post(format!("http://{master}/v1/submissions/create"))
            .header(ID_HEADER, id)
            .body(body(spec).to_string())
            .send()
            .await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) => {
                return Err(RestFailed {
                    // Whatever has not been connected has not been sent.
                    unknown: !error.is_connect(),
                    reason: format!("{master}: {error}"),
                    retryable: true,
                });
            }
        };
        let status = answer.status();
        let replayed = answer.headers().contains_key(REPLAYED_HEADER);
        let text = answer.bytes().await.unwrap_or_default();
        judge(status, &text, replayed)
    }
}

fn judge(status: StatusCode, text: &[u8], replayed: bool) -> Result<RestCreated, RestFailed> {
    let answer: Option<Answer> = serde_json::from_slice(text).ok();
    if status == StatusCode::OK
        && let Some(answer) = &answer
        && answer.success == Some(true)
        && let Some(driver) = &answer.submission_id
    {
        return Ok(RestCreated {
            driver: driver.clone(),
            replayed,
        });
    }
    let message = answer.and_then(|answer| answer.message);
    let said = message.unwrap_or_else(|| String::from_utf8_lossy(text).into_owned());
    let refused = status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS;
    Err(RestFailed {
        reason: format!("{status}: {said}"),
        // What the server could not say may have happened, an answer that is cut short included.
        unknown: !status.is_client_error(),
        retryable: !refused,
    })
}

/// The request for `spec`, of which a run uses no more than this.
fn body(spec: &DriverSpec) -> Value {
    let line = spec.command.clone().unwrap_or_default();
    let command: Vec<String> = std::iter::once(line.program).chain(line.args).collect();
    let properties = BTreeMap::from([
        ("spark.app.name", spec.name.clone()),
        ("spark.driver.cores", spec.cores.to_string()),
        ("spark.driver.memory", format!("{}m", spec.memory_mib)),
        ("spark.driver.supervise", spec.supervise.to_string()),
        ("spark.interrex.atMostOnce", spec.at_most_once.to_string()),
    ]);
    json!({
        "action": "CreateSubmissionRequest", "command": command, "environmentVariables": line.env,
        "sparkProperties": properties,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::work::{JobKind, Site};

    #[test]
    fn what_an_answer_means_is_never_more_than_it_says() {
        let judged = |status, text: &str| judge(status, text.as_bytes(), false);
        let created = judged(
            StatusCode::OK,
            r#"{"success":true,"submissionId":"driver-1"}"#,
        );
        assert_eq!(created.unwrap().driver, "driver-1");
        for (status, text, unknown, retryable) in [
            (
                StatusCode::CONFLICT,
                r#"{"message":"another body"}"#,
                false,
                false,
            ),
            (StatusCode::TOO_MANY_REQUESTS, "", false, true),
            (
                StatusCode::SERVICE_UNAVAILABLE,
                r#"{"message":"no leader"}"#,
                true,
                true,
            ),
            (StatusCode::OK, r#"{"success":tr"#, true, true),
        ] {
            let failed = judged(status, text).unwrap_err();
            assert_eq!(
                (failed.unknown, failed.retryable),
                (unknown, retryable),
                "{failed:?}"
            );
        }
    }

    #[test]
    fn a_job_is_the_same_over_rest() {
        let job = JobKind {
            at_most_once: true,
            cores: 2,
            ..JobKind::PLAIN
        };
        let site = Site {
            program: "/p".into(),
            ledger: "/l".into(),
            run: "r".to_owned(),
        };
        let body = body(&job.spec(&site, "s1"));
        assert_eq!(body["command"][0], "/p");
        assert_eq!(body["sparkProperties"]["spark.driver.cores"], "2");
        assert_eq!(body["sparkProperties"]["spark.interrex.atMostOnce"], "true");
        assert_eq!(body["sparkProperties"]["spark.driver.supervise"], "false");
    }
}
