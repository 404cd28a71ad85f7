//! What the leader orders → what a worker of Spark is told, or what is answered in its place.

use futures::FutureExt;
use interrex_core::{
    command::{ProcessChange, Subject},
    ids::{AppId, Attempt, DriverId, Epoch, ExecutorId},
    state::driver::Exit,
};
use interrex_proto::v1::{self, master_frame::Body as Notice};
use interrex_spark_wire::message::ToWorker;

use super::launches::{self, driver_name};
use crate::edge::spark_rpc::{
    REQUEST_DEADLINE,
    connection::{ANSWERS_MAX, Connection, Step},
};

// === impl Connection ===

impl Connection {
    /// What the leader of `epoch` has for the worker of this connection.
    pub(in crate::edge::spark_rpc) fn worker_notice(&mut self, epoch: Epoch, body: Notice) -> Step {
        if let Notice::MasterChanged(_) = body {
            return self.lead_worker();
        }
        // What an ended leadership has left in the queue must not reach the worker, which could not tell.
        if self.rpc.handle.port().map(|port| port.epoch).ok() != Some(epoch) {
            return Step::default();
        }
        match body {
            Notice::LaunchExecutor(launch) => self.launch_executor(&launch),
            Notice::KillExecutor(kill) => self.kill_executor(kill),
            Notice::LaunchDriver(launch) => self.launch_driver(epoch, &launch),
            Notice::KillDriver(kill) => self.kill_driver(&kill),
            Notice::Reregister(_) => self.lead_worker(),
            Notice::Refused(refused) if refused.permanent => {
                let message = refused.reason;
                self.to_worker(ToWorker::RegisterWorkerFailed { message })
            }
            Notice::Refused(_)
            | Notice::Standby(_)
            | Notice::Registered(_)
            | Notice::MasterChanged(_)
            | Notice::ReportAck(_)
            | Notice::HeartbeatAck(_)
            | Notice::Masters(_)
            | Notice::ExecutorAdded(_)
            | Notice::ExecutorUpdated(_)
            | Notice::WorkerRemoved(_)
            | Notice::ApplicationRemoved(_) => Step::default(),
        }
    }

    fn worker_has(&self, subject: &Subject) -> bool {
        self.worker
            .as_ref()
            .is_some_and(|w| w.has.contains(subject))
    }

    /// A repeat would end the executor that runs: its folder is there already.
    fn launch_executor(&mut self, launch: &v1::LaunchExecutor) -> Step {
        let (app, executor) = (
            AppId::from(launch.app_id.clone()),
            ExecutorId(launch.executor_id),
        );
        let view = self.rpc.handle.view();
        let record = view.app(&app);
        let subject = Subject::Executor {
            app: app.clone(),
            executor,
        };
        if self.worker_has(&subject) {
            return Step::default();
        }
        let built = match record {
            Some(record) => launches::executor(launch, &record.spec, &self.master_url()),
            None => Err("its application is not known".to_owned()),
        };
        match built {
            Ok(message) => {
                if let Some(worker) = &mut self.worker {
                    worker.note(subject);
                }
                self.to_worker(message)
            }
            Err(reason) => Step::report(subject, ProcessChange::Failed(reason)),
        }
    }

    /// A worker says nothing about what it does not have.
    fn kill_executor(&mut self, kill: v1::KillExecutor) -> Step {
        let v1::KillExecutor {
            app_id,
            executor_id,
        } = kill;
        let subject = Subject::Executor {
            app: AppId::from(app_id.clone()),
            executor: ExecutorId(executor_id),
        };
        let id = i32::try_from(executor_id).ok();
        let (true, Some(id)) = (self.worker_has(&subject), id) else {
            return Step::report(subject, ProcessChange::Killed(Exit::default()));
        };
        let master_url = self.master_url();
        self.to_worker(ToWorker::KillExecutor {
            master_url,
            app_id,
            id,
        })
    }

    /// The worker obeys whoever sends this, so the quorum is asked first whether this master leads.
    fn launch_driver(&mut self, epoch: Epoch, launch: &v1::LaunchDriver) -> Step {
        let subject = Subject::Driver {
            driver: DriverId::from(launch.driver_id.clone()),
            attempt: Attempt(launch.attempt),
        };
        if self.worker_has(&subject) {
            return Step::default();
        }
        let masters = self.rpc.handle.status().masters;
        let masters: Vec<_> = masters.into_iter().map(|m| m.rpc).collect();
        let message = match launches::driver(launch, &masters.join(",")) {
            Ok(message) => message,
            Err(reason) => return Step::report(subject, ProcessChange::Failed(reason)),
        };
        // It comes again if it is not answered.
        let frame = self.to_worker(message).frames.pop();
        let (Some(frame), true) = (frame, self.answers.len() < ANSWERS_MAX) else {
            return Step::default();
        };
        if let Some(worker) = &mut self.worker {
            worker.note(subject.clone());
        }
        let handle = self.rpc.handle.clone();
        let launch = async move {
            match handle.read(REQUEST_DEADLINE).await {
                // Spark's workers do not say that a driver has started.
                Ok(view) if view.epoch() == epoch => Step {
                    frames: vec![frame],
                    reports: vec![(subject, ProcessChange::Running)],
                    ..Step::default()
                },
                Ok(_) | Err(_) => Step {
                    forget: Some(subject),
                    ..Step::default()
                },
            }
        };
        self.answers.push(launch.boxed());
        Step::default()
    }

    /// This attempt and every smaller one.
    fn kill_driver(&mut self, kill: &v1::KillDriver) -> Step {
        let wanted = Subject::Driver {
            driver: DriverId::from(kill.driver_id.clone()),
            attempt: Attempt(kill.attempt),
        };
        let mut step = Step::default();
        if !self.worker_has(&wanted) {
            step = Step::report(wanted, ProcessChange::Killed(Exit::default()));
        }
        let has = self.worker.as_ref().map(|w| w.has.clone());
        for subject in has.unwrap_or_default() {
            if let Subject::Driver { driver, attempt } = subject
                && driver.as_str() == kill.driver_id
                && attempt.0 <= kill.attempt
            {
                let id = driver_name(&kill.driver_id, attempt.0);
                step = super::then(step, self.to_worker(ToWorker::KillDriver { id }));
            }
        }
        step
    }
}
