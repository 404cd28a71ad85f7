//! Health, leadership, metrics and version (port 8080), to run on a thread and runtime of its own, so that it
//! answers when the master is busy.
//!
//! `/livez` never fails because of the cluster: else an orchestrator would restart every master whenever the
//! quorum is lost. `/readyz` may; a standby is ready.

use std::{
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{Query, State},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use http::{StatusCode, header};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::{Deserialize, Serialize};

use crate::{
    metrics,
    runtime::handle::{MasterHandle, MasterStatus},
};

/// A loop that has not turned for this long is stuck; it turns several times a second.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);
/// How long a scrape is good for; far less than anybody's interval.
const SCRAPE_SHARED_FOR: Duration = Duration::from_millis(50);
/// The content type that Prometheus asks for.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Health, leadership, metrics and version of one master. Without `prometheus`, `/metrics` is 404.
pub fn router(handle: MasterHandle, prometheus: Option<PrometheusHandle>) -> Router {
    if prometheus.is_some() {
        metrics::describe();
    }
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/leader", get(leader))
        .route("/metrics", get(scrape))
        .route("/version", get(version))
        .with_state(Admin {
            handle,
            prometheus,
            scraped: Arc::default(),
        })
}

#[derive(Debug, Clone)]
struct Admin {
    handle: MasterHandle,
    prometheus: Option<PrometheusHandle>,
    scraped: Arc<Scraped>,
}

/// The newest scrape. Readers that come together share one rendering and one copy of it in memory, however slowly they
/// read.
#[derive(Debug, Default)]
struct Scraped {
    newest: Mutex<Option<(Instant, Bytes)>>,
}

/// One thing that must hold for a master to be ready.
#[derive(Debug, PartialEq, Eq)]
struct Check {
    name: &'static str,
    holds: bool,
    /// Why not, or what it is doing.
    detail: String,
}

/// `?verbose` shows every check, also those that hold; `?exclude=store,loop` leaves some out of the verdict.
#[derive(Debug, Deserialize)]
struct ReadyQuery {
    verbose: Option<String>,
    #[serde(default)]
    exclude: String,
}

/// The body of `/leader`.
#[derive(Debug, Serialize)]
struct LeaderBody {
    leader: Option<String>,
    epoch: u64,
}

/// The body of `/version`.
#[derive(Debug, Serialize)]
struct VersionBody {
    name: &'static str,
    version: &'static str,
    commit: &'static str,
}

// === impl Scraped ===

impl Scraped {
    /// The newest text, or what `render` makes now where that is older than [`SCRAPE_SHARED_FOR`].
    fn text(&self, render: impl FnOnce() -> String) -> Bytes {
        // Whole after a panic: it is set in one step.
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*newest {
            Some((at, text)) if at.elapsed() < SCRAPE_SHARED_FOR => text.clone(),
            Some(_) | None => {
                let text = Bytes::from(render());
                *newest = Some((Instant::now(), text.clone()));
                text
            }
        }
    }
}

async fn livez(State(admin): State<Admin>) -> Response {
    let silent = admin.handle.since_last_turn();
    match silent < STUCK_AFTER {
        true => (StatusCode::OK, "ok\n").into_response(),
        false => {
            let text = format!(
                "the master's loop has not turned for {} s\n",
                silent.as_secs()
            );
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

async fn readyz(State(admin): State<Admin>, Query(query): Query<ReadyQuery>) -> Response {
    let health = admin.handle.admin().health();
    let store = Check {
        name: "store",
        holds: health.ready,
        detail: health.detail,
    };
    let mut checks = vec![
        leader_check(&admin.handle.status()),
        store,
        loop_check(admin.handle.since_last_turn()),
    ];
    let excluded: Vec<&str> = query.exclude.split(',').collect();
    checks.retain(|check| !excluded.contains(&check.name));
    let (status, text) = judge(&checks, query.verbose.is_some());
    (status, text).into_response()
}

async fn leader(State(admin): State<Admin>) -> Response {
    let status = admin.handle.status();
    let body = Json(LeaderBody {
        leader: status.leader.as_ref().map(|leader| leader.id.clone()),
        epoch: status.epoch.0,
    });
    match status.leader {
        Some(leader) if leader.id == status.me.id => (StatusCode::OK, body).into_response(),
        Some(leader) if !leader.web.is_empty() => {
            let there = format!("http://{}/leader", leader.web);
            (
                StatusCode::TEMPORARY_REDIRECT,
                [(header::LOCATION, there)],
                body,
            )
                .into_response()
        }
        Some(_) | None => (StatusCode::SERVICE_UNAVAILABLE, body).into_response(),
    }
}

async fn scrape(State(admin): State<Admin>) -> Response {
    let Some(prometheus) = &admin.prometheus else {
        return (StatusCode::NOT_FOUND, "metrics are switched off\n").into_response();
    };
    let text = admin.scraped.text(|| {
        metrics::refresh(&admin.handle);
        prometheus.render()
    });
    let content_type = [(header::CONTENT_TYPE, METRICS_TYPE)];
    (StatusCode::OK, content_type, text).into_response()
}

async fn version() -> Json<VersionBody> {
    Json(VersionBody {
        name: "interrex",
        version: env!("CARGO_PKG_VERSION"),
        commit: interrex_proto::version::commit(),
    })
}

fn leader_check(status: &MasterStatus) -> Check {
    let detail = match &status.leader {
        Some(leader) if leader.id == status.me.id => {
            format!(
                "this master leads in epoch {} ({})",
                status.epoch, status.recovery
            )
        }
        Some(leader) => format!(
            "{} leads in epoch {}; this master is a standby",
            leader.id, status.epoch
        ),
        None => format!("no leader is known; this master is {}", status.role.name()),
    };
    Check {
        name: "leader",
        holds: status.leader.is_some(),
        detail,
    }
}

fn loop_check(silent: Duration) -> Check {
    let detail = format!("turned {} ms ago", silent.as_millis());
    Check {
        name: "loop",
        holds: silent < STUCK_AFTER,
        detail,
    }
}

/// 200 where every check holds. The text names those that do not, or all of them.
fn judge(checks: &[Check], verbose: bool) -> (StatusCode, String) {
    let ready = checks.iter().all(|check| check.holds);
    let mut text = String::new();
    for check in checks.iter().filter(|check| verbose || !check.holds) {
        let mark = if check.holds { "+" } else { "-" };
        // Writing to a String cannot fail.
        let _written = writeln!(text, "[{mark}] {}: {}", check.name, check.detail);
    }
    text.push_str(if ready { "ready\n" } else { "not ready\n" });
    match ready {
        true => (StatusCode::OK, text),
        false => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}

#[cfg(test)]
mod tests {
    use interrex_core::ids::Epoch;
    use interrex_persistence::election::MasterInfo;

    use super::*;

    #[test]
    fn a_standby_that_knows_the_leader_is_ready() {
        let status = MasterStatus {
            me: MasterInfo {
                id: "m1".into(),
                ..MasterInfo::default()
            },
            leader: Some(MasterInfo {
                id: "m2".into(),
                ..MasterInfo::default()
            }),
            epoch: Epoch(3),
            ..MasterStatus::default()
        };
        let check = leader_check(&status);
        assert!(check.holds);
        assert_eq!(
            check.detail,
            "m2 leads in epoch 3; this master is a standby"
        );
        assert_eq!(judge(&[check], false), (StatusCode::OK, "ready\n".into()));
    }

    #[test]
    fn what_is_missing_is_said_in_words() {
        let checks = [
            leader_check(&MasterStatus::default()),
            loop_check(Duration::from_millis(40)),
        ];
        let (status, text) = judge(&checks, false);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            text,
            "[-] leader: no leader is known; this master is standby\nnot ready\n"
        );
        let (_, verbose) = judge(&checks, true);
        assert!(verbose.contains("[+] loop: turned 40 ms ago"), "{verbose}");
    }
}
