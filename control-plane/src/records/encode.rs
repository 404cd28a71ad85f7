//! Mutations of the core → mutations of the store.

use std::collections::BTreeSet;

use interrex_core::transition::Mutation;
use interrex_persistence::record::{self, RecordKey};

use crate::records::{
    APPLICATION, DRIVER, EVENTS, EXECUTOR, META, META_COPY_ID, META_ID, REQUEST, WORKER, entities,
    envelope::seal, events, key,
};

/// The mutations of one commit, in order. A batch is stored as a whole, so of several changes of one record only
/// the last is kept: counters change with every submission, and are written once a batch.
#[must_use]
pub fn encode_batch(mutations: &[Mutation]) -> Vec<record::Mutation> {
    let mut seen = BTreeSet::new();
    let mut encoded = Vec::with_capacity(mutations.len() + 1);
    for mutation in mutations.iter().rev() {
        let key = key_of(mutation);
        if seen.insert(key.clone()) {
            encode(mutation, key, &mut encoded);
        }
    }
    encoded.reverse();
    encoded
}

fn encode(mutation: &Mutation, key: RecordKey, into: &mut Vec<record::Mutation>) {
    let value = match mutation {
        Mutation::PutMeta(meta) => {
            let value = seal(&entities::meta_message(meta));
            let copy = self::key(META, META_COPY_ID);
            into.push(record::Mutation::Put {
                key: copy,
                value: value.clone(),
            });
            value
        }
        Mutation::PutWorker(worker) => seal(&entities::worker_message(worker)),
        Mutation::PutApp(app) => seal(&entities::app_message(app)),
        Mutation::PutDriver(driver) => seal(&entities::driver_message(driver)),
        Mutation::PutExecutor(executor) => seal(&entities::executor_message(executor)),
        Mutation::PutRequest(request) => seal(&entities::request_message(request)),
        Mutation::PutEvents(record) => seal(&events::message(record)),
        Mutation::DeleteWorker(_)
        | Mutation::DeleteApp(_)
        | Mutation::DeleteDriver(_)
        | Mutation::DeleteExecutor(..)
        | Mutation::DeleteRequest(_)
        | Mutation::DeleteEvents { .. } => {
            into.push(record::Mutation::Delete { key });
            return;
        }
    };
    into.push(record::Mutation::Put { key, value });
}

fn key_of(mutation: &Mutation) -> RecordKey {
    match mutation {
        Mutation::PutMeta(_) => key(META, META_ID),
        Mutation::PutWorker(worker) => key(WORKER, worker.id.as_str()),
        Mutation::DeleteWorker(id) => key(WORKER, id.as_str()),
        Mutation::PutApp(app) => key(APPLICATION, app.id.as_str()),
        Mutation::DeleteApp(id) => key(APPLICATION, id.as_str()),
        Mutation::PutDriver(driver) => key(DRIVER, driver.id.as_str()),
        Mutation::DeleteDriver(id) => key(DRIVER, id.as_str()),
        Mutation::PutExecutor(executor) => {
            key(EXECUTOR, entities::executor_key(&executor.app, executor.id))
        }
        Mutation::DeleteExecutor(app, id) => key(EXECUTOR, entities::executor_key(app, *id)),
        Mutation::PutRequest(request) => key(REQUEST, request.id.as_str()),
        Mutation::DeleteRequest(id) => key(REQUEST, id.as_str()),
        Mutation::PutEvents(record) => key(EVENTS, events::key_of(record)),
        Mutation::DeleteEvents { first, last } => key(EVENTS, events::key(*first, *last)),
    }
}
