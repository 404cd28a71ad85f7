//! The task that owns one application: session events in, application events out, commands in between.
//!
//! What the application wants (a total of executors, kills, its own end) is kept here and told to every leader
//! until it is known to be done. The task never waits for the application's reader: while events are held, the
//! session is not read, but commands are.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use interrex_proto::v1::{self, ApplicationRemoved, Registered, master_frame, peer_frame};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use super::{
    event::{AppEnd, AppEvent},
    handle::AppCommand,
    options::{APP_EVENT_QUEUE_LEN, AppOptions},
    reader::{Progress, Reader},
    roster::Roster,
    targets::Targets,
};
use crate::session::{Delivery, SessionEvent, SessionHandle, StreamId};

/// How soon a message that found a full queue is sent again.
const RESEND_INTERVAL: Duration = Duration::from_millis(200);

/// How soon a request is repeated that the leader refused for now.
const REFUSED_INTERVAL: Duration = Duration::from_secs(1);

/// How often it is looked for whoever reads the events, within the time that he may stay away.
const LOOKS_WITHIN_LIMIT: u32 = 4;

/// The pump's ends of its channels.
pub(super) struct Channels {
    pub(super) session: SessionHandle,
    pub(super) session_events: mpsc::Receiver<SessionEvent>,
    pub(super) mailbox: mpsc::Receiver<AppCommand>,
    pub(super) events: mpsc::Sender<AppEvent>,
    /// Whoever reads them.
    pub(super) reader: Arc<Reader>,
    pub(super) app_id: watch::Sender<Option<String>>,
    pub(super) end: watch::Sender<Option<AppEnd>>,
}

/// Owns one application.
pub(super) struct AppPump {
    options: AppOptions,
    channels: Channels,
    cluster_id: String,
    app_id: String,
    roster: Roster,
    held: VecDeque<AppEvent>,
    attached: bool,
    /// The application has been told `Connected` and not yet `Disconnected`.
    told_connected: bool,
    registration_sent: bool,
    no_leader_since: Instant,
    targets: Targets,
    kills: BTreeSet<u32>,
    unregister: Option<(bool, String)>,
    progress: Progress,
    /// When to look whether somebody comes for the events.
    look_at: Instant,
    /// When to send again what found a full queue.
    resend_at: Option<Instant>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack for one turn of the loop"
)]
enum Wake {
    Delivered,
    NoReader,
    Command(Option<AppCommand>),
    Session(Option<SessionEvent>),
    Resend,
    Look,
    GiveUp,
}

// === impl AppPump ===

impl AppPump {
    pub(super) fn new(options: AppOptions, channels: Channels) -> Self {
        Self {
            options,
            channels,
            cluster_id: String::new(),
            app_id: String::new(),
            roster: Roster::default(),
            held: VecDeque::new(),
            attached: false,
            told_connected: false,
            registration_sent: false,
            no_leader_since: Instant::now(),
            targets: Targets::default(),
            kills: BTreeSet::new(),
            unregister: None,
            progress: Progress::default(),
            look_at: Instant::now(),
            resend_at: None,
        }
    }

    pub(super) async fn run(mut self) {
        let mut reader = true;
        let end = loop {
            let end = match self.wake(reader).await {
                Wake::Delivered => None,
                Wake::NoReader => {
                    reader = false;
                    self.held.clear();
                    None
                }
                Wake::Command(Some(command)) => self.on_command(command).await,
                Wake::Command(None) | Wake::Session(None) => Some(AppEnd::Closed),
                Wake::Session(Some(event)) => self.on_session(event).await,
                Wake::Resend => {
                    self.tell_leader().await;
                    None
                }
                Wake::Look => {
                    self.look_for_progress(reader).await;
                    None
                }
                Wake::GiveUp => Some(self.give_up()),
            };
            let ending = self.unregister.is_some() && self.held.len() > APP_EVENT_QUEUE_LEN;
            if !reader || ending {
                self.held.clear();
            }
            if let Some(end) = end {
                break end;
            }
        };
        self.finish(end).await;
    }

    async fn wake(&mut self, reader: bool) -> Wake {
        let give_up_at = match self.options.give_up_after {
            Some(wait) if !self.attached => Some(self.no_leader_since + wait),
            Some(_) | None => None,
        };
        tokio::select! {
            biased;
            permit = self.channels.events.reserve(), if reader && !self.held.is_empty() => {
                match permit {
                    Ok(permit) => {
                        if let Some(event) = self.held.pop_front() {
                            permit.send(event);
                        }
                        Wake::Delivered
                    }
                    Err(_) => Wake::NoReader,
                }
            }
            command = self.channels.mailbox.recv() => Wake::Command(command),
            // An application that ends does not wait for a reader that has perhaps stopped reading.
            event = self.channels.session_events.recv(),
                if self.held.is_empty() || self.unregister.is_some() => Wake::Session(event),
            () = at(self.resend_at) => Wake::Resend,
            () = sleep_until(self.look_at) => Wake::Look,
            () = at(give_up_at), if self.held.is_empty() => Wake::GiveUp,
        }
    }

    /// Tells the leader when nobody comes for the events any more, and when somebody does again. Nobody who has dropped his
    /// end is expected.
    async fn look_for_progress(&mut self, reader: bool) {
        let limit = self.options.progress_within;
        self.look_at = Instant::now() + limit / LOOKS_WITHIN_LIMIT;
        let away = match reader && !self.channels.events.is_closed() {
            true => self.channels.reader.away_for(),
            false => Duration::ZERO,
        };
        if self.progress.look(away, limit) {
            self.tell_leader().await;
        }
    }

    async fn on_command(&mut self, command: AppCommand) -> Option<AppEnd> {
        match command {
            AppCommand::RequestExecutors { targets, taken } => {
                let result = self.targets.take(targets);
                let refused = result.is_err();
                // Whoever asked and left does not want to know.
                taken.send(result).unwrap_or_default();
                if refused {
                    return None;
                }
            }
            AppCommand::KillExecutors { ids, replace } => self.kill(&ids, replace),
            AppCommand::Unregister { failed, message } => {
                if !self.registration_sent {
                    return Some(AppEnd::Unregistered { confirmed: true });
                }
                self.unregister = Some((failed, message));
            }
            AppCommand::GiveUpUnregistering => {
                return Some(AppEnd::Unregistered { confirmed: false });
            }
        }
        self.tell_leader().await;
        None
    }

    fn kill(&mut self, ids: &[u32], replace: bool) {
        for id in ids {
            let Some(profile) = self.roster.profile_of(*id) else {
                continue;
            };
            if self.kills.contains(id) {
                continue;
            }
            if !replace {
                let limit = self.options.spec.executor_limit;
                // Those that are told to end are no longer among what is wanted.
                let (roster, kills) = (&self.roster, &self.kills);
                let live = roster.live_of(profile).filter(|id| !kills.contains(id));
                let live = u32::try_from(live.count()).unwrap_or(u32::MAX);
                self.targets.lower(profile, limit, live);
            }
            self.kills.insert(*id);
        }
    }

    async fn on_session(&mut self, event: SessionEvent) -> Option<AppEnd> {
        match event {
            SessionEvent::RegistrationWanted { stream, .. } => self.register(stream).await,
            SessionEvent::Attached {
                epoch, registered, ..
            } => {
                self.progress.attached();
                self.on_attached(epoch, registered);
                self.tell_leader().await;
            }
            SessionEvent::Frame { body, .. } => return self.on_frame(body),
            SessionEvent::Detached { .. } => {
                self.attached = false;
                self.no_leader_since = Instant::now();
                if std::mem::take(&mut self.told_connected) {
                    self.held.push_back(AppEvent::Disconnected);
                }
            }
            SessionEvent::Refused {
                reason, permanent, ..
            } => {
                return self.on_refused(reason, permanent);
            }
        }
        None
    }

    async fn register(&mut self, stream: StreamId) {
        self.registration_sent = true;
        let body = peer_frame::Body::RegisterApplication(v1::RegisterApplication {
            cluster_id: self.cluster_id.clone(),
            request_id: self.options.request_id.clone(),
            app_id: self.app_id.clone(),
            spec: Some(self.options.spec.clone()),
        });
        if self.channels.session.register(stream, body).await.is_err() {
            warn!("the session ended while the application was registering");
        }
    }

    fn on_attached(&mut self, epoch: u64, registered: Registered) {
        let Registered {
            cluster_id,
            app_id,
            executors,
            ..
        } = registered;
        if app_id.is_empty() {
            warn!(
                epoch,
                "a leader accepted the registration without an application id"
            );
            return;
        }
        if !self.app_id.is_empty() && self.app_id != app_id {
            warn!(
                epoch,
                old = self.app_id,
                new = app_id,
                "the application's id has changed"
            );
        }
        self.attached = true;
        self.cluster_id = cluster_id;
        self.app_id.clone_from(&app_id);
        self.channels.app_id.send_replace(Some(app_id.clone()));
        if !std::mem::replace(&mut self.told_connected, true) {
            info!(epoch, app_id, "the application is attached");
            self.held.push_back(AppEvent::Connected { app_id });
        }
        let mut events = Vec::new();
        self.roster.reconcile(executors, &mut events);
        self.held.extend(events);
    }

    fn on_frame(&mut self, body: master_frame::Body) -> Option<AppEnd> {
        use master_frame::Body;
        match body {
            Body::ExecutorAdded(v1::ExecutorAdded {
                executor: Some(executor),
            })
            | Body::ExecutorUpdated(v1::ExecutorUpdated {
                executor: Some(executor),
            }) => {
                let mut events = Vec::new();
                self.roster.observe(executor, &mut events);
                self.held.extend(events);
                None
            }
            Body::WorkerRemoved(worker) => {
                self.held.push_back(AppEvent::WorkerRemoved(worker));
                None
            }
            Body::ApplicationRemoved(removed) => Some(self.on_removed(removed)),
            // Not meant for an application.
            Body::ExecutorAdded(_)
            | Body::ExecutorUpdated(_)
            | Body::Standby(_)
            | Body::Registered(_)
            | Body::MasterChanged(_)
            | Body::Refused(_)
            | Body::LaunchDriver(_)
            | Body::KillDriver(_)
            | Body::LaunchExecutor(_)
            | Body::KillExecutor(_)
            | Body::ReportAck(_)
            | Body::HeartbeatAck(_)
            | Body::Reregister(_)
            | Body::Masters(_) => None,
        }
    }

    fn on_removed(&mut self, removed: ApplicationRemoved) -> AppEnd {
        let ApplicationRemoved { state, message, .. } = removed;
        if self.unregister.is_some() {
            return AppEnd::Unregistered { confirmed: true };
        }
        if state == "FINISHED" {
            self.held.push_back(AppEvent::Finished {
                message: message.clone(),
            });
            return AppEnd::Finished { message };
        }
        let reason = if message.is_empty() {
            state
        } else {
            format!("{state}: {message}")
        };
        self.die(reason)
    }

    /// The registration was refused or, while attached, something that was asked for.
    fn on_refused(&mut self, reason: String, permanent: bool) -> Option<AppEnd> {
        match (permanent, self.attached) {
            // The confirmation was lost with a leader; the next one knows the application as ended.
            (true, _) if self.unregister.is_some() => {
                Some(AppEnd::Unregistered { confirmed: true })
            }
            (true, false) => Some(self.die(format!("refused: {reason}"))),
            // A busy leader: ask again.
            (false, true) => {
                self.resend_at = Some(Instant::now() + REFUSED_INTERVAL);
                None
            }
            // What is never granted is not asked for again before the next leader; the session has logged it.
            (true, true) | (false, false) => None,
        }
    }

    fn give_up(&mut self) -> AppEnd {
        if self.unregister.is_some() {
            return AppEnd::Unregistered { confirmed: false };
        }
        let waited = self.options.give_up_after.unwrap_or_default();
        self.die(format!("no master has led for {waited:?}"))
    }

    fn die(&mut self, reason: String) -> AppEnd {
        warn!(app_id = self.app_id, reason, "the application is dead");
        self.held.push_back(AppEvent::Dead {
            reason: reason.clone(),
        });
        AppEnd::Dead { reason }
    }

    /// Tells the leader everything that is wanted. All of it may be repeated without harm.
    async fn tell_leader(&mut self) {
        self.resend_at = None;
        if !self.attached {
            return;
        }
        let app_id = self.app_id.clone();
        let progress = self.progress.owed().map(|none_for| v1::AppProgress {
            app_id: app_id.clone(),
            none_for_ms: u64::try_from(none_for.as_millis()).unwrap_or(u64::MAX),
        });
        let roster = &self.roster;
        self.kills.retain(|id| roster.is_live(*id));
        let mut bodies = Vec::new();
        if let Some((failed, message)) = self.unregister.clone() {
            let unregister = v1::UnregisterApplication {
                app_id,
                failed,
                message,
            };
            bodies.push(peer_frame::Body::UnregisterApplication(unregister));
        } else {
            // First, so that what is killed is replaced only if it is still wanted.
            if let Some(request) = self.targets.request(&app_id) {
                bodies.push(peer_frame::Body::RequestExecutors(request));
            }
            if !self.kills.is_empty() {
                let executor_ids = self.kills.iter().copied().collect();
                let kill = v1::KillExecutors {
                    app_id,
                    executor_ids,
                };
                bodies.push(peer_frame::Body::KillExecutors(kill));
            }
        }
        bodies.extend(progress.map(peer_frame::Body::AppProgress));
        for body in bodies {
            match self.channels.session.send(body).await {
                Ok(Delivery::Queued | Delivery::NotAttached) | Err(_) => {}
                Ok(Delivery::Busy) => {
                    self.resend_at = Some(Instant::now() + RESEND_INTERVAL);
                    return;
                }
            }
        }
        self.progress.said();
    }

    /// Says how it ended, hands out the events that are held, and closes the session.
    async fn finish(self, end: AppEnd) {
        let Self {
            mut channels,
            held,
            options,
            ..
        } = self;
        channels.mailbox.close();
        channels.end.send_replace(Some(end));
        let tell = async {
            for event in held {
                tokio::select! {
                    sent = channels.events.send(event) => if sent.is_err() { break },
                    () = options.shutdown.cancelled() => break,
                }
            }
            drop(channels.events);
        };
        tokio::join!(channels.session.close(), tell);
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
