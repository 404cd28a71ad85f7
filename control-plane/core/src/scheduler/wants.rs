//! What an application still wants.

use crate::{
    config::{ClusterConfig, EXECUTORS_PER_APP_MAX},
    resources::{Cores, Demand},
    state::{app::Application, index::app_load::AppLoad},
};

// === impl Application ===

impl Application {
    /// The demand of one more executor, if it wants and may have one now. Executors that are being ended still count:
    /// their processes exist. (Spark forgets them at once.)
    pub(crate) fn wants(&self, load: &AppLoad, config: &ClusterConfig) -> Option<Demand> {
        let ready = !self.state.is_final() && self.not_before.is_none();
        let unit = self.unit();
        (ready && self.cores_left(load, config) >= u64::from(unit) && self.executors_left(load) > 0)
            .then(|| Demand {
                cores: Cores(unit),
                memory: self.spec.memory_per_executor,
                resources: self.spec.resources_per_executor.clone(),
                capability: None,
            })
    }

    /// Cores that are given at a time: those of one executor, or 1 if executors take what there is.
    pub(crate) fn unit(&self) -> u32 {
        self.spec
            .cores_per_executor
            .map_or(1, |cores| cores.0.max(1))
    }

    /// Cores that it may still get.
    pub(crate) fn cores_left(&self, load: &AppLoad, config: &ClusterConfig) -> u64 {
        let max = self.spec.cores_max.or(config.default_cores);
        max.map_or(u64::MAX, |max| {
            u64::from(max.0).saturating_sub(load.cores())
        })
    }

    /// Executors that it may still get.
    pub(crate) fn executors_left(&self, load: &AppLoad) -> u64 {
        let active = load.active_count();
        let there = active.saturating_add(u64::from(self.executors_completed));
        let room = EXECUTORS_PER_APP_MAX.saturating_sub(active);
        self.executors_wanted.map_or(room, |wanted| {
            u64::from(wanted).saturating_sub(there).min(room)
        })
    }
}
