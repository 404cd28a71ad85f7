//! One piece of work, and what it holds of the machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use interrex_proto::v1::WorkerSpec;

use crate::{
    process::{Launch, WorkKey, record::AttemptRecord},
    worker::{report::EndReason, view::ProcessView},
};

/// Work that this worker has taken and that has no result yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    /// The name that people have given to it, and its program; empty where an earlier life has started it.
    name: String,
    program: String,
    pub(super) needs: Needs,
    pub(super) at_most_once: bool,
    pub(super) started_at_ms: u64,
    pub(super) pid: Option<i32>,
    pub(super) state: TaskState,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TaskState {
    /// Not started: no room yet, or an earlier attempt is still there.
    Waiting {
        launch: Box<Launch>,
        arrival: u64,
        until: Duration,
    },
    /// Handed to the runner.
    Starting,
    /// The process exists.
    Running,
    /// Its process (if there is one) is being ended.
    Ending(EndReason),
}

/// What a task holds of the machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Needs {
    pub(super) cores: u32,
    pub(super) memory_mib: u64,
    pub(super) addresses: BTreeSet<(String, String)>,
}

// === impl Task ===

impl Task {
    pub(super) fn waiting(
        launch: Launch,
        at_most_once: bool,
        arrival: u64,
        until: Duration,
    ) -> Self {
        let needs = Needs {
            cores: launch.cores,
            memory_mib: launch.memory_mib,
            addresses: pairs(&launch.resources),
        };
        let (name, program) = (launch.name.clone(), launch.command.program.clone());
        let state = TaskState::Waiting {
            launch: Box::new(launch),
            arrival,
            until,
        };
        Self {
            name,
            program,
            needs,
            at_most_once,
            started_at_ms: 0,
            pid: None,
            state,
        }
    }

    pub(super) fn former(record: &AttemptRecord) -> Self {
        let needs = Needs {
            cores: record.cores,
            memory_mib: record.memory_mib,
            addresses: pairs(&record.resources),
        };
        let state = TaskState::Ending(EndReason::FormerLife);
        Self {
            name: String::new(),
            program: String::new(),
            needs,
            at_most_once: false,
            started_at_ms: record.started_at_ms,
            pid: None,
            state,
        }
    }

    /// Whether it holds its cores, memory and addresses.
    pub(super) fn holds(&self) -> bool {
        match self.state {
            TaskState::Waiting { .. } => false,
            TaskState::Starting | TaskState::Running | TaskState::Ending(_) => true,
        }
    }

    pub(super) fn view(&self, key: &WorkKey) -> ProcessView {
        let state = match self.state {
            TaskState::Waiting { .. } => "waiting",
            TaskState::Starting => "starting",
            TaskState::Running => "running",
            TaskState::Ending(_) => "ending",
        };
        let mut resources: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (resource, address) in &self.needs.addresses {
            let of = resources.entry(resource.clone()).or_default();
            of.push(address.clone());
        }
        ProcessView {
            work: key.clone(),
            name: self.name.clone(),
            program: self.program.clone(),
            resources,
            state,
            pid: self.pid,
            cores: self.needs.cores,
            memory_mib: self.needs.memory_mib,
            started_at_ms: self.started_at_ms,
            at_most_once: self.at_most_once,
        }
    }

    /// Whether it has to end when there is no lease.
    pub(super) fn needs_lease(&self) -> bool {
        match self.state {
            TaskState::Starting | TaskState::Running => self.at_most_once,
            // One that waits is not started without a lease, and an end only has to go on.
            TaskState::Waiting { .. } | TaskState::Ending(_) => false,
        }
    }
}

fn pairs(resources: &BTreeMap<String, Vec<String>>) -> BTreeSet<(String, String)> {
    resources
        .iter()
        .flat_map(|(name, addresses)| addresses.iter().map(|at| (name.clone(), at.clone())))
        .collect()
}

// === impl Needs ===

impl Needs {
    /// Whether `self` fits beside `used` into what `spec` offers; the reason where it does not.
    pub(super) fn fits(&self, used: &Self, spec: &WorkerSpec) -> Result<(), String> {
        let cores = used.cores.saturating_add(self.cores);
        let memory_mib = used.memory_mib.saturating_add(self.memory_mib);
        if cores > spec.cores {
            return Err(format!(
                "{cores} cores would be in use, {} are offered",
                spec.cores
            ));
        }
        if memory_mib > spec.memory_mib {
            let offered = spec.memory_mib;
            return Err(format!(
                "{memory_mib} MiB would be in use, {offered} are offered"
            ));
        }
        let offered = |(name, address): &&(String, String)| {
            spec.resources
                .iter()
                .any(|it| it.name == *name && it.addresses.contains(address))
        };
        if let Some((name, address)) = self.addresses.iter().find(|it| !offered(it)) {
            return Err(format!("{name} {address} is not offered"));
        }
        match self.addresses.intersection(&used.addresses).next() {
            Some((name, address)) => Err(format!("{name} {address} is in use")),
            None => Ok(()),
        }
    }
}
