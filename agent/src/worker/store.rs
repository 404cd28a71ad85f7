//! The task that writes results to disk, so that a slow disk delays no heartbeat and no order.

use std::{path::PathBuf, sync::Arc};

use interrex_proto::v1::WorkReport;
use tokio::sync::mpsc;

use crate::{
    outbox::{self, store::OutboxStore},
    process::record,
    worker::Event,
};

/// Most changes that wait for the disk; further ones are refused, and tried again by the machine.
pub(crate) const CHANGES_MAX: usize = 1_024;
/// Most changes in one visit to the disk.
const BATCH_MAX: usize = 64;

/// One change of what is on disk.
#[derive(Debug)]
pub(crate) enum Change {
    /// Write a result, and then remove the record of its attempt.
    Put(Box<WorkReport>),
    /// Remove a result.
    Forget(u64),
}

/// Carries changes out in order until `changes` is closed; tells `done` about every `Put`.
pub(crate) async fn run(
    store: OutboxStore,
    running_dir: PathBuf,
    mut changes: mpsc::Receiver<Change>,
    done: mpsc::Sender<Event>,
) {
    let disk = Arc::new((store, running_dir));
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while changes.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let (disk, changes) = (Arc::clone(&disk), std::mem::take(&mut batch));
        let outcome = tokio::task::spawn_blocking(move || {
            changes
                .iter()
                .filter_map(|change| apply(&disk.0, &disk.1, change))
                .collect::<Vec<_>>()
        });
        for event in outcome.await.unwrap_or_default() {
            if done.send(event).await.is_err() {
                return;
            }
        }
    }
}

fn apply(store: &OutboxStore, running_dir: &std::path::Path, change: &Change) -> Option<Event> {
    match change {
        Change::Put(report) => {
            let sequence = report.sequence;
            if let Err(error) = store.put(report) {
                tracing::error!(sequence, %error, "a result could not be written to disk");
                return Some(Event::Stored {
                    sequence,
                    stored: false,
                });
            }
            let key = report.body.as_ref().map(outbox::key_of);
            if let Some(path) = key.and_then(|key| record::path_of(running_dir, &key).ok())
                && let Err(error) = record::remove(&path)
            {
                tracing::warn!(path = %path.display(), %error, "the record of an attempt could not be removed");
            }
            Some(Event::Stored {
                sequence,
                stored: true,
            })
        }
        Change::Forget(sequence) => {
            if let Err(error) = store.remove(*sequence) {
                tracing::warn!(sequence, %error, "an acknowledged result could not be removed");
            }
            None
        }
    }
}
