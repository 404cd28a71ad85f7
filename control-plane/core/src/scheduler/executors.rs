//! Executors: applications in the order of their registration, each placed as Spark would.
//!
//! Spark looks at all usable workers; an application that may get `n` more units touches only the first `n` of them,
//! because each of these takes at least one. So only so many are looked up.

use std::collections::BTreeSet;

use crate::{
    config::WorkerSelection,
    effect::AppNotice,
    ids::{AppId, ExecutorId, ProfileId, WorkerId},
    resources::{Amounts, Cores, Demand},
    scheduler::{
        Scope,
        plan::{Slot, Wish, plan},
    },
    state::{
        app::{Application, ApplicationState},
        cluster::ClusterState,
        executor::{Executor, ExecutorState},
        index::{free::Free, waiting::Group},
    },
};

// === impl ClusterState ===

impl ClusterState {
    pub(super) fn place_executors(
        &mut self,
        fresh: &BTreeSet<Group>,
        grown: &BTreeSet<WorkerId>,
        everything: bool,
        left: &mut usize,
    ) {
        let mut walk = self.walk(&self.index.starving, fresh, grown, everything);
        self.let_go(&mut walk, |index| &mut index.starving);
        while let Some(head) = walk.next(&self.index.starving) {
            if self.index.free.is_empty() {
                return;
            }
            if *left == 0 {
                self.pass.unfinished = true;
                return;
            }
            let Some((_, app)) = self.index.starving.head(&head.group) else {
                continue;
            };
            let position = head.position;
            if let Some(hold) = self.hold_on(&head.group) {
                self.index.starving.hold(&head.group, hold);
            } else if self.serve(&app, &head.group, head.scope, grown) {
                *left -= 1;
                let next = self.index.starving.head(&head.group);
                let satisfied = next.map(|(next, _)| next) != Some(position);
                // Whoever is still hungry has found no more room, and no one behind would; or a cap holds them all.
                if satisfied {
                    walk.placed(self, &self.index.starving, head);
                } else {
                    if let Some(hold) = self.hold_on(&head.group) {
                        self.index.starving.hold(&head.group, hold);
                    }
                    walk.shrunk(self);
                }
            }
            self.visited(&mut walk, position, |index| &mut index.starving);
        }
    }

    /// Gives an application what it wants, as far as there is room; true if it got anything.
    fn serve(
        &mut self,
        id: &AppId,
        Group { demand, class }: &Group,
        scope: Scope,
        grown: &BTreeSet<WorkerId>,
    ) -> bool {
        let Some(app) = self.apps.get(id).cloned() else {
            return false;
        };
        let mut wish = self.wish_of(&app);
        wish.cores_left = wish.cores_left.min(self.user_room(class));
        let most = (wish.cores_left / u64::from(app.unit())).min(wish.executors_left);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let workers = self.usable(demand, scope, grown, most);
        if workers.is_empty() {
            return false;
        }
        let slots: Vec<_> = workers
            .iter()
            .map(|worker| self.slot(worker, demand))
            .collect();
        let planned = plan(&slots, &wish);
        let mut next = app.as_ref().clone();
        for (worker, cores) in workers.into_iter().zip(planned) {
            self.launch(&mut next, &worker, cores, demand);
        }
        let got = next.next_executor != app.next_executor;
        if got {
            next.state = ApplicationState::Running;
            self.put_app(next);
        }
        got
    }

    fn wish_of(&self, app: &Application) -> Wish {
        let nothing = Default::default();
        let load = self.index.app_loads.get(&app.id).unwrap_or(&nothing);
        Wish {
            cores_left: app.cores_left(load, &self.config),
            cores_per_executor: app.spec.cores_per_executor.map(|cores| cores.0.max(1)),
            memory: app.spec.memory_per_executor.0,
            resources: app.spec.resources_per_executor.clone(),
            executors_left: app.executors_left(load),
            spread: self.config.spread_out_apps,
        }
    }

    /// The first `most` workers, in the order of the policy, that can take one executor.
    fn usable(
        &self,
        demand: &Demand,
        scope: Scope,
        grown: &BTreeSet<WorkerId>,
        most: usize,
    ) -> Vec<WorkerId> {
        let policy = self.config.worker_selection;
        match scope {
            Scope::All => {
                if demand.memory.0 > self.index.free.memory_max() {
                    return Vec::new();
                }
                let unit = u64::from(demand.cores.0);
                self.index
                    .free
                    .ordered_with(policy, unit)
                    .filter(|id| self.fits_on(id, demand))
                    .take(most)
                    .cloned()
                    .collect()
            }
            Scope::Grown => {
                let mut fitting: Vec<_> = grown
                    .iter()
                    .filter(|id| self.fits_on(id, demand))
                    .filter_map(|id| Some((rank(policy, self.index.free.get(id)?), id)))
                    .collect();
                fitting.sort_unstable();
                match policy {
                    WorkerSelection::CoresFreeDesc | WorkerSelection::MemoryFreeDesc => {
                        fitting.reverse();
                    }
                    WorkerSelection::CoresFreeAsc
                    | WorkerSelection::MemoryFreeAsc
                    | WorkerSelection::WorkerId => {}
                }
                fitting
                    .into_iter()
                    .take(most)
                    .map(|(_, id)| id.clone())
                    .collect()
            }
        }
    }

    fn slot(&self, id: &WorkerId, demand: &Demand) -> Slot {
        let free = self.index.free.get(id).unwrap_or(Free {
            cores: 0,
            memory: 0,
        });
        let mut resources = Amounts::new();
        if let Some(worker) = self.workers.get(id) {
            let used = self.used_on(id);
            for name in demand.resources.keys() {
                let count = used.addresses_free(&worker.spec, name).len();
                resources.insert(name.clone(), u32::try_from(count).unwrap_or(u32::MAX));
            }
        }
        Slot {
            cores: free.cores,
            memory: free.memory,
            resources,
        }
    }

    /// Starts executors on one worker with the cores planned there.
    fn launch(&mut self, app: &mut Application, worker: &WorkerId, cores: u64, demand: &Demand) {
        let each = app
            .spec
            .cores_per_executor
            .map_or(cores, |each| u64::from(each.0.max(1)));
        if cores == 0 || each == 0 {
            return;
        }
        for _ in 0..cores / each {
            let executor = Executor {
                app: app.id.clone(),
                id: app.next_executor,
                worker: worker.clone(),
                profile: ProfileId::default(),
                cores: Cores(u32::try_from(each).unwrap_or(u32::MAX)),
                memory: app.spec.memory_per_executor,
                resources: self.pick_addresses(worker, demand),
                state: ExecutorState::Launching,
                exit: None,
                message: String::new(),
                launched_at: self.now,
                started_at: None,
                finished_at: None,
            };
            app.next_executor = ExecutorId(app.next_executor.0.saturating_add(1));
            self.put_executor(executor.clone());
            self.order_launch_executor(&executor);
            self.tell(&app.id, AppNotice::ExecutorAdded(executor));
        }
    }
}

fn rank(policy: WorkerSelection, free: Free) -> u64 {
    match policy {
        WorkerSelection::CoresFreeDesc | WorkerSelection::CoresFreeAsc => free.cores,
        WorkerSelection::MemoryFreeDesc | WorkerSelection::MemoryFreeAsc => free.memory,
        WorkerSelection::WorkerId => 0,
    }
}
