//! Each entity by itself, and what it refers to.

use super::Faults;
use crate::{
    ids::Attempt,
    state::{
        cluster::ClusterState,
        driver::{Driver, DriverState},
        index::timers::Timer,
        meta::Created,
        worker::WorkerState,
    },
};

// === impl ClusterState ===

impl ClusterState {
    pub(super) fn check_drivers(&self, faults: &mut Faults) {
        for (id, driver) in &self.drivers {
            self.check_driver(driver, faults);
            faults.check(*id == driver.id, || format!("driver {id} is filed wrongly"));
            let number = id
                .as_str()
                .rsplit('-')
                .next()
                .and_then(|n| n.parse::<u64>().ok());
            faults.check(number.is_none_or(|n| n < self.meta.next_driver), || {
                format!(
                    "driver {id} is not below the counter {}",
                    self.meta.next_driver
                )
            });
            faults.check(driver.queue < self.meta.next_queue, || {
                format!(
                    "driver {id}: queue {:?} is not below {:?}",
                    driver.queue, self.meta.next_queue
                )
            });
            let request = self.requests.get(&driver.submission);
            let names_it = request.is_some_and(|r| r.created == Created::Driver(id.clone()));
            faults.check(names_it || !self.is_whole(), || {
                format!(
                    "driver {id}: its request {} does not name it",
                    driver.submission
                )
            });
        }
        let max = self
            .config
            .max_drivers
            .map_or(usize::MAX, |max| max as usize);
        faults.check(
            self.index.placed_drivers.len() <= max || !self.is_whole(),
            || {
                format!(
                    "{} drivers are placed, at most {max} may be",
                    self.index.placed_drivers.len()
                )
            },
        );
    }

    fn check_driver(&self, driver: &Driver, faults: &mut Faults) {
        let (id, state) = (&driver.id, driver.state);
        faults.check(state.is_final() == driver.finished_at.is_some(), || {
            format!(
                "driver {id} is {} and finished at {:?}",
                state.name(),
                driver.finished_at
            )
        });
        faults.check(state.is_placed() || driver.resources.is_empty(), || {
            format!(
                "driver {id} is {} and holds {:?}",
                state.name(),
                driver.resources
            )
        });
        faults.check(
            (state != DriverState::Submitted) || driver.attempt == Attempt(0),
            || format!("driver {id} is SUBMITTED at attempt {}", driver.attempt),
        );
        faults.check(
            driver.not_before.is_none() || state == DriverState::Relaunching,
            || {
                format!(
                    "driver {id} is {} and waits until {:?}",
                    state.name(),
                    driver.not_before
                )
            },
        );
        if state.is_placed() {
            let worker = driver
                .worker
                .as_ref()
                .and_then(|worker| self.workers.get(worker));
            let there = worker.is_some_and(|worker| worker.state != WorkerState::Dead);
            faults.check(there || !self.is_whole(), || {
                format!(
                    "driver {id} is {} on {:?}, which is not there",
                    state.name(),
                    driver.worker
                )
            });
            faults.check(driver.attempt > Attempt(0), || {
                format!("driver {id} is placed at attempt 0")
            });
        }
    }

    pub(super) fn check_apps(&self, faults: &mut Faults) {
        for (id, app) in &self.apps {
            faults.check(*id == app.id, || {
                format!("application {id} is filed wrongly")
            });
            let number = id
                .as_str()
                .rsplit('-')
                .next()
                .and_then(|n| n.parse::<u64>().ok());
            faults.check(number.is_none_or(|n| n < self.meta.next_app), || {
                format!(
                    "application {id} is not below the counter {}",
                    self.meta.next_app
                )
            });
            faults.check(app.queue < self.meta.next_queue, || {
                format!(
                    "application {id}: queue {:?} is not below {:?}",
                    app.queue, self.meta.next_queue
                )
            });
            faults.check(app.state.is_final() == app.finished_at.is_some(), || {
                format!(
                    "application {id} is {} and finished at {:?}",
                    app.state.name(),
                    app.finished_at
                )
            });
            let request = self.requests.get(&app.request);
            let names_it = request.is_some_and(|r| r.created == Created::App(id.clone()));
            faults.check(names_it || !self.is_whole(), || {
                format!(
                    "application {id}: its request {} does not name it",
                    app.request
                )
            });
            let cores: u64 = self
                .executors_of(id)
                .filter(|executor| !executor.state.is_final() && !executor.drained)
                .map(|executor| u64::from(executor.cores.0))
                .sum();
            let max = app.spec.cores_max.map_or(u64::MAX, |max| u64::from(max.0));
            faults.check(cores <= max, || {
                format!("application {id} has {cores} cores of {max}")
            });
        }
    }

    pub(super) fn check_executors(&self, faults: &mut Faults) {
        for ((app, id), executor) in &self.executors {
            let name = format!("executor {app}/{id}");
            faults.check((app, id) == (&executor.app, &executor.id), || {
                format!("{name} is filed wrongly")
            });
            faults.check(
                executor.state.is_final() == executor.finished_at.is_some(),
                || {
                    format!(
                        "{name} is {} and finished at {:?}",
                        executor.state.name(),
                        executor.finished_at
                    )
                },
            );
            if let Some(app) = self.apps.get(app) {
                faults.check(*id < app.next_executor, || {
                    format!("{name} is not below the counter {}", app.next_executor)
                });
                let known = app.needs(executor.profile).is_some();
                faults.check(known || !self.is_whole(), || {
                    format!("{name} is of the unknown profile {}", executor.profile)
                });
                faults.check(
                    !app.state.is_final() || !executor.state.may_run() || !self.is_whole(),
                    || {
                        format!(
                            "{name} is {}, its application is over",
                            executor.state.name()
                        )
                    },
                );
            } else {
                faults.check(!self.is_whole(), || format!("{name} has no application"));
            }
            if !executor.state.is_final() {
                let worker = self.workers.get(&executor.worker);
                let there = worker.is_some_and(|worker| worker.state != WorkerState::Dead);
                faults.check(there || !self.is_whole(), || {
                    format!("{name} is on {}, which is not there", executor.worker)
                });
            }
        }
    }

    pub(super) fn check_requests(&self, faults: &mut Faults) {
        for (id, request) in &self.requests {
            let named = match &request.created {
                Created::Driver(driver) => {
                    self.drivers.get(driver).map(|driver| &driver.submission)
                }
                Created::App(app) => self.apps.get(app).map(|app| &app.request),
                Created::Killed(_) | Created::Count(_) => None,
            };
            let timer = self.index.timers.get(&Timer::Request(id.clone()));
            match named {
                Some(named) => faults.check(named == id || !self.is_whole(), || {
                    format!(
                        "request {id} created {:?}, which names {named}",
                        request.created
                    )
                }),
                None => faults.check(timer.is_some(), || {
                    format!(
                        "request {id} is kept for ever, and nothing names it: {:?}",
                        request.created
                    )
                }),
            }
        }
    }
}
