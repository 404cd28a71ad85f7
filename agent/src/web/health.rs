//! `/readyz` and `/metrics`.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{Shared, WebError};
use crate::worker::view::WorkerView;

/// Ready: a leader has taken this agent, its state is on disk, and there is room for new work. `?verbose` lists every check.
pub(super) async fn readyz(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
) -> Result<Response, WebError> {
    let view = shared.view().await?;
    let checks = [
        ("attached", attached(&view)),
        ("disk", shared.site.board.disk_trouble().map_or(Ok(()), Err)),
        ("accepting", view.not_accepting.clone().map_or(Ok(()), Err)),
        (
            "running",
            if view.stopping {
                Err("the agent is stopping".to_owned())
            } else {
                Ok(())
            },
        ),
    ];
    let verbose = query.is_some_and(|query| query.split('&').any(|name| name == "verbose"));
    let ready = checks.iter().all(|(_, check)| check.is_ok());
    let mut text = String::new();
    for (name, check) in &checks {
        match check {
            Ok(()) if verbose => text.push_str(&format!("[+] {name}: ok\n")),
            Ok(()) => {}
            Err(reason) => text.push_str(&format!("[-] {name}: {reason}\n")),
        }
    }
    text.push_str(if ready { "ready\n" } else { "not ready\n" });
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    Ok((status, text).into_response())
}

fn attached(view: &WorkerView) -> Result<(), String> {
    if view.leader.is_some() {
        return Ok(());
    }
    let refusals: Vec<String> = view
        .refusals
        .iter()
        .map(|(master, reason)| format!("{master} refused: {reason}"))
        .collect();
    if refusals.is_empty() {
        Err("no leader has taken this agent yet; it keeps trying".to_owned())
    } else {
        Err(refusals.join("; "))
    }
}

/// The recorder's metrics in Prometheus' text format.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Response, WebError> {
    let Some(handle) = shared.site.prometheus.clone() else {
        return Err(WebError::new(
            StatusCode::NOT_FOUND,
            "metrics are off: no recorder installed",
        ));
    };
    let text = tokio::task::spawn_blocking(move || {
        shared.refresh();
        handle.render()
    })
    .await
    .map_err(|error| WebError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let content_type = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    Ok((content_type, text).into_response())
}
