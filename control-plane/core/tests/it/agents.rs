//! Honest agents for the property tests: they carry out orders, remember what they ran, and repeat reports until these
//! are acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use interrex_core::{
    command::{Command, ProcessChange, Report, Subject},
    effect::{Effect, WorkerOrder},
    ids::{Attempt, ReportSequence, WorkerId},
    spec::WorkerSpec,
    time::Timestamp,
};

use crate::support::{Cluster, exited, killed, secs};

/// Rounds that a driver runs before it exits with 0.
const ROUNDS_PER_DRIVER: u32 = 3;

#[derive(Default)]
struct Agent {
    running: BTreeMap<Subject, u32>,
    results: BTreeMap<Subject, ProcessChange>,
    outbox: BTreeMap<u64, (Subject, ProcessChange)>,
    sequence: u64,
}

impl Agent {
    fn say(&mut self, subject: Subject, change: ProcessChange) {
        self.sequence += 1;
        self.outbox.insert(self.sequence, (subject, change));
    }

    fn end(&mut self, subject: Subject, change: ProcessChange) {
        self.running.remove(&subject);
        self.results.insert(subject.clone(), change.clone());
        self.say(subject, change);
    }

    /// True if it starts now.
    fn launch(&mut self, subject: &Subject) -> bool {
        if let Some(result) = self.results.get(subject).cloned() {
            self.say(subject.clone(), result);
            return false;
        }
        let new = self
            .running
            .insert(subject.clone(), ROUNDS_PER_DRIVER)
            .is_none();
        self.say(subject.clone(), ProcessChange::Running);
        new
    }

    fn kill(&mut self, subject: Subject) {
        match self.results.get(&subject).cloned() {
            Some(result) => self.say(subject, result),
            None => self.end(subject, killed()),
        }
    }
}

/// All agents.
#[derive(Default)]
pub(crate) struct Agents {
    agents: BTreeMap<WorkerId, Agent>,
    /// Every start of a process: never the same one twice.
    pub(crate) starts: Vec<(WorkerId, Subject)>,
}

impl Agents {
    /// A fresh agent registers with nothing.
    pub(crate) fn join(&mut self, cluster: &mut Cluster, id: &str, spec: WorkerSpec) {
        self.agents.insert(id.into(), Agent::default());
        let transition = cluster.register(id, spec);
        self.obey(&transition.effects);
    }

    pub(crate) fn running(&self) -> usize {
        self.agents.values().map(|agent| agent.running.len()).sum()
    }

    pub(crate) fn obey(&mut self, effects: &[Effect]) {
        for effect in effects {
            let Effect::Worker { worker, order } = effect else {
                continue;
            };
            let Some(agent) = self.agents.get_mut(worker) else {
                continue;
            };
            match order.clone() {
                WorkerOrder::LaunchDriver {
                    driver, attempt, ..
                } => {
                    let subject = Subject::Driver { driver, attempt };
                    if agent.launch(&subject) {
                        self.starts.push((worker.clone(), subject));
                    }
                }
                WorkerOrder::LaunchExecutor { app, executor, .. } => {
                    let subject = Subject::Executor { app, executor };
                    if agent.launch(&subject) {
                        self.starts.push((worker.clone(), subject));
                    }
                }
                WorkerOrder::KillDriver { driver, attempt } => {
                    for attempt in (1..=attempt.0).map(Attempt) {
                        agent.kill(Subject::Driver {
                            driver: driver.clone(),
                            attempt,
                        });
                    }
                }
                WorkerOrder::KillExecutor { app, executor } => {
                    agent.kill(Subject::Executor { app, executor });
                }
                WorkerOrder::Acknowledge { sequences } => {
                    for ReportSequence(sequence) in sequences {
                        agent.outbox.remove(&sequence);
                    }
                }
            }
        }
    }

    /// A second passes: work goes on, reports are sent, a tick. With `lost`, nothing gets through.
    pub(crate) fn round(&mut self, cluster: &mut Cluster, lost: bool) {
        for agent in self.agents.values_mut() {
            let mut done = BTreeSet::new();
            for (subject, left) in &mut agent.running {
                *left = left.saturating_sub(1);
                if *left == 0 && matches!(subject, Subject::Driver { .. }) {
                    done.insert(subject.clone());
                }
            }
            for subject in done {
                agent.end(subject, exited(0));
            }
        }
        let tick = cluster.tick_after(secs(1));
        if lost {
            return;
        }
        self.obey(&tick.effects);
        let reports: Vec<_> = self
            .agents
            .iter()
            .flat_map(|(id, agent)| {
                agent
                    .outbox
                    .iter()
                    .map(move |(n, (s, c))| (id.clone(), *n, s.clone(), c.clone()))
            })
            .collect();
        for (worker, sequence, subject, change) in reports {
            let report = Report {
                sequence: ReportSequence(sequence),
                at: Timestamp(cluster.now),
                subject,
                change,
            };
            let transition = cluster.apply(Command::Report { worker, report });
            self.obey(&transition.effects);
        }
    }
}
