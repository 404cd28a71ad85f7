//! A log as a page: its end, which the script then follows, or a part of its past.

use std::sync::Arc;

use askama::Template;
use axum::{
    Json,
    body::to_bytes,
    extract::{Path, Query, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use interrex_web::{
    answer,
    format::{count, plain},
    frame::Frame,
    marks::{Pill, path},
};
use serde::{Deserialize, Serialize};

use super::{
    Shared, WebError, logs,
    page::{broken, frame, log_page, name_of},
};
use crate::process::LogOwner;

/// What a page shows of a log, in bytes.
const SLICE_BYTES: u64 = 64 << 10;

#[derive(Template)]
#[template(path = "agent_log.html")]
struct LogPage {
    frame: Frame,
    title: String,
    state: Pill,
    tabs: Vec<(&'static str, String, bool)>,
    words: String,
    text: String,
    follow: Option<String>,
    offset: u64,
    worker_id: String,
    place: String,
    earlier: Option<String>,
    end: String,
    over: bool,
}

/// Which part is wanted; without one, the end.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    offset: Option<u64>,
}

/// For the script: whether more may come.
#[derive(Debug, Serialize)]
struct Place {
    over: bool,
    state: &'static str,
}

pub(super) async fn driver(
    State(shared): State<Arc<Shared>>,
    Path((id, output)): Path<(String, String)>,
    Query(asked): Query<Asked>,
) -> Result<Response, WebError> {
    show(shared, LogOwner::Driver(id), &output, asked).await
}

pub(super) async fn executor(
    State(shared): State<Arc<Shared>>,
    Path((app, id, output)): Path<(String, u32, String)>,
    Query(asked): Query<Asked>,
) -> Result<Response, WebError> {
    show(shared, LogOwner::Executor(app, id), &output, asked).await
}

async fn show(
    shared: Arc<Shared>,
    owner: LogOwner,
    output: &str,
    asked: Asked,
) -> Result<Response, WebError> {
    let over = !shared.site.board.is_live(&owner);
    if output == "place" {
        let state = if over { "ended" } else { "running" };
        return Ok(Json(Place { over, state }).into_response());
    }
    let now = interrex_proto::clock::now_ms();
    let view = shared.view().await?;
    let page = log_page(&owner);
    let raw = match &owner {
        LogOwner::Driver(id) => path(&["logs", "driver", id, output]),
        LogOwner::Executor(app, id) => path(&["logs", "app", app, &id.to_string(), output]),
    };
    let title = name_of(&owner);
    let from = asked.offset.and_then(|offset| i64::try_from(offset).ok());
    let from = from.unwrap_or(-(SLICE_BYTES as i64));
    let slice = logs::slice(shared, owner, output, from, SLICE_BYTES).await?;
    let begin = logs::begin_of(&slice);
    let bytes = to_bytes(slice.into_body(), SLICE_BYTES as usize).await;
    let bytes = bytes
        .map_err(|error| WebError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let length = bytes.len() as u64;
    let tab = |name| (name, format!("{page}/{name}"), output == name);
    let log = LogPage {
        frame: Frame {
            live: false,
            ..frame(&view, now, false)
        },
        state: Pill::of(if over { "FINISHED" } else { "RUNNING" }),
        tabs: vec![tab("stdout"), tab("stderr")],
        words: match length {
            0 if begin == 0 => "Nothing has been written yet.".to_owned(),
            length => format!("Bytes {} to {}.", count(begin), count(begin + length)),
        },
        text: plain(&String::from_utf8_lossy(&bytes)),
        follow: asked.offset.is_none().then(|| format!("{raw}?follow=true")),
        offset: begin + length,
        worker_id: String::new(),
        place: format!("{page}/place"),
        earlier: (begin > 0).then(|| {
            format!(
                "{page}/{output}?offset={}",
                begin.saturating_sub(SLICE_BYTES)
            )
        }),
        end: format!("{page}/{output}"),
        over,
        title,
    };
    let html = log.render().map_err(|error| broken(&error))?;
    Ok(answer::page(StatusCode::OK, html, &[]))
}
