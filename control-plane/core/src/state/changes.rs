//! What one command has changed so far: for every touched entity, how it was before. Owned by
//! [`ClusterState`](super::cluster::ClusterState) while a command is applied. What must never happen: a change that
//! is not noted here, because it would not be stored.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    ids::{AppId, DriverId, ExecutorId, RequestId, WorkerId},
    state::{
        app::Application,
        cluster::ClusterState,
        driver::Driver,
        executor::Executor,
        meta::{Created, Meta, Request},
        worker::Worker,
    },
    transition::Mutation,
};

/// Entities of one kind as they were before the command; `None`: it did not exist.
pub(crate) type Before<K, T> = BTreeMap<K, Option<Arc<T>>>;

/// Everything that one command touched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    pub(crate) meta: Option<Meta>,
    pub(crate) workers: Before<WorkerId, Worker>,
    pub(crate) apps: Before<AppId, Application>,
    pub(crate) drivers: Before<DriverId, Driver>,
    pub(crate) executors: Before<(AppId, ExecutorId), Executor>,
    pub(crate) requests: Before<RequestId, Request>,
}

// === impl Changes ===

impl Changes {
    /// One mutation for each entity that differs from what it was, in a fixed order.
    pub(crate) fn into_mutations(mut self, state: &ClusterState) -> Vec<Mutation> {
        let mut out = Vec::new();
        if self.meta.take().is_some_and(|before| before != state.meta) {
            out.push(Mutation::PutMeta(state.meta.clone()));
        }
        self.take_accepted(state, &mut out);
        diff(
            self.workers,
            &state.workers,
            &mut out,
            Mutation::PutWorker,
            Mutation::DeleteWorker,
        );
        diff(
            self.apps,
            &state.apps,
            &mut out,
            Mutation::PutApp,
            Mutation::DeleteApp,
        );
        diff(
            self.drivers,
            &state.drivers,
            &mut out,
            Mutation::PutDriver,
            Mutation::DeleteDriver,
        );
        diff(
            self.executors,
            &state.executors,
            &mut out,
            Mutation::PutExecutor,
            |(app, executor)| Mutation::DeleteExecutor(app, executor),
        );
        diff(
            self.requests,
            &state.requests,
            &mut out,
            Mutation::PutRequest,
            Mutation::DeleteRequest,
        );
        out
    }

    /// Accepted requests, each followed by what it created. A command that is larger than a batch is cut somewhere
    /// behind them: a crash there must not leave something that a repeat of its request would create again. What
    /// only did something is left for the end: a crash must not leave it remembered and half done.
    fn take_accepted(&mut self, state: &ClusterState, out: &mut Vec<Mutation>) {
        let (accepted, others) =
            std::mem::take(&mut self.requests)
                .into_iter()
                .partition(|(id, _)| {
                    let request = state.requests.get(id);
                    request.is_some_and(|request| request.created.is_entity())
                });
        self.requests = others;
        let accepted: Before<RequestId, Request> = accepted;
        for (id, was) in accepted {
            let created = state.requests.get(&id).map(|request| &request.created);
            diff(
                [(id, was)],
                &state.requests,
                out,
                Mutation::PutRequest,
                Mutation::DeleteRequest,
            );
            match created {
                Some(Created::Driver(id)) => diff(
                    self.drivers.remove_entry(id),
                    &state.drivers,
                    out,
                    Mutation::PutDriver,
                    Mutation::DeleteDriver,
                ),
                Some(Created::App(id)) => diff(
                    self.apps.remove_entry(id),
                    &state.apps,
                    out,
                    Mutation::PutApp,
                    Mutation::DeleteApp,
                ),
                Some(Created::Killed(_) | Created::Count(_)) | None => {}
            }
        }
    }
}

/// Notes how an entity was, the first time that a command touches it.
pub(crate) fn note<K: Ord, T>(before: &mut Before<K, T>, key: K, was: Option<&Arc<T>>) {
    before.entry(key).or_insert_with(|| was.cloned());
}

fn diff<K: Ord, T: PartialEq>(
    before: impl IntoIterator<Item = (K, Option<Arc<T>>)>,
    after: &BTreeMap<K, Arc<T>>,
    out: &mut Vec<Mutation>,
    put: impl Fn(Arc<T>) -> Mutation,
    delete: impl Fn(K) -> Mutation,
) {
    for (key, was) in before {
        match (was, after.get(&key)) {
            (Some(was), Some(is)) if Arc::ptr_eq(&was, is) || was == *is => {}
            (_, Some(is)) => out.push(put(Arc::clone(is))),
            (Some(_), None) => out.push(delete(key)),
            (None, None) => {}
        }
    }
}
