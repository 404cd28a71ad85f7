//! The life of a master: campaign, recover, lead, step down in place, campaign again. It never exits because of
//! a store, a peer or a bug in a leadership; only shutdown ends it.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use interrex_core::{
    config::ClusterConfig,
    ids::Epoch,
    leader::{LeaderConfig, StepDown},
};
use interrex_persistence::{
    election::{LeaderElection, Leadership},
    engine::PersistenceEngine,
    epoch,
    error::{CommitError, ElectionError},
    record::Recovered,
};
use interrex_proto::v1::{self, master_frame::Body};
use tokio::{
    sync::mpsc,
    time::{Instant, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    messages::master_message,
    runtime::{
        beside,
        dispatcher::Dispatcher,
        hand_over::HAND_OVERS_MAX,
        handle::{MasterHandle, Role},
        heartbeat_acks::{HEARD_MAX, Heard, HeartbeatAcks},
        heartbeats::Heartbeats,
        ignored::IgnoredCount,
        leader_loop::{LeaderLoop, Signals},
        peers::Peers,
        port::{LeaderPort, MAILBOX_MAX, READS_MAX, Waiters},
        quarantine::Quarantine,
        read_gate::{Read, ReadGate},
        restore::{RESTORES_MAX, RestoreError, RestoreOrder, RestorePort, Restorer},
        shared::Shared,
        takeover::{Taken, Takeover, Unfit},
        tasks::{OnEnd, Tasks},
        traces::Traces,
        view::ClusterView,
    },
};

/// How often a master that does not lead shows that it lives.
const IDLE_TURN: Duration = Duration::from_millis(500);
/// Pauses between campaigns that fail, and between tries to open an epoch.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A master that must not lead lets others try for this long.
const UNFIT_PAUSE: Duration = Duration::from_secs(5);
/// How long giving leadership back may take.
const RESIGN_MAX: Duration = Duration::from_secs(2);

/// Waits of a master's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleOptions {
    /// A commit that has not been confirmed after this ends the leadership. Default 2 s.
    pub commit_deadline: Duration,
    /// Opening an epoch, with reading everything back, may take this long. Default 30 s.
    pub open_deadline: Duration,
    /// Bounds of batches and queues.
    pub leader: LeaderConfig,
}

/// The task that makes this master a standby or the leader.
#[derive(Debug)]
pub(crate) struct RoleTask {
    pub(crate) shared: Arc<Shared>,
    pub(crate) election: Arc<dyn LeaderElection>,
    pub(crate) engine: Arc<dyn PersistenceEngine>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) tasks: Tasks,
    pub(crate) cluster: ClusterConfig,
    pub(crate) options: RoleOptions,
}

/// How a leadership ended.
enum Ended {
    SteppedDown(StepDown),
    /// It never began: the epoch could not be opened.
    NotOpened(CommitError),
    /// It must not begin.
    Unfit(Unfit),
}

// === impl RoleOptions ===

impl Default for RoleOptions {
    fn default() -> Self {
        Self {
            commit_deadline: Duration::from_secs(2),
            open_deadline: Duration::from_secs(30),
            leader: LeaderConfig::default(),
        }
    }
}

// === impl RoleTask ===

impl RoleTask {
    /// Runs until shutdown. Leadership has been given back then.
    pub(crate) async fn run(self) {
        let stop = self.tasks.stop().clone();
        let mut pause = PAUSE_MIN;
        while !stop.is_cancelled() {
            let leadership = match self.campaign(&stop).await {
                Some(Ok(leadership)) => leadership,
                Some(Err(error)) => {
                    self.report_election(&error);
                    let wait = if error.retryable() {
                        pause
                    } else {
                        UNFIT_PAUSE
                    };
                    pause = (pause * 2).min(PAUSE_MAX);
                    self.rest(wait, &stop).await;
                    continue;
                }
                None => break,
            };
            let ended = self.serve(&leadership, &stop).await;
            pause = match &ended {
                Some(Ended::SteppedDown(_)) => PAUSE_MIN,
                Some(Ended::NotOpened(_)) | None => (pause * 2).min(PAUSE_MAX),
                Some(Ended::Unfit(_)) => UNFIT_PAUSE,
            };
            self.rest(pause, &stop).await;
            pause = pause.min(PAUSE_MAX);
        }
        self.become_standby();
        self.set_role(Role::Standby);
    }

    /// Waits for leadership, and keeps role and pulse true meanwhile. `None`: shutdown.
    async fn campaign(
        &self,
        stop: &CancellationToken,
    ) -> Option<Result<Leadership, ElectionError>> {
        let mut leaders = self.shared.leaders.clone();
        let mut turns = interval(IDLE_TURN);
        let campaign = self.election.campaign(&self.shared.me);
        tokio::pin!(campaign);
        loop {
            let led = leaders.borrow_and_update().leader.clone();
            let follows = led.is_some_and(|leader| leader.id != self.shared.me.id);
            self.set_role(if follows {
                Role::Standby
            } else {
                Role::Campaigning
            });
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                won = &mut campaign => return Some(won),
                Ok(()) = leaders.changed() => {}
                _ = turns.tick() => self.shared.pulse.beat(),
            }
        }
    }

    /// Leads, and leaves everything as a standby has it. `None`: the leadership's code panicked.
    async fn serve(&self, leadership: &Leadership, stop: &CancellationToken) -> Option<Ended> {
        let epoch = Epoch(leadership.epoch.0);
        tracing::info!(event = "leader_elected", epoch = epoch.0, "elected");
        metrics::counter!("interrex_elections_won_total").increment(1);
        let ended = AssertUnwindSafe(self.lead(leadership, stop))
            .catch_unwind()
            .await
            .ok();
        self.become_standby();
        let reason = match &ended {
            Some(Ended::SteppedDown(reason)) => reason.name(),
            Some(Ended::NotOpened(error)) => {
                tracing::warn!(epoch = epoch.0, %error, "the epoch could not be opened");
                "not_opened"
            }
            Some(Ended::Unfit(error)) => {
                tracing::error!(epoch = epoch.0, %error, "this master must not lead");
                error.name()
            }
            None => {
                tracing::error!(epoch = epoch.0, "the leader's loop panicked: stepping down");
                "panic"
            }
        };
        metrics::counter!("interrex_step_downs_total", "reason" => reason).increment(1);
        if !leadership.lost.is_cancelled()
            && timeout(RESIGN_MAX, self.election.resign()).await.is_err()
        {
            tracing::warn!(epoch = epoch.0, "resigning was not confirmed in time");
        }
        ended
    }

    async fn lead(&self, leadership: &Leadership, stop: &CancellationToken) -> Ended {
        let epoch = Epoch(leadership.epoch.0);
        let began = Instant::now();
        let heartbeats = Arc::new(Heartbeats::default());
        let Taken {
            machine,
            view,
            quarantined,
        } = match self.take_over(leadership, &heartbeats, stop).await {
            Ok(taken) => taken,
            Err(ended) => return ended,
        };
        metrics::histogram!("interrex_recovery_duration_seconds")
            .record(began.elapsed().as_secs_f64());

        let (mailbox_tx, mailbox) = mpsc::channel(MAILBOX_MAX);
        let (reads_tx, reads) = mpsc::channel(READS_MAX);
        let (hand_overs_tx, hand_overs) = mpsc::channel(HAND_OVERS_MAX);
        let (heard_tx, heard) = mpsc::channel(HEARD_MAX);
        let (orders, restores) = mpsc::channel(RESTORES_MAX);
        let over = CancellationToken::new();
        let _ends_the_gate = over.clone().drop_guard();
        self.open_gate(epoch, reads, &over);
        self.go_beside(epoch, heard, &over);
        let mut pump = LeaderLoop {
            shared: Arc::clone(&self.shared),
            engine: Arc::clone(&self.engine),
            machine,
            view: view.clone(),
            heartbeats,
            dispatcher: Dispatcher::new(epoch, Arc::clone(&self.peers)),
            peers: Arc::clone(&self.peers),
            commit_deadline: self.options.commit_deadline,
            waiters: Waiters::default(),
            ignored: IgnoredCount::default(),
            quarantine: Quarantine::new(quarantined),
            traces: Traces::default(),
            began: Instant::now(),
            restore: None,
        };
        let minted = || uuid::Uuid::new_v4().to_string();
        pump.initialize(self.shared.admin.cluster_id().unwrap_or_else(minted));
        let port = LeaderPort {
            epoch,
            mailbox: mailbox_tx,
            reads: reads_tx,
            hand_overs: hand_overs_tx,
            heard: heard_tx,
        };
        self.shared.restores.send_replace(Some(RestorePort {
            orders,
            restoring: None,
        }));
        self.announce(port, view, began.elapsed());
        let signals = Signals {
            lost: leadership.lost.clone(),
            over,
            stop: stop.clone(),
            hand_overs,
            restores,
        };
        let (reason, order) = pump.run(mailbox, signals).await;
        if let Some(order) = order {
            self.restore(order, leadership).await;
        }
        Ended::SteppedDown(reason)
    }

    /// Reads are answered until the leadership ends.
    fn open_gate(&self, epoch: Epoch, reads: mpsc::Receiver<Read>, over: &CancellationToken) {
        let gate = ReadGate {
            epoch,
            engine: Arc::clone(&self.engine),
            handle: MasterHandle::new(Arc::clone(&self.shared)),
            reads,
            over: over.clone(),
        };
        self.tasks
            .spawn_detached("read gate", OnEnd::Expected, gate.run());
    }

    /// Opens the epoch and makes a leader of what is stored; or how the leadership has ended, if it could not.
    async fn take_over(
        &self,
        leadership: &Leadership,
        heartbeats: &Arc<Heartbeats>,
        stop: &CancellationToken,
    ) -> Result<Taken, Ended> {
        self.set_role(Role::Recovering);
        let recovered = self.open(leadership).await.map_err(Ended::NotOpened)?;
        let epoch = Epoch(leadership.epoch.0);
        match self.recover(epoch, recovered, heartbeats).await {
            Ok(taken) => Ok(taken),
            Err(Unfit::Restoring { snapshot }) => {
                Err(self.await_restore(snapshot, leadership, stop).await)
            }
            Err(error) => Err(Ended::Unfit(error)),
        }
    }

    /// Serves nobody, and carries out `order`.
    async fn restore(&self, order: RestoreOrder, leadership: &Leadership) {
        self.set_role(Role::Recovering);
        // Nobody receives: one at a time.
        let (orders, _closed) = mpsc::channel(RESTORES_MAX);
        self.shared.restores.send_replace(Some(RestorePort {
            orders,
            restoring: Some(order.source.name()),
        }));
        let restorer = Restorer {
            shared: &self.shared,
            engine: &self.engine,
            epoch: leadership.epoch,
            options: self.options,
            lost: &leadership.lost,
        };
        restorer.carry_out(order).await;
    }

    /// Holds a leadership over a part of the records of `snapshot`, until the command is repeated.
    async fn await_restore(
        &self,
        snapshot: String,
        leadership: &Leadership,
        stop: &CancellationToken,
    ) -> Ended {
        let epoch = leadership.epoch.0;
        tracing::error!(
            epoch,
            snapshot,
            "restore incomplete: nothing is served; run the command again, or wipe the data directories"
        );
        let (orders, mut restores) = mpsc::channel(RESTORES_MAX);
        self.shared.restores.send_replace(Some(RestorePort {
            orders,
            restoring: Some(snapshot.clone()),
        }));
        let mut turns = interval(IDLE_TURN);
        loop {
            tokio::select! {
                biased;
                () = leadership.lost.cancelled() => return Ended::SteppedDown(StepDown::Lost),
                () = stop.cancelled() => return Ended::SteppedDown(StepDown::Resigned),
                _ = turns.tick() => self.shared.pulse.beat(),
                Some(order) = restores.recv() => {
                    if order.source.name() == snapshot {
                        self.restore(order, leadership).await;
                        return Ended::SteppedDown(StepDown::Resigned);
                    }
                    let restoring = snapshot.clone();
                    drop(order.done.send(Err(RestoreError::Another { restoring })));
                }
            }
        }
    }

    /// Starts what goes on beside the loop until it is over.
    fn go_beside(&self, epoch: Epoch, heard: mpsc::Receiver<Heard>, over: &CancellationToken) {
        let acks = HeartbeatAcks {
            epoch,
            engine: Arc::clone(&self.engine),
            peers: Arc::clone(&self.peers),
            heard,
            over: over.clone(),
        };
        self.tasks
            .spawn_detached("heartbeat acks", OnEnd::Expected, acks.run());
        let (leaders, peers) = (self.shared.leaders.clone(), Arc::clone(&self.peers));
        let news = beside::news_of_masters(epoch, leaders, peers, over.clone());
        self.tasks
            .spawn_detached("masters' news", OnEnd::Expected, news);
        let handle = MasterHandle::new(Arc::clone(&self.shared));
        let fitness = beside::leave_when_unfit(handle, over.clone());
        self.tasks
            .spawn_detached("fitness", OnEnd::Expected, fitness);
    }

    /// Opens the epoch; tries again while leadership lasts.
    async fn open(&self, leadership: &Leadership) -> Result<Recovered, CommitError> {
        let deadline = Instant::now() + self.options.open_deadline;
        let mut pause = PAUSE_MIN;
        loop {
            let open = self.engine.open_epoch(epoch::Epoch(leadership.epoch.0));
            let opened = tokio::select! {
                biased;
                () = leadership.lost.cancelled() => return Err(lost()),
                opened = tokio::time::timeout_at(deadline, open) => opened,
            };
            self.shared.pulse.beat();
            match opened {
                Ok(Ok(recovered)) => return Ok(recovered),
                Ok(Err(error @ CommitError::Fenced { .. })) => return Err(error),
                Ok(Err(error)) if Instant::now() + pause >= deadline => return Err(error),
                Ok(Err(error)) => {
                    tracing::warn!(epoch = leadership.epoch.0, %error, "opening the epoch again");
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(elapsed) => return Err(CommitError::Indeterminate(Box::new(elapsed))),
            }
        }
    }

    /// Decodes and indexes everything, on a thread of its own: with many records this takes a while.
    async fn recover(
        &self,
        epoch: Epoch,
        recovered: Recovered,
        heartbeats: &Arc<Heartbeats>,
    ) -> Result<Taken, Unfit> {
        let takeover = Takeover {
            epoch,
            master: self.shared.me.id.clone(),
            leader: self.options.leader,
            cluster: self.cluster.clone(),
            backend_cluster: self.shared.admin.cluster_id(),
            now: self.shared.clock.now(),
            heartbeats: Arc::clone(heartbeats),
        };
        let work = move || takeover.recover(recovered);
        match tokio::task::spawn_blocking(work).await {
            Ok(made) => made,
            Err(panicked) => match panicked.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only a runtime that is being torn down cancels it; then nothing runs on from here.
                Err(_cancelled) => std::future::pending().await,
            },
        }
    }

    /// Opens the doors, in this order: whoever sees the view or the role finds the port.
    fn announce(&self, port: LeaderPort, view: ClusterView, took: Duration) {
        let epoch = port.epoch;
        self.peers.begin(epoch);
        self.shared.port.send_replace(Some(port));
        self.shared.view.send_replace(Arc::new(view));
        self.set_role(Role::Leading);
        metrics::gauge!("interrex_epoch").set(epoch.0 as f64);
        let took_ms = took.as_millis();
        tracing::info!(event = "leading", epoch = epoch.0, took_ms, "leading");
        let leader = Some(master_message(&self.shared.me));
        self.peers
            .broadcast(epoch, &Body::MasterChanged(v1::MasterChanged { leader }));
    }

    /// Forgets the leadership: memory, view, registrations.
    fn become_standby(&self) {
        self.shared.restores.send_replace(None);
        let had =
            self.shared.port.send_replace(None).is_some() || !self.shared.view.borrow().is_empty();
        self.shared.view.send_replace(Arc::default());
        self.peers.end();
        self.set_role(Role::Standby);
        if had {
            let standby = MasterHandle::new(Arc::clone(&self.shared)).standby();
            self.peers
                .broadcast(Epoch::default(), &Body::Standby(standby));
        }
    }

    fn set_role(&self, role: Role) {
        let changed = self.shared.role.send_if_modified(|current| {
            let changed = *current != role;
            *current = role;
            changed
        });
        if changed {
            let leads = if role == Role::Leading { 1.0 } else { 0.0 };
            metrics::gauge!("interrex_is_leader").set(leads);
        }
    }

    fn report_election(&self, error: &ElectionError) {
        match error {
            ElectionError::Closed => tracing::error!(%error, "no more elections here"),
            ElectionError::Interrupted(_) => tracing::warn!(%error, "campaigning again"),
        }
    }

    async fn rest(&self, pause: Duration, stop: &CancellationToken) {
        let end = Instant::now() + pause;
        while Instant::now() < end && !stop.is_cancelled() {
            self.shared.pulse.beat();
            let turn = sleep(IDLE_TURN.min(end - Instant::now()));
            if stop.run_until_cancelled(turn).await.is_none() {
                break;
            }
        }
    }
}

fn lost() -> CommitError {
    CommitError::Rejected("leadership was lost before the epoch was open".into())
}
