//! Some masters in a simulated network, their faults, and what came of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
    rc::Rc,
    time::Duration,
};

use futures::FutureExt;
use interrex_persistence::{
    backend::{Backend, Freshness},
    offline,
    record::RecordKey,
    record_store::RecordStore,
};
use tempfile::TempDir;
use turmoil::Sim;

use super::{
    faults::{Dice, Fault, lose_unsynced},
    master::{self, Host, Shared, name},
};

/// How finely the simulation looks at time.
const TICK: Duration = Duration::from_millis(2);
/// Simulated time with faults, and how much more everything may take to come to rest.
const TROUBLE: Duration = Duration::from_secs(6);
const CONVERGENCE_MAX: Duration = Duration::from_secs(20);
/// In real time: how long threads of a master that has crashed may take to end.
const CLOSING_MAX: Duration = Duration::from_secs(20);
/// What disks that lie lose of what they have synced: some batches.
const LIE_BYTES: u64 = 4096;
/// Further batches that must be acknowledged once the faults are over.
const QUIET_BATCHES: usize = 10;

/// One run.
pub(super) struct World {
    seed: u64,
    dice: Dice,
    temp: TempDir,
    hosts: Vec<Host>,
    shared: Shared,
    told: Vec<String>,
    /// Disks lose the last of what they have synced, too.
    disks_lie: bool,
}

/// How a run went.
pub(super) struct Story {
    pub(super) violations: Vec<String>,
    pub(super) told: Vec<String>,
    acknowledged: usize,
    epochs: usize,
    lost_bytes: u64,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} batches acknowledged in {} epochs, {} faults, {} bytes of logs lost",
            self.acknowledged,
            self.epochs,
            self.told.len(),
            self.lost_bytes
        )
    }
}

/// The keys in a store.
fn keys(store: &RecordStore) -> BTreeSet<u64> {
    let key = |key: &RecordKey| key.id.parse().unwrap();
    store.iter().map(|(at, _)| key(at)).collect()
}

/// A store in words that are equal where the stores are.
fn words(store: &RecordStore) -> String {
    let records: Vec<_> = store.iter().collect();
    format!("seq {} {records:?}", store.seq())
}

/// Waits until nothing in this process has a file of `dir` open: the threads of a log that is dropped end a little later.
fn wait_closed(dir: &Path) {
    let open = || {
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let files = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        files.filter(|file| file.starts_with(dir)).count()
    };
    let began = std::time::Instant::now();
    while open() > 0 {
        assert!(began.elapsed() < CLOSING_MAX, "files stay open");
        std::thread::sleep(TICK);
    }
}

// === impl World ===

impl World {
    /// A world with `masters` of them.
    pub(super) fn new(masters: usize, seed: u64) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let hosts = (0..masters).map(|n| Host::new(n, temp.path()));
        Self {
            seed,
            dice: Dice::new(seed),
            hosts: hosts.collect(),
            temp,
            shared: Shared::default(),
            told: Vec::new(),
            disks_lie: false,
        }
    }

    /// The same with disks that break their word, which no master can make up for: something must be found.
    pub(super) fn with_lying_disks(masters: usize, seed: u64) -> Self {
        Self {
            disks_lie: true,
            ..Self::new(masters, seed)
        }
    }

    /// The whole run: trouble, then peace.
    pub(super) fn run(mut self) -> Story {
        let mut sim = turmoil::Builder::new()
            .simulation_duration(TROUBLE + 2 * CONVERGENCE_MAX)
            .tick_duration(TICK)
            .rng_seed(self.seed)
            .enable_random_order()
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(8))
            .tcp_capacity(4096)
            .build();
        (0..self.hosts.len()).for_each(|n| self.settle(&mut sim, n));
        let mut lost_bytes = 0;
        let mut next = self.dice.millis(500, 1500);
        while sim.elapsed() < TROUBLE {
            self.step(&mut sim);
            if sim.elapsed() < next {
                continue;
            }
            let leader = *self.shared.leader.borrow();
            let mut fault = self.dice.fault(self.hosts.len(), leader);
            if self.disks_lie {
                fault = Fault::Blackout;
            }
            self.told.push(format!("{:?} {fault:?}", sim.elapsed()));
            lost_bytes += self.strike(&mut sim, fault);
            let length = self.dice.millis(100, 1500);
            self.pass(&mut sim, length);
            self.heal(&mut sim);
            next = sim.elapsed() + self.dice.millis(50, 1200);
        }
        self.converge(&mut sim);
        self.compare(&mut sim);
        drop(sim);
        self.compare_directories();
        let mut history = self.shared.history.borrow_mut();
        Story {
            violations: std::mem::take(&mut history.violations),
            told: self.told,
            acknowledged: history.acknowledged(),
            epochs: history.leaders(),
            lost_bytes,
        }
    }

    /// A host that runs a master whenever it is up.
    fn settle(&self, sim: &mut Sim<'_>, n: usize) {
        let host = &self.hosts[n];
        let (dir, life, shared) = (host.dir.clone(), Rc::clone(&host.life), self.shared.clone());
        let count = self.hosts.len();
        sim.host(host.name.as_str(), move || {
            master::live(n, count, dir.clone(), Rc::clone(&life), shared.clone())
        });
    }

    fn step(&mut self, sim: &mut Sim<'_>) {
        if let Err(error) = sim.step() {
            let text = format!("a master has ended: {error}");
            self.shared.history.borrow_mut().violations.push(text);
        }
    }

    fn pass(&mut self, sim: &mut Sim<'_>, time: Duration) {
        let end = sim.elapsed() + time;
        while sim.elapsed() < end {
            self.step(sim);
        }
    }

    /// Does it; how many bytes were lost by it.
    fn strike(&mut self, sim: &mut Sim<'_>, fault: Fault) -> u64 {
        match fault {
            Fault::Alone(n) => {
                for other in (0..self.hosts.len()).filter(|other| *other != n) {
                    sim.partition(name(n), name(other));
                }
                0
            }
            Fault::Pair(one, two) => {
                for other in (0..self.hosts.len()).filter(|other| ![one, two].contains(other)) {
                    sim.partition(name(one), name(other));
                    sim.partition(name(two), name(other));
                }
                0
            }
            Fault::Apart(n, other) => {
                sim.partition(name(n), name(other));
                0
            }
            Fault::Deaf(from, to) => {
                sim.partition_oneway(name(from), name(to));
                0
            }
            Fault::Crash(n) => self.crash(sim, n),
            Fault::Blackout => (0..self.hosts.len()).map(|n| self.crash(sim, n)).sum(),
        }
    }

    fn crash(&mut self, sim: &mut Sim<'_>, n: usize) -> u64 {
        let host = &mut self.hosts[n];
        // Before the end: what is acknowledged to a process that is gone has not been acknowledged.
        let synced = host.life.borrow().disk.synced_bytes();
        host.life.borrow_mut().backend = None;
        sim.crash(name(n));
        host.crashed = true;
        wait_closed(&host.dir);
        // A life that wrote nothing cannot say how much of the log is older, and so safe.
        if synced == 0 {
            return 0;
        }
        if self.disks_lie {
            return lose_unsynced(&host.dir, synced.saturating_sub(LIE_BYTES), None);
        }
        lose_unsynced(&host.dir, synced, Some(&mut self.dice))
    }

    fn heal(&mut self, sim: &mut Sim<'_>) {
        for n in 0..self.hosts.len() {
            for other in 0..n {
                sim.repair(name(n), name(other));
            }
            if std::mem::take(&mut self.hosts[n].crashed) {
                sim.bounce(name(n));
            }
        }
    }

    /// Without faults there is a leader again, it commits, and then everybody has the same.
    fn converge(&mut self, sim: &mut Sim<'_>) {
        self.told.push(format!("{:?} peace", sim.elapsed()));
        let enough = self.shared.history.borrow().acknowledged() + QUIET_BATCHES;
        let acknowledged = |world: &Self| world.shared.history.borrow().acknowledged() >= enough;
        self.wait(sim, "commits again", acknowledged);
        *self.shared.quiet.borrow_mut() = true;
        self.wait(sim, "the same records everywhere", |world| {
            let all = world.stores();
            Rc::strong_count(&world.shared.under_way.0) == 1
                && all.len() == world.hosts.len()
                && all.windows(2).all(|two| {
                    two[0].opened() == two[1].opened() && words(&two[0]) == words(&two[1])
                })
        });
    }

    fn wait(&mut self, sim: &mut Sim<'_>, what: &str, done: impl Fn(&Self) -> bool) {
        let end = sim.elapsed() + CONVERGENCE_MAX;
        while !done(self) {
            if sim.elapsed() > end {
                let text = format!("{CONVERGENCE_MAX:?} of peace, and still not: {what}");
                self.shared.history.borrow_mut().violations.push(text);
                return;
            }
            self.pass(sim, 20 * TICK);
        }
    }

    /// The records of all masters that run.
    fn stores(&self) -> Vec<RecordStore> {
        let backends = self
            .hosts
            .iter()
            .filter_map(|host| host.life.borrow().backend.clone());
        let cut = |backend: Backend| {
            let cut = backend.admin.snapshot(Freshness::AsKnown).now_or_never();
            cut.expect("answered from memory").unwrap().store
        };
        backends.map(cut).collect()
    }

    /// Everybody has everything, and ends, so that it is all on the disks.
    fn compare(&mut self, sim: &mut Sim<'_>) {
        for (n, store) in self.stores().iter().enumerate() {
            let mut history = self.shared.history.borrow_mut();
            history.expect_all(&name(n), &keys(store));
        }
        *self.shared.end.borrow_mut() = true;
        self.wait(sim, "the end of all masters", |world| {
            world.stores().is_empty()
        });
    }

    /// What logs and snapshots say by themselves.
    fn compare_directories(&self) {
        let mut all = BTreeMap::new();
        for host in &self.hosts {
            let place = format!("the directory of {}", host.name);
            let mut history = self.shared.history.borrow_mut();
            let read = match offline::read(&self.temp.path().join(&host.name)) {
                Ok(read) => read,
                Err(error) => {
                    let text = format!("{place} cannot be read: {error}");
                    history.violations.push(text);
                    continue;
                }
            };
            let store = read.cut.store;
            history.expect_all(&place, &keys(&store));
            let (seq, unconfirmed) = (store.seq(), read.unconfirmed_entries);
            let last = keys(&store).last().copied();
            let summary =
                format!("{place}: sequence {seq}, last {last:?}, {unconfirmed} unconfirmed");
            all.insert(words(&store), summary);
        }
        if all.len() > 1 {
            let text = format!("not the same: {:?}", all.into_values());
            self.shared.history.borrow_mut().violations.push(text);
        }
    }
}
