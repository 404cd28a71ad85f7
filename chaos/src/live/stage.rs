//! Where a scenario plays: the cluster, the means to break it, and the time that passes meanwhile.
//!
//! Whoever waits on the stage lets it look around: at the ledger, at processes that have ended by themselves (which no
//! fault explains, and which is a violation), and at the moment to say how far the run is.

use std::{
    ffi::OsString,
    io,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::task::JoinHandle;

use super::{
    client::{Notes, Requests, Told},
    cluster::Cluster,
    journal::Journal,
    ledger::{Gone, Ledger, Watch},
    observer::{Leader, Observer},
    options::{Engine, LiveError},
    work::{JobKind, Site},
};
use crate::{history::Op, sim::chance::Chance};

/// Between two looks around.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(3);
/// How long the cluster may take to be well again between two faults.
pub(super) const SETTLE_DEADLINE: Duration = Duration::from_secs(100);

/// Everything that a scenario works with.
pub(super) struct Stage<'a> {
    pub(super) cluster: Cluster,
    pub(super) observer: Observer,
    pub(super) journal: Journal,
    pub(super) chance: Chance,
    pub(super) site: Site,
    pub(super) ledger: Ledger,
    /// Attempts that were killed, as the ledger and the kernel have it.
    pub(super) gone: Vec<Gone>,
    pub(super) tally: Tally,
    pub(super) until: Instant,
    /// A node that is to die by itself.
    pub(super) doomed: Option<String>,
    pub(super) engine: Engine,
    pub(super) kill_points: bool,
    watch: Watch,
    began: Instant,
    told: Instant,
    tell: &'a mut (dyn FnMut(&str) + Send),
}

/// What the harness counts by itself, for progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Leaders that were killed.
    pub(super) kills: u32,
    /// Kills after which a submission was acknowledged.
    pub(super) survived: u32,
    /// Probes so far.
    pub(super) probes: u32,
    /// One-shot clients so far.
    pub(super) ones: u32,
}

/// A submission that was made at the moment of a fault.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) id: String,
    task: JoinHandle<io::Result<Told>>,
}

/// What a stage is made of.
pub(super) struct Props {
    pub(super) cluster: Cluster,
    pub(super) observer: Observer,
    pub(super) journal: Journal,
    pub(super) seed: u64,
    pub(super) site: Site,
    pub(super) ledger: Ledger,
    pub(super) seconds: u64,
    pub(super) engine: Engine,
    pub(super) kill_points: bool,
}

// === impl Stage ===

impl<'a> Stage<'a> {
    pub(super) fn new(props: Props, tell: &'a mut (dyn FnMut(&str) + Send)) -> Self {
        let now = Instant::now();
        Self {
            cluster: props.cluster,
            observer: props.observer,
            journal: props.journal,
            chance: Chance::new(props.seed),
            site: props.site,
            ledger: props.ledger,
            gone: Vec::new(),
            tally: Tally::default(),
            until: now + Duration::from_secs(props.seconds),
            doomed: None,
            engine: props.engine,
            kill_points: props.kill_points,
            watch: Watch::default(),
            began: now,
            told: now,
            tell,
        }
    }

    /// Says something to whoever waits for the run.
    pub(super) fn say(&mut self, text: &str) {
        self.told = Instant::now();
        (self.tell)(text);
    }

    /// Whether faults go on.
    pub(super) fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// All masters that there are now, whether they run or not.
    pub(super) fn masters(&self) -> Vec<String> {
        self.cluster.places.masters()
    }

    /// All agents.
    pub(super) fn agents(&self) -> Vec<String> {
        self.cluster.places.agents()
    }

    /// Starts `node`, and says so in the history.
    pub(super) fn start(&mut self, node: &str) -> Result<(), LiveError> {
        self.cluster.start(node)?;
        self.journal.info(node, Op::Up, "", json!(null));
        Ok(())
    }

    /// Starts another process of this program, and says so.
    pub(super) fn start_with(&mut self, node: &str, args: Vec<OsString>) -> Result<(), LiveError> {
        self.cluster.start_with(node, args, None)?;
        self.journal.info(node, Op::Up, "", json!(null));
        Ok(())
    }

    /// Starts `node` with further options, and says so.
    pub(super) fn start_extra(&mut self, node: &str, options: &[&str]) -> Result<(), LiveError> {
        let mut args = self.cluster.places.command_line(node);
        args.extend(options.iter().map(OsString::from));
        self.start_with(node, args)
    }

    /// Starts `node` with a point at which it will die, and says so.
    pub(super) fn start_armed(&mut self, node: &str, points: &str) -> Result<(), LiveError> {
        let args = self.cluster.places.command_line(node);
        let env = Some(("FAILPOINTS", points));
        self.cluster.start_with(node, args, env)?;
        let value = json!({"armed": points});
        self.journal.info(node, Op::Up, "", value);
        Ok(())
    }

    /// Kills all of `nodes` before any of them is waited for, and says so; false where one did not run.
    pub(super) async fn kill_all(&mut self, nodes: &[String]) -> bool {
        let mut all = true;
        for node in nodes {
            all &= self.cluster.signal(node, Signal::SIGKILL);
        }
        for node in nodes {
            self.cluster.kill(node).await;
            let value = json!({"how": "SIGKILL", "asked": true});
            self.journal.info(node, Op::Down, "", value);
        }
        all
    }

    /// Kills `node`, and says so; false where it did not run.
    pub(super) async fn kill(&mut self, node: &str) -> bool {
        let killed = self.cluster.kill(node).await;
        if killed {
            let value = json!({"how": "SIGKILL", "asked": true});
            self.journal.info(node, Op::Down, "", value);
        }
        killed
    }

    /// Ends `node` in order, and says so; how it ended.
    pub(super) async fn stop(&mut self, node: &str) -> Option<String> {
        let how = self.cluster.stop(node).await?;
        let value = json!({"how": how, "asked": true});
        self.journal.info(node, Op::Down, "", value);
        Some(how)
    }

    /// Waits until `node`, which ends by itself, has ended, and says so; how. `None` where it goes on.
    pub(super) async fn ended(&mut self, node: &str, limit: Duration) -> Option<String> {
        let deadline = Instant::now() + limit;
        loop {
            // Before anybody looks around: this end is none that nobody asked for.
            if let Some(how) = self.cluster.wait(node, LOOK_EVERY).await {
                let value = json!({"how": how, "asked": true});
                self.journal.info(node, Op::Down, "", value);
                return Some(how);
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    /// Lets time pass.
    pub(super) async fn pause(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        loop {
            let rest = until.saturating_duration_since(tokio::time::Instant::now());
            if rest.is_zero() {
                return;
            }
            tokio::time::sleep(rest.min(LOOK_EVERY)).await;
            self.look().await;
        }
    }

    /// Lets a time pass that the dice choose.
    pub(super) async fn pause_between(&mut self, from: Duration, to: Duration) {
        let time = self.chance.time(from, to);
        self.pause(time).await;
    }

    /// Looks at the ledger, and at processes that have ended by themselves.
    pub(super) async fn look(&mut self) {
        match self.watch.look(&self.ledger) {
            Ok(gone) => self.gone.extend(gone),
            Err(error) => self.journal.broken("ledger", &error.to_string()),
        }
        for ended in self.cluster.unasked().await {
            // Clients of one submission end when they have their answer.
            let doomed = self.doomed.as_ref() == Some(&ended.node);
            let asked = doomed || ended.node.starts_with(['d', 'r']);
            let value = json!({"how": ended.how, "asked": asked});
            self.journal.info(&ended.node, Op::Down, "", value);
            if asked {
                continue;
            }
            let what = format!("has ended by itself, with {}", ended.how);
            self.journal.broken(&ended.node, &what);
        }
        if self.told.elapsed() >= TELL_EVERY {
            let (starts, ends) = self.watch.counts();
            let running = self.watch.running().count();
            let seconds = self.began.elapsed().as_secs();
            let kills = match self.tally.kills {
                0 => String::new(),
                kills => format!(", {kills} leaders killed, {} survived", self.tally.survived),
            };
            self.say(&format!(
                "{seconds:>4} s: {starts} attempts started, {ends} done, {running} run{kills}"
            ));
        }
    }

    /// Attempts that run, as far as the last look goes.
    pub(super) fn running_attempts(&self) -> usize {
        self.watch.running().count()
    }

    /// Waits until `condition` gives nothing to complain about; what it last complained about, where that takes too long.
    pub(super) async fn wait_until(
        &mut self,
        limit: Duration,
        mut condition: impl AsyncFnMut(&mut Self) -> Option<String>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        loop {
            let Some(complaint) = condition(self).await else {
                return Ok(());
            };
            if Instant::now() >= deadline {
                return Err(complaint);
            }
            self.pause(LOOK_EVERY).await;
        }
    }

    /// Waits until all masters are well and one leads; which. `None` where that takes too long.
    pub(super) async fn settled(&mut self) -> Option<Leader> {
        let masters = self.masters();
        let observer = self.observer.clone();
        let settled = self
            .wait_until(SETTLE_DEADLINE, async |_stage| {
                observer.masters_unwell(&masters).await
            })
            .await;
        if let Err(complaint) = settled {
            self.say(&format!("the masters are not well again: {complaint}"));
            return None;
        }
        self.leader().await
    }

    /// Who leads now, as the masters themselves say it.
    pub(super) async fn leader(&mut self) -> Option<Leader> {
        let masters = self.masters();
        self.observer.leader(&masters).await
    }

    /// Waits until a master other than `old` leads in a larger epoch.
    pub(super) async fn next_leader(&mut self, old: &Leader, limit: Duration) -> Option<Leader> {
        let masters = self.masters();
        let observer = self.observer.clone();
        let mut found = None;
        let waited = self
            .wait_until(limit, async |_stage| {
                found = observer
                    .leader(&masters)
                    .await
                    .filter(|leader| leader.epoch > old.epoch);
                found.is_none().then(|| "nobody else leads".to_owned())
            })
            .await;
        waited.ok().and(found)
    }

    /// Submits one job now, with a client of the harness that knows all masters.
    pub(super) fn probe(&mut self) -> Result<Probe, LiveError> {
        self.tally.probes += 1;
        let id = format!("probe-{}", self.tally.probes);
        let requests = self.requests("probe", &self.cluster.places.masters_list())?;
        let name = id.clone();
        let task = tokio::spawn(async move { requests.submit(&name, &JobKind::PLAIN).await });
        Ok(Probe { id, task })
    }

    /// Waits for the answer to a probe.
    pub(super) async fn probed(&mut self, probe: Probe) -> Told {
        let Probe { task, .. } = probe;
        while !task.is_finished() {
            self.pause(LOOK_EVERY).await;
        }
        task.await
            .ok()
            .and_then(Result::ok)
            .unwrap_or(Told::Unknown)
    }

    /// A client of the harness that knows these masters.
    pub(super) fn requests(&self, name: &str, masters: &[String]) -> Result<Requests, LiveError> {
        let path = self.cluster.places.client_history(name);
        let notes = Notes::open(name, self.journal.clock(), &path)
            .map_err(LiveError::io(path.display().to_string()))?;
        Requests::new(masters, notes, self.site.clone()).map_err(LiveError::io("a client"))
    }
}
