//! What an agent runs: processes with supervisors of their own, which outlive neither the agent nor a lease.

use super::super::env::Env;
use super::super::env::Happening;
use super::super::env::Process;
use super::super::plan::Job;
use super::super::plant::Plant;
use super::{Agent, LEASE_WATCHED_EVERY, Running, SIGKILLED, named};
use crate::history::Kind;
use crate::history::Op;
use interrex_agent::process::EndCause;
use interrex_agent::process::Launch;
use interrex_agent::process::ProcessEvent;
use interrex_agent::process::WorkKey;
use interrex_agent::process::protocol::Lease;
use interrex_agent::process::record::AttemptRecord;
use interrex_agent::worker::Event;
use interrex_proto::v1::Exit;
use serde_json::json;
use std::time::Duration;

// === impl Agent ===

impl Agent {
    pub(super) fn launch(&mut self, launch: Launch, env: &mut Env) {
        let (runs, exits_with, stubborn) = Job::read(&launch.command);
        let record = AttemptRecord {
            key: launch.key.clone(),
            token: String::new(),
            cores: launch.cores,
            memory_mib: launch.memory_mib,
            started_at_ms: self.now(env.now).wall_ms,
            resources: launch.resources.clone(),
        };
        self.disk.attempts.insert(launch.key.clone(), record);
        let running = Running {
            exits_with,
            stubborn,
            started: true,
            lease: launch.lease,
            life: self.life,
        };
        if self.processes.insert(launch.key.clone(), running).is_some() {
            env.broken(self.node(), &format!("{} was started twice", launch.key));
        }
        let submission = launch
            .command
            .env
            .get("SUBMISSION")
            .cloned()
            .unwrap_or_default();
        let node = self.node();
        let ordered = self.ordered_by.get(&launch.key).copied();
        let (epoch, heard) = ordered.unwrap_or((launch.epoch, self.heard));
        env.trace(node, || format!("starts {} by epoch {epoch}", launch.key));
        let (id, attempt) = named(&launch.key);
        let record = env.note(node, Kind::Info, Op::Start, &id);
        record.attempt = attempt;
        record.epoch = Some(epoch);
        record.value = json!({
            "submission": submission, "heard": heard, "cores": launch.cores, "memory_mib": launch.memory_mib
        });
        let up = env
            .chance
            .time(Duration::from_millis(1), Duration::from_millis(40));
        let of = |what| Happening::Process(self.index, self.life, launch.key.clone(), what);
        let (started, exits) = (of(Process::Started), of(Process::Exits));
        let watched = of(Process::Lease);
        env.after(up, started);
        env.after(up + runs, exits);
        if launch.lease.is_some() {
            env.after(LEASE_WATCHED_EVERY, watched);
        }
    }

    /// As the supervisors do: a lease that is over stays over, and none is ever shortened.
    pub(super) fn renew(&mut self, lease: Lease) {
        for process in self.processes.values_mut() {
            if let Some(held) = &mut process.lease {
                held.until_ms = held.until_ms.max(lease.until_ms);
            }
        }
    }

    pub(super) fn watch_lease(&mut self, key: &WorkKey, process: &Running, env: &mut Env) {
        let Some(lease) = process.lease else { return };
        let of = |what| Happening::Process(self.index, process.life, key.clone(), what);
        if env.now.0 / 1_000 < lease.until_ms {
            env.after(LEASE_WATCHED_EVERY, of(Process::Lease));
            return;
        }
        env.hit("lease-over");
        let wait = if process.stubborn {
            Duration::from_millis(lease.grace_ms)
        } else {
            env.chance
                .time(Duration::from_millis(1), Duration::from_millis(50))
        };
        let over = of(Process::LeaseOver);
        env.after(wait, over);
    }

    pub(super) fn kill(&mut self, key: &WorkKey, grace: Duration, env: &mut Env) {
        let Some(process) = self.processes.get(key) else {
            return;
        };
        if env.plant == Some(Plant::OrphanOnKill) && env.chance.percent(50.0) {
            // It is said to be gone, and is not.
            let orphan = process.clone();
            self.over(key, SIGKILLED, EndCause::Order, env);
            self.processes.insert(key.clone(), orphan);
            return;
        }
        let wait = if process.stubborn {
            grace
        } else {
            env.chance
                .time(Duration::from_millis(1), Duration::from_millis(200))
        };
        let life = process.life;
        env.after(
            wait,
            Happening::Process(self.index, life, key.clone(), Process::Dies),
        );
    }

    /// Something happens to a process.
    pub(crate) fn on_process(&mut self, life: u32, key: &WorkKey, what: Process, env: &mut Env) {
        let Some(process) = self.processes.get(key).cloned() else {
            return;
        };
        match what {
            Process::Started => {
                let key = key.clone();
                self.tell(life, ProcessEvent::Started { key, pid: 1 }, env);
            }
            Process::Exits => {
                let exit = Exit {
                    code: Some(process.exits_with),
                    signal: None,
                };
                self.over(key, Some(exit), EndCause::Itself, env);
            }
            Process::Lease => self.watch_lease(key, &process, env),
            Process::LeaseOver => self.over(key, SIGKILLED, EndCause::LeaseOver, env),
            Process::Dies => {
                let cause = if self.mind.is_some() && process.life == self.life {
                    EndCause::Order
                } else {
                    EndCause::AgentGone
                };
                self.over(key, SIGKILLED, cause, env);
            }
        }
    }

    pub(super) fn over(
        &mut self,
        key: &WorkKey,
        exit: Option<Exit>,
        cause: EndCause,
        env: &mut Env,
    ) {
        let Some(process) = self.processes.remove(key) else {
            return;
        };
        let success = exit.is_some_and(|exit| exit.code == Some(0));
        let node = self.node();
        env.trace(node, || format!("{key} ends: {cause:?} {exit:?}"));
        let (id, attempt) = named(key);
        let record = env.note(node, Kind::Info, Op::End, &id);
        record.attempt = attempt;
        record.value = json!({"success": success});
        if let (EndCause::Itself, Some(exit)) = (cause, exit) {
            self.disk.endings.insert(key.clone(), exit);
        }
        if process.life == self.life {
            let key = key.clone();
            self.tell(self.life, ProcessEvent::Ended { key, exit, cause }, env);
        } else if self.mind.is_some() {
            self.tell_former(key, env);
        }
    }

    /// What a supervisor says waits in its pipe while the agent is stopped.
    pub(super) fn tell(&self, life: u32, event: ProcessEvent, env: &mut Env) {
        let told = Happening::Told(self.index, life, Box::new(event));
        env.after(Duration::ZERO, told);
    }

    /// A supervisor has said something.
    pub(crate) fn on_told(&mut self, event: ProcessEvent, env: &mut Env) {
        self.worker(Event::Process(event), env);
    }
}
