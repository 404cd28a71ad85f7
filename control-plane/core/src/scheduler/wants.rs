//! What an application still wants, profile by profile.

use std::collections::BTreeMap;

use crate::{
    config::{ClusterConfig, EXECUTORS_PER_APP_MAX},
    ids::ProfileId,
    resources::{Amounts, Cores, Demand, MemoryMib},
    spec::{ApplicationSpec, SparkDriver},
    state::{
        app::Application,
        index::{
            app_load::AppLoad,
            place::{Gate, Group},
        },
    },
};

/// What one executor of a profile takes, with what the profile leaves to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs<'a> {
    /// `None`: one executor a worker, with all the cores that it gets.
    pub(crate) cores: Option<u32>,
    pub(crate) memory: MemoryMib,
    pub(crate) resources: &'a Amounts,
}

// === impl Needs ===

impl Needs<'_> {
    /// Cores that are given at a time: those of one executor, or 1 if executors take what there is.
    pub(crate) fn unit(&self) -> u32 {
        self.cores.unwrap_or(1)
    }
}

// === impl ApplicationSpec ===

impl ApplicationSpec {
    /// The most cores that such an application may hold in this cluster; `None`: no limit.
    pub(crate) fn cores_limit(&self, config: &ClusterConfig) -> Option<Cores> {
        let asked = self.cores_max.or(config.default_cores);
        match (asked, config.app_cores_max) {
            (Some(asked), Some(max)) => Some(asked.min(max)),
            (asked, max) => asked.or(max),
        }
    }
}

// === impl Application ===

impl Application {
    /// What one executor of a profile takes; `None`: the application has no such profile.
    pub(crate) fn needs(&self, profile: ProfileId) -> Option<Needs<'_>> {
        let of_app = self.spec.cores_per_executor;
        let (cores, memory, resources) = if profile == ProfileId::default() {
            let spec = &self.spec;
            (
                of_app,
                spec.memory_per_executor,
                &spec.resources_per_executor,
            )
        } else {
            let needs = &self.profiles.get(&profile)?.needs;
            let memory = needs.memory.unwrap_or(self.spec.memory_per_executor);
            (needs.cores.or(of_app), memory, &needs.resources)
        };
        Some(Needs {
            cores: cores.map(|cores| cores.0.max(1)),
            memory,
            resources,
        })
    }

    /// For each profile of which it wants, and may have, another executor now, the group that it stands in. Executors
    /// that are being ended still count: their processes exist. (Spark forgets them at once.) Those on a worker that
    /// was drained do not.
    pub(crate) fn wants(
        &self,
        load: &AppLoad,
        config: &ClusterConfig,
    ) -> BTreeMap<ProfileId, Group> {
        if self.state.is_final() || self.not_before.is_some() {
            return BTreeMap::new();
        }
        let cores_left = self.cores_left(load, config);
        let of = |profile: &ProfileId| {
            let (demand, gate) = self.ask_of(*profile, load, cores_left)?;
            let class = self.class(config);
            let group = Group {
                demand,
                gate,
                class,
            };
            Some((*profile, group))
        };
        std::iter::once(&ProfileId::default())
            .chain(self.profiles.keys())
            .filter_map(of)
            .collect()
    }

    fn ask_of(
        &self,
        profile: ProfileId,
        load: &AppLoad,
        cores_left: u64,
    ) -> Option<(Demand, Option<Gate>)> {
        let executors_left = self.executors_left(profile, load);
        if executors_left == 0 {
            return None;
        }
        let needs = self.needs(profile)?;
        let gate = Gate {
            executors: self.lacking(profile, load).min(executors_left),
            one_a_worker: needs.cores.is_none(),
        };
        let demand = Demand {
            cores: Cores(needs.unit()),
            memory: needs.memory,
            resources: needs.resources.clone(),
            capability: self.spec.spark.as_ref().map(SparkDriver::capability),
            needs_agent: self
                .spec
                .spark
                .as_ref()
                .is_none_or(|spark| spark.main_class.is_empty()),
        };
        let enough = gate.executors.max(1) <= cores_left / u64::from(needs.unit());
        enough.then(|| (demand, (gate.executors > 1).then_some(gate)))
    }

    /// Cores that it may still get, over all profiles.
    pub(crate) fn cores_left(&self, load: &AppLoad, config: &ClusterConfig) -> u64 {
        self.spec.cores_limit(config).map_or(u64::MAX, |max| {
            u64::from(max.0).saturating_sub(load.cores())
        })
    }

    /// Executors of a profile that it may still get.
    pub(crate) fn executors_left(&self, profile: ProfileId, load: &AppLoad) -> u64 {
        let room = EXECUTORS_PER_APP_MAX.saturating_sub(load.active_count());
        let wanted = if profile == ProfileId::default() {
            self.executors_wanted
        } else {
            Some(self.profiles.get(&profile).map_or(0, |p| p.wanted))
        };
        wanted.map_or(room, |wanted| {
            u64::from(wanted)
                .saturating_sub(self.there(profile, load))
                .min(room)
        })
    }

    /// How many executors are lacking to `min_executors`, which is about the application's own description only: what
    /// it asks for in further profiles it asks for while it runs.
    fn lacking(&self, profile: ProfileId, load: &AppLoad) -> u64 {
        if profile == ProfileId::default() {
            u64::from(self.spec.min_executors).saturating_sub(self.there(profile, load))
        } else {
            0
        }
    }

    /// Executors of a profile that it has, or has had and needs no more.
    fn there(&self, profile: ProfileId, load: &AppLoad) -> u64 {
        let completed = if profile == ProfileId::default() {
            u64::from(self.executors_completed)
        } else {
            0
        };
        load.counted_of(profile).saturating_add(completed)
    }
}
