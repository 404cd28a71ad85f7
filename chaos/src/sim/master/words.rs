//! What a master makes of jobs, views and outcomes.

use super::super::env::Response;
use super::super::env::Seen;
use super::super::plan::Job;
use super::super::plant::Plant;
use interrex_control_plane::runtime::heartbeats::Heartbeats;
use interrex_control_plane::runtime::view::ClusterView;
use interrex_control_plane::runtime::view::Found;
use interrex_core::event::Event;
use interrex_core::leader::Answer as Outcome;
use interrex_core::leader::LeaderMachine;
use interrex_core::state::cluster::ClusterState;
use interrex_core::transition::Mutation;
use interrex_core::transition::Reply;
use interrex_proto::v1;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Events in one answer.
const EVENTS_MAX: usize = 100;

pub(super) fn first_view(machine: &LeaderMachine) -> ClusterView {
    let state = machine.state();
    let mut view = ClusterView::new(machine.epoch(), Arc::new(Heartbeats::default()));
    view.set_recovery(state.recovery_state());
    view.apply(&entities(state));
    view
}

/// Everything that is recorded, as if it were written now.
pub(in crate::sim) fn entities(state: &ClusterState) -> Vec<Mutation> {
    let meta = Mutation::PutMeta(state.meta().clone());
    let workers = state.workers().map(Arc::clone).map(Mutation::PutWorker);
    let apps = state.apps().map(Arc::clone).map(Mutation::PutApp);
    let drivers = state.drivers().map(Arc::clone).map(Mutation::PutDriver);
    let executors = state.executors().map(Arc::clone).map(Mutation::PutExecutor);
    let requests = state.requests().map(Arc::clone).map(Mutation::PutRequest);
    std::iter::once(meta)
        .chain(workers)
        .chain(apps)
        .chain(drivers)
        .chain(executors)
        .chain(requests)
        .collect()
}

pub(super) fn driver_spec(job: &Job) -> v1::DriverSpec {
    v1::DriverSpec {
        name: "job".to_owned(),
        user: "sim".to_owned(),
        command: Some(job.command()),
        cores: job.cores,
        memory_mib: job.memory_mib,
        supervise: job.supervise,
        at_most_once: job.at_most_once,
        priority: job.priority,
        ..Default::default()
    }
}

/// What a submission looks like to readers.
pub(in crate::sim) fn seen(view: &ClusterView, submission: &str) -> Seen {
    match view.find(submission) {
        Some(Found::Driver(driver)) => Seen {
            driver: driver.id.to_string(),
            state: driver.state.name().to_owned(),
            attempt: driver.attempt.0,
        },
        Some(Found::App(_)) | None => Seen {
            state: "NOT_FOUND".to_owned(),
            ..Seen::default()
        },
    }
}

/// Events behind a place, as a follower gets them: what is committed, so nobody is asked whether this leader still leads.
pub(super) fn events_after(view: &ClusterView, after: Option<u64>) -> Response {
    let log = view.events();
    let after = match after {
        Some(after) if !log.follows(after) => return Response::Events(None),
        Some(after) => after,
        None => log.oldest().saturating_sub(1),
    };
    let page = log.after(after).take(EVENTS_MAX);
    let digest = |event: &Event| {
        let mut hasher = DefaultHasher::new();
        format!("{event:?}").hash(&mut hasher);
        // Half of it is enough to tell two apart.
        (event.sequence.0, hasher.finish() as u32)
    };
    Response::Events(Some(page.map(digest).collect()))
}

pub(super) fn response_of(outcome: Outcome, plant: Option<Plant>) -> Response {
    match outcome {
        Outcome::Reply(Reply::Rejected(rejection)) => Response::Refused(rejection.to_string()),
        Outcome::Reply(
            Reply::DriverSubmitted { driver, .. } | Reply::DriverKilled { driver, .. },
        ) => Response::Done(Seen {
            driver: driver.id.to_string(),
            state: driver.state.name().to_owned(),
            attempt: driver.attempt.0,
        }),
        Outcome::Reply(_) => Response::Done(Seen::default()),
        Outcome::OutcomeUnknown if plant == Some(Plant::ReplyAfterStepDown) => {
            Response::Done(Seen::default())
        }
        Outcome::NotLeader => Response::NotLeader,
        Outcome::OutcomeUnknown => Response::Unknown,
        Outcome::DeadlineExceeded | Outcome::Busy => Response::NotLeader,
    }
}
