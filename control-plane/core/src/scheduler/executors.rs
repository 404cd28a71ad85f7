//! Executors: applications by priority, then in the order of their registration; the profiles of one application
//! ascending; each placed as Spark would.
//!
//! Spark looks at all usable workers; an application that may get `n` more units touches only the first `n` of them,
//! because each of these takes at least one. So only so many are looked up.

use std::collections::BTreeSet;

use crate::{
    config::WorkerSelection,
    effect::AppNotice,
    ids::{AppId, ExecutorId, ProfileId, WorkerId},
    machines::application::{AppEvent, AppStep},
    resources::{Amounts, Cores, Demand},
    scheduler::{
        Head, Scope, Walk,
        plan::{Slot, Wish, plan},
        wants::Needs,
    },
    state::{
        app::Application,
        cluster::ClusterState,
        executor::{Executor, ExecutorState},
        index::{free::Free, place::Group},
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
            let place = head.place;
            if self.look_at(&mut walk, head, grown) {
                *left -= 1;
            }
            self.visited(&mut walk, place, |index| &mut index.starving);
        }
    }

    /// Serves a head, if it may be served; true if it got anything.
    fn look_at(&mut self, walk: &mut Walk<'_>, head: Head, grown: &BTreeSet<WorkerId>) -> bool {
        let Some((place, (app, profile))) = self.index.starving.head(&head.group) else {
            return false;
        };
        if place != head.place {
            // What this application got for another profile was its last.
            walk.gone(&self.index.starving, head);
            return false;
        }
        if let Some(hold) = self.hold_on(&head.group) {
            self.index.starving.hold(&head.group, hold);
            return false;
        }
        if !self.is_open(&head, grown) || !self.serve(&app, profile, &head, grown) {
            return false;
        }
        let next = self.index.starving.head(&head.group).map(|(next, _)| next);
        // Whoever is still hungry has found no more room, and no one behind would; or a cap holds them all.
        if next != Some(place) {
            walk.placed(self, &self.index.starving, head);
        } else {
            if let Some(hold) = self.hold_on(&head.group) {
                self.index.starving.hold(&head.group, hold);
            }
            walk.shrunk(self);
        }
        true
    }

    /// Gives an application what it wants for a profile, as far as there is room; true if it got anything.
    fn serve(
        &mut self,
        id: &AppId,
        profile: ProfileId,
        head: &Head,
        grown: &BTreeSet<WorkerId>,
    ) -> bool {
        let Some(app) = self.apps.get(id).cloned() else {
            return false;
        };
        let Some(needs) = app.needs(profile) else {
            return false;
        };
        let wish = self.wish_of(&app, profile, needs, head);
        let most = (wish.cores_left / u64::from(needs.unit())).min(wish.executors_left);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        // A gate is about all workers, not only those that have got room.
        let scope = head.group.gate.map_or(head.scope, |_| Scope::All);
        let demand = &head.group.demand;
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
            self.launch(&mut next, profile, &worker, cores, demand);
        }
        let got = next.next_executor != app.next_executor;
        if got {
            if let AppStep::Becomes(running) = next.after(AppEvent::Placed, self.now) {
                next = *running;
            }
            self.put_app(next);
        }
        got
    }

    fn wish_of(
        &self,
        app: &Application,
        profile: ProfileId,
        needs: Needs<'_>,
        head: &Head,
    ) -> Wish {
        let nothing = Default::default();
        let load = self.index.app_loads.get(&app.id).unwrap_or(&nothing);
        Wish {
            cores_left: app
                .cores_left(load, &self.config)
                .min(self.user_room(&head.group.class)),
            cores_per_executor: needs.cores,
            memory: needs.memory.0,
            resources: needs.resources.clone(),
            executors_left: app.executors_left(profile, load),
            at_once: head.group.gate.map_or(0, |gate| gate.executors),
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
        match scope {
            Scope::Grown => self.fitting(demand, grown, most),
            Scope::All => match self.index.free.rare(demand) {
                Some(rare) => self.fitting(demand, &rare, most),
                None => self
                    .index
                    .free
                    .ordered_with(self.config.worker_selection, u64::from(demand.cores.0))
                    .filter(|id| self.fits_on(id, demand))
                    .take(most)
                    .cloned()
                    .collect(),
            },
        }
    }

    /// The first `most` of these, in the order of the policy, that can take one executor.
    fn fitting(&self, demand: &Demand, workers: &BTreeSet<WorkerId>, most: usize) -> Vec<WorkerId> {
        let policy = self.config.worker_selection;
        let mut fitting: Vec<_> = workers
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
        let first = fitting.into_iter().take(most);
        first.map(|(_, id)| id.clone()).collect()
    }

    fn slot(&self, id: &WorkerId, demand: &Demand) -> Slot {
        let free = self.index.free.get(id).unwrap_or(Free {
            cores: 0,
            memory: 0,
            is_agent: true,
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
    fn launch(
        &mut self,
        app: &mut Application,
        profile: ProfileId,
        worker: &WorkerId,
        cores: u64,
        demand: &Demand,
    ) {
        let each = app.needs(profile).and_then(|needs| needs.cores);
        let each = each.map_or(cores, u64::from);
        if cores == 0 || each == 0 {
            return;
        }
        for _ in 0..cores / each {
            let executor = Executor {
                app: app.id.clone(),
                id: app.next_executor,
                worker: worker.clone(),
                profile,
                cores: Cores(u32::try_from(each).unwrap_or(u32::MAX)),
                memory: demand.memory,
                resources: self.pick_addresses(worker, demand),
                state: ExecutorState::Launching,
                drained: false,
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
