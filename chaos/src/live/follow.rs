//! Somebody who follows the event log for the whole run, from one leader to the next, and writes down what comes.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use interrex_client::control::{ControlClient, EventNews, EventStart};
use interrex_proto::v1::{Event, EventFilter};
use serde_json::json;
use tokio::task::JoinHandle;

use super::journal::Journal;
use crate::history::Op;

/// The pause after a stream that could not be opened.
const PAUSE: Duration = Duration::from_millis(200);

/// Follows from the first event on, as `name`, until it is aborted.
pub(super) fn follow(
    name: &'static str,
    client: ControlClient,
    journal: Journal,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut stream = client.watch_events(EventStart::Oldest, EventFilter::default());
        loop {
            match stream.next().await {
                Ok(EventNews::Events { events, .. }) => {
                    for event in &events {
                        let value = json!({
                            "sequence": event.sequence, "digest": digest(event), "kind": event.kind,
                            "subject": event.subject,
                        });
                        journal.info(name, Op::Event, "", value);
                    }
                }
                Ok(EventNews::Gap { .. }) => {
                    journal.info(name, Op::Event, "", json!({"relist": true}));
                }
                Err(error) => {
                    tracing::debug!(%error, "the event log cannot be followed now");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    })
}

/// The content of an event in a number that JSON holds exactly.
fn digest(event: &Event) -> u64 {
    let mut hasher = DefaultHasher::new();
    (event.sequence, event.epoch, event.at_ms, event.attempt).hash(&mut hasher);
    for text in [
        &event.kind,
        &event.subject,
        &event.worker_id,
        &event.who,
        &event.why,
    ] {
        text.hash(&mut hasher);
    }
    hasher.finish() >> 12
}
