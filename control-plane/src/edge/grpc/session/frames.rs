//! What a master makes of a peer's frame, before anything is done about it.
//!
//! Pure, and used twice: by the sessions of a master and by the simulator, which so takes every frame exactly as a master
//! does. What must never happen: a frame that means something to the one and something else to the other.

use std::time::Duration;

use interrex_core::{
    command::{Command, Report},
    ids::{AppId, Epoch, WorkerId},
    leader::Heartbeat,
};
use interrex_proto::v1::{self, PeerFrame, peer_frame::Body};

use super::requests;
use crate::{
    edge::{
        grpc::reports,
        validate::{self, FieldError},
    },
    runtime::peer::Peer,
};

/// What a frame asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// Nothing that makes sense: what it was, for a log.
    Senseless(&'static str),
    /// To be told that this master does not lead.
    Standby,
    /// To be asked for a registration: why.
    Reregister(&'static str),
    /// To be asked for a newer registration: this one may miss what an older leader has started since.
    Outdated(&'static str),
    /// That leadership is verified: the peer has refused an order.
    Verify(v1::StaleEpoch),
    /// To register an agent.
    RegisterWorker(v1::RegisterWorker),
    /// To register an application.
    RegisterApplication(v1::RegisterApplication),
    /// An acknowledgement of this heartbeat, if this master still leads.
    Heartbeat {
        /// Whose it is.
        worker: WorkerId,
        /// The sender's number for it.
        sequence: u64,
        /// What it says.
        said: Heartbeat,
    },
    /// That a report is taken.
    Report {
        /// Whose it is.
        worker: WorkerId,
        /// The sender's number for it.
        sequence: u64,
        /// What it says, or why that makes no sense.
        report: Result<Report, FieldError>,
    },
    /// That it is noted how long the program behind an application has not come for its events; zero: it has.
    Progress {
        /// Which application.
        app: AppId,
        /// For how long.
        none_for: Duration,
    },
    /// Something for an application.
    Request(Command),
    /// Something for an application that cannot be: why, and whether no retry will help.
    Refused {
        /// In words.
        reason: String,
        /// No retry will help.
        permanent: bool,
    },
}

/// A frame, as a master takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// The peer has seen a larger epoch: somebody led after this master, or leads now.
    pub seen_more: bool,
    /// This worker was heard of. To be noted before anything is acknowledged, so that whoever lives by an acknowledgement
    /// is not given up meanwhile.
    pub heard_of: Option<WorkerId>,
    /// What it asks for.
    pub asked: Asked,
}

/// Takes a frame as a master that leads in `epoch`, or does not lead; `peer` says who has registered on its session.
pub fn take(epoch: Option<Epoch>, peer: impl FnOnce() -> Option<Peer>, frame: PeerFrame) -> Taken {
    let PeerFrame { seen_epoch, body } = frame;
    let Some(epoch) = epoch else {
        return Taken::of(on_standby(body.as_ref()));
    };
    let mut taken = Taken::of(Asked::Nothing);
    taken.seen_more = seen_epoch > epoch.0;
    taken.asked = match body {
        None => Asked::Senseless("empty"),
        Some(Body::RegisterWorker(register)) => {
            if register.seen_epoch.is_some_and(|seen| seen < epoch.0) {
                Asked::Outdated("this registration is older than this leadership")
            } else {
                Asked::RegisterWorker(register)
            }
        }
        Some(Body::RegisterApplication(register)) => Asked::RegisterApplication(register),
        Some(Body::StaleEpoch(stale)) => Asked::Verify(stale),
        Some(
            body @ (Body::Heartbeat(_)
            | Body::Report(_)
            | Body::UnregisterApplication(_)
            | Body::RequestExecutors(_)
            | Body::KillExecutors(_)
            | Body::AppProgress(_)),
        ) => match peer() {
            Some(Peer::Worker(worker)) => {
                taken.heard_of = Some(worker.clone());
                of_worker(worker, body)
            }
            Some(Peer::App(app)) => of_app(&app, body),
            None => Asked::Reregister("this session has not registered in this epoch"),
        },
    };
    taken
}

fn on_standby(body: Option<&Body>) -> Asked {
    match body {
        // Nothing to answer: the peer knows, or will be told when this master leads.
        Some(Body::Heartbeat(_) | Body::StaleEpoch(_) | Body::AppProgress(_)) | None => {
            Asked::Nothing
        }
        Some(
            Body::RegisterWorker(_)
            | Body::RegisterApplication(_)
            | Body::Report(_)
            | Body::UnregisterApplication(_)
            | Body::RequestExecutors(_)
            | Body::KillExecutors(_),
        ) => Asked::Standby,
    }
}

fn of_worker(worker: WorkerId, body: Body) -> Asked {
    match body {
        Body::Heartbeat(heartbeat) => Asked::Heartbeat {
            worker,
            sequence: heartbeat.sequence,
            said: Heartbeat {
                digest: heartbeat.digest,
                not_accepting: validate::cut_message(heartbeat.not_accepting),
            },
        },
        Body::Report(message) => Asked::Report {
            worker,
            sequence: message.sequence,
            report: reports::report(message),
        },
        Body::RegisterWorker(_) | Body::RegisterApplication(_) | Body::StaleEpoch(_) => {
            Asked::Nothing
        }
        Body::UnregisterApplication(_)
        | Body::RequestExecutors(_)
        | Body::KillExecutors(_)
        | Body::AppProgress(_) => Asked::Senseless("of an application, from a worker"),
    }
}

fn of_app(app: &AppId, body: Body) -> Asked {
    let (named, command) = match body {
        Body::UnregisterApplication(message) => (
            message.app_id.clone(),
            Ok(requests::unregister(app, message)),
        ),
        Body::RequestExecutors(message) => {
            (message.app_id.clone(), requests::executors(app, message))
        }
        Body::KillExecutors(message) => (message.app_id.clone(), requests::kill(app, message)),
        // It changes nothing, so one that names another application is not worth an answer.
        Body::AppProgress(message) => {
            let none_for = Duration::from_millis(message.none_for_ms);
            return match message.app_id == app.as_str() {
                true => Asked::Progress {
                    app: app.clone(),
                    none_for,
                },
                false => Asked::Senseless("of another application"),
            };
        }
        Body::Heartbeat(_)
        | Body::RegisterWorker(_)
        | Body::RegisterApplication(_)
        | Body::StaleEpoch(_) => return Asked::Nothing,
        Body::Report(_) => return Asked::Senseless("of a worker, from an application"),
    };
    if named != app.as_str() {
        let reason = format!("app_id: `{named}`, but this session is of {app}");
        return Asked::Refused {
            reason,
            permanent: false,
        };
    }
    match command {
        Ok(command) => Asked::Request(command),
        Err(error) => Asked::Refused {
            reason: error.to_string(),
            permanent: true,
        },
    }
}

// === impl Taken ===

impl Taken {
    fn of(asked: Asked) -> Self {
        Self {
            seen_more: false,
            heard_of: None,
            asked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(seen_epoch: u64, body: Body) -> PeerFrame {
        PeerFrame {
            seen_epoch,
            body: Some(body),
        }
    }

    fn heartbeat() -> Body {
        Body::Heartbeat(v1::Heartbeat {
            sequence: 7,
            ..Default::default()
        })
    }

    fn worker() -> Option<Peer> {
        Some(Peer::Worker("w1".into()))
    }

    #[test]
    fn a_standby_answers_only_what_waits_for_a_leader() {
        let asked = |body| take(None, || None, frame(9, body)).asked;
        assert_eq!(asked(heartbeat()), Asked::Nothing);
        assert_eq!(
            asked(Body::Report(v1::WorkReport::default())),
            Asked::Standby
        );
    }

    #[test]
    fn who_has_seen_a_larger_epoch_makes_the_leader_ask_whether_it_is_one() {
        let seen_more = |seen| take(Some(Epoch(5)), worker, frame(seen, heartbeat())).seen_more;
        assert_eq!([4, 5, 6].map(seen_more), [false, false, true]);
    }

    #[test]
    fn a_registration_of_before_this_leadership_is_asked_for_again() {
        let registration = |seen_epoch| {
            let register = v1::RegisterWorker {
                seen_epoch,
                ..Default::default()
            };
            take(
                Some(Epoch(5)),
                || None,
                frame(0, Body::RegisterWorker(register)),
            )
            .asked
        };
        assert!(matches!(registration(Some(4)), Asked::Outdated(_)));
        assert!(matches!(registration(Some(5)), Asked::RegisterWorker(_)));
        assert!(matches!(registration(None), Asked::RegisterWorker(_)));
    }

    #[test]
    fn a_registered_worker_is_heard_of_whatever_it_says() {
        let taken = take(Some(Epoch(5)), worker, frame(5, heartbeat()));
        assert_eq!(taken.heard_of, Some("w1".into()));
        assert!(matches!(taken.asked, Asked::Heartbeat { sequence: 7, .. }));
        let kill = Body::KillExecutors(v1::KillExecutors::default());
        let taken = take(Some(Epoch(5)), worker, frame(5, kill));
        assert_eq!(taken.heard_of, Some("w1".into()));
        assert!(matches!(taken.asked, Asked::Senseless(_)));
        let unknown = take(Some(Epoch(5)), || None, frame(5, heartbeat()));
        assert_eq!(unknown.heard_of, None);
        assert!(matches!(unknown.asked, Asked::Reregister(_)));
    }

    #[test]
    fn an_application_asks_for_itself_only() {
        let of = |app_id: &str| {
            let message = v1::KillExecutors {
                app_id: app_id.to_owned(),
                executor_ids: vec![1],
            };
            let peer = || Some(Peer::App("app-1".into()));
            take(Some(Epoch(5)), peer, frame(5, Body::KillExecutors(message))).asked
        };
        assert!(matches!(of("app-1"), Asked::Request(_)));
        let refused = of("app-2");
        assert!(
            matches!(&refused, Asked::Refused { permanent: false, reason } if reason.contains("app-2")),
            "{refused:?}"
        );
    }
}
