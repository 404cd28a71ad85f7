//! Everything that is stored → entities to recover from, and what had to be left out.

use std::sync::Arc;

use bytes::Bytes;
use interrex_core::{
    event::Event,
    state::{cluster::RecoveredEntities, meta::Meta},
};
use interrex_persistence::record::{RecordKey, RecordKind, Recovered};

use crate::records::{
    APPLICATION, DRIVER, EVENTS, EXECUTOR, META, META_COPY_ID, META_ID, NewerFormat, REQUEST,
    RecordError, SET_ASIDE, WORKER, entities, envelope::open, events, kind_name, shown_key,
};

/// What a store holds.
#[derive(Debug)]
pub struct Decoded {
    /// What can be used.
    pub entities: RecoveredEntities,
    /// What cannot; it stays in the store untouched.
    pub quarantined: Vec<Quarantined>,
}

/// A record that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Which.
    pub key: RecordKey,
    /// Its bytes.
    pub value: Bytes,
    /// Why.
    pub reason: RecordError,
}

/// Decodes every record; a bad one is quarantined. Whoever leads over them calls [`Quarantined::report`].
///
/// # Errors
/// [`NewerFormat`]: this master must not lead until it has been upgraded.
pub fn decode_all(recovered: Recovered) -> Result<Decoded, NewerFormat> {
    let mut decoder = Decoder::default();
    for (key, value) in recovered.records {
        match decoder.take(&key, &value) {
            Ok(()) => {}
            Err(RecordError::Newer { found }) => return Err(NewerFormat { key, found }),
            Err(reason) => decoder.quarantined.push(Quarantined { key, value, reason }),
        }
    }
    Ok(decoder.finish())
}

#[derive(Debug, Default)]
struct Decoder {
    entities: RecoveredEntities,
    quarantined: Vec<Quarantined>,
    metas: Vec<Meta>,
    records: usize,
}

// === impl Decoder ===

impl Decoder {
    fn take(&mut self, key: &RecordKey, value: &Bytes) -> Result<(), RecordError> {
        self.records += 1;
        let entities = &mut self.entities;
        match key.kind {
            META => {
                if !matches!(&*key.id, META_ID | META_COPY_ID) {
                    return Err(RecordError::WrongKey {
                        found: key.id.to_string(),
                    });
                }
                self.metas.push(entities::meta(open(value)?));
            }
            WORKER => {
                let worker = entities::worker(open(value)?)?;
                check(key, worker.id.as_str())?;
                entities.workers.push(worker);
            }
            APPLICATION => {
                let app = entities::app(open(value)?)?;
                check(key, app.id.as_str())?;
                entities.apps.push(app);
            }
            DRIVER => {
                let driver = entities::driver(open(value)?)?;
                check(key, driver.id.as_str())?;
                entities.drivers.push(driver);
            }
            EXECUTOR => {
                let executor = entities::executor(open(value)?)?;
                check(key, &entities::executor_key(&executor.app, executor.id))?;
                entities.executors.push(executor);
            }
            REQUEST => {
                let request = entities::request(open(value)?)?;
                check(key, request.id.as_str())?;
                entities.requests.push(request);
            }
            EVENTS => {
                // Before anything can fail: the numbers of a record that is lost are used, too.
                let next = events::next_after(&key.id);
                entities.next_event = entities.next_event.max(next);
                let record = events::record(open(value)?)?;
                check(key, &events::key_of(&record))?;
                entities.events.push(record);
            }
            SET_ASIDE => return Err(RecordError::SetAside),
            RecordKind(kind) => return Err(RecordError::Kind(kind)),
        }
        Ok(())
    }

    fn finish(mut self) -> Decoded {
        // Both copies are written in one batch, so they differ only when one is damaged and went unnoticed.
        let meta = self
            .metas
            .drain(..)
            .max_by_key(|meta| (meta.next_queue, meta.next_driver));
        if meta.is_none() && self.records > 0 {
            // The counters are repaired in recovery: they never fall below a number that is in use.
            tracing::error!(
                records = self.records,
                "both copies of the cluster's identity are unusable: a new cluster id is minted, which agents \
                 of the old one will refuse"
            );
        }
        self.entities.meta = meta.unwrap_or_default();
        let first = |record: &Arc<[Event]>| record.first().map(|event| event.sequence);
        self.entities.events.sort_by_key(first);
        Decoded {
            entities: self.entities,
            quarantined: self.quarantined,
        }
    }
}

fn check(key: &RecordKey, named: &str) -> Result<(), RecordError> {
    if &*key.id == named {
        Ok(())
    } else {
        Err(RecordError::WrongKey {
            found: named.to_owned(),
        })
    }
}

impl Quarantined {
    /// Logs it, and counts it.
    pub fn report(&self) {
        tracing::warn!(
            event = "record_quarantined",
            kind = kind_name(self.key.kind),
            id = %self.key.id,
            reason = %self.reason,
            "record quarantined: it stays in the store and is not used",
        );
        let kind = kind_name(self.key.kind);
        metrics::counter!("interrex_records_quarantined_total", "kind" => kind).increment(1);
    }

    /// For people.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}: {}", shown_key(&self.key), self.reason)
    }
}
