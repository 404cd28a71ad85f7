//! What a worker of Spark says of what it runs → the commands that an agent's reports become.

use interrex_core::{
    command::{Command, ProcessChange, Report, Subject, WorkersNamed},
    ids::{AppId, ExecutorId, ReportSequence, WorkerId},
    state::driver::Exit,
};
use interrex_spark_wire::{
    Frame,
    message::{DriverState, EndpointRef, ExecutorReport, ExecutorState, ToWorker},
};

use super::{KnownWorker, launches};
use crate::{
    edge::{
        spark_rpc::{
            REQUEST_DEADLINE,
            connection::{Connection, KnownPeer, Step},
            inbound::boolean,
        },
        validate,
    },
    runtime::handle::MasterHandle,
};

/// Why a worker is drained that leaves by itself.
const LEAVES: &str = "Spark has decommissioned the worker";

// === impl Connection ===

impl Connection {
    /// `ExecutorStateChanged`: answered when it is durable, else the worker says it again.
    pub(in crate::edge::spark_rpc) fn executor_changed(
        &mut self,
        id: Option<i64>,
        report: ExecutorReport,
    ) -> Step {
        let (Some(worker), Ok(executor)) = (&mut self.worker, u32::try_from(report.id)) else {
            return self.fail(id, "message", "a worker that has not registered here");
        };
        let subject = Subject::Executor {
            app: AppId::from(report.app_id.clone()),
            executor: ExecutorId(executor),
        };
        let Some(change) = executor_change(report) else {
            return id.map_or_else(Step::default, |id| Step::send(boolean(id, true)));
        };
        if change != ProcessChange::Running {
            worker.has.remove(&subject);
        }
        let command = self.report_command(subject, change);
        let (Some(id), Some(command)) = (id, command) else {
            return Step::default();
        };
        let handle: MasterHandle = self.rpc.handle.clone();
        self.answer_later(id, async move {
            match handle.submit(command, REQUEST_DEADLINE).await {
                Ok(_done) => boolean(id, true),
                Err(error) => Frame::Failure {
                    id,
                    text: error.to_string(),
                },
            }
        })
    }

    /// `DriverStateChanged`: comes once, and is not answered.
    pub(in crate::edge::spark_rpc) fn driver_changed(
        &mut self,
        name: &str,
        state: DriverState,
        exception: Option<String>,
    ) -> Step {
        let (Some(worker), Some(subject)) = (&mut self.worker, launches::driver_subject(name))
        else {
            return self.fail(None, "message", "it is about a driver that is none of ours");
        };
        let exit = |code| Exit {
            code: Some(code),
            signal: None,
        };
        let change = match state {
            DriverState::Finished => ProcessChange::Exited(exit(0)),
            // Spark does not say with which code.
            DriverState::Failed => ProcessChange::Exited(exit(1)),
            DriverState::Killed => ProcessChange::Killed(Exit::default()),
            DriverState::Error => ProcessChange::Failed(validate::cut_message(
                exception.unwrap_or_else(|| "the worker could not start it".to_owned()),
            )),
            DriverState::Submitted
            | DriverState::Running
            | DriverState::Relaunching
            | DriverState::Unknown => return Step::default(),
        };
        worker.has.remove(&subject);
        Step::report(subject, change)
    }

    /// `WorkerDecommissioning`: it gets no more work; what runs there may end.
    pub(in crate::edge::spark_rpc) fn worker_leaves(&self, id: String) -> Step {
        if self.worker.as_ref().is_none_or(|w| w.id.as_str() != id) {
            return self.fail(None, "message", "a worker that has not registered here");
        }
        let worker = WorkerId::from(id);
        let command = Command::DrainWorkers {
            request: None,
            workers: WorkersNamed::Id(worker.clone()),
            deadline: None,
            reason: LEAVES.to_owned(),
        };
        let drained =
            self.rpc
                .handle
                .enqueue_for_session(command, REQUEST_DEADLINE, move |outcome| match outcome {
                    Ok(_drained) => tracing::info!(%worker, "a worker of Spark leaves"),
                    Err(error) => {
                        tracing::warn!(%worker, %error, "a worker that leaves is not drained")
                    }
                });
        if let Err(error) = drained {
            tracing::info!(%error, "a worker that leaves is not drained");
        }
        Step::default()
    }

    /// `Heartbeat`. One that this connection does not know is asked to register.
    pub(in crate::edge::spark_rpc) fn worker_beats(
        &mut self,
        id: &str,
        endpoint: EndpointRef,
    ) -> Step {
        if self.worker.as_ref().is_some_and(|w| w.id.as_str() == id) {
            return self.worker_lives();
        }
        let (Ok(_leads), Some(address)) = (self.rpc.handle.port(), endpoint.address) else {
            return Step::default();
        };
        let peer = KnownPeer {
            address,
            endpoint: endpoint.name,
        };
        let stranger = KnownWorker::new(WorkerId::from(id.to_owned()), peer, self.rpc.me.clone());
        let master_url = self.master_url();
        let known = self.worker.replace(stranger);
        let step = self.to_worker(ToWorker::ReconnectWorker { master_url });
        self.worker = known;
        step
    }

    /// A report of the worker of this connection, or in its place. What is not taken is asked for again.
    pub(in crate::edge::spark_rpc) fn report(&mut self, subject: Subject, change: ProcessChange) {
        let Some(command) = self.report_command(subject, change) else {
            return;
        };
        let deadline = tokio::time::Instant::now() + REQUEST_DEADLINE;
        if let Err(error) = self.rpc.handle.enqueue(command, deadline, None) {
            tracing::debug!(%error, "a report about a worker of Spark is not taken");
        }
    }

    fn report_command(&mut self, subject: Subject, change: ProcessChange) -> Option<Command> {
        let at = self.rpc.handle.now();
        let worker = self.worker.as_mut()?;
        worker.sequence += 1;
        Some(Command::Report {
            worker: worker.id.clone(),
            report: Report {
                sequence: ReportSequence(worker.sequence),
                at,
                subject,
                change,
            },
        })
    }

    /// What was to be started has not been.
    pub(in crate::edge::spark_rpc) fn worker_has_not(&mut self, subject: &Subject) {
        if let Some(worker) = &mut self.worker {
            worker.has.remove(subject);
        }
    }
}

/// Nothing where nothing has become of it yet.
fn executor_change(report: ExecutorReport) -> Option<ProcessChange> {
    let exit = Exit {
        code: report.exit_status,
        signal: None,
    };
    let message = validate::cut_message(report.message.unwrap_or_default());
    Some(match report.state {
        ExecutorState::Launching | ExecutorState::Decommissioned => return None,
        ExecutorState::Running => ProcessChange::Running,
        ExecutorState::Killed => ProcessChange::Killed(exit),
        ExecutorState::Exited => ProcessChange::Exited(exit),
        ExecutorState::Failed | ExecutorState::Lost => ProcessChange::Failed(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_of_an_executor_becomes_its_change() {
        let change = |state, exit_status| {
            executor_change(ExecutorReport {
                app_id: "app-1".to_owned(),
                id: 0,
                state,
                message: Some("m".to_owned()),
                exit_status,
            })
        };
        assert_eq!(change(ExecutorState::Launching, None), None);
        assert_eq!(
            change(ExecutorState::Running, None),
            Some(ProcessChange::Running)
        );
        let exit = Exit {
            code: Some(137),
            signal: None,
        };
        assert_eq!(
            change(ExecutorState::Exited, Some(137)),
            Some(ProcessChange::Exited(exit))
        );
        assert_eq!(
            change(ExecutorState::Killed, None),
            Some(ProcessChange::Killed(Exit::default()))
        );
        assert_eq!(
            change(ExecutorState::Failed, None),
            Some(ProcessChange::Failed("m".to_owned()))
        );
    }
}
