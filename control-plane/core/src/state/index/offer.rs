//! What only some workers offer: custom resources and capabilities. Few demands ask for any of it, and those that do
//! are kept apart, so that neither costs the other anything.

use std::collections::BTreeSet;

use crate::{
    ids::WorkerId,
    resources::Demand,
    spec::WorkerSpec,
    state::{cluster::ClusterState, index::load::Used},
};

/// Something that not every worker has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Offer {
    /// A free address of this custom resource.
    Resource(String),
    /// This capability.
    Capability(String),
}

/// All of it that a worker has left, or that a demand asks for.
pub(crate) type Offers = BTreeSet<Offer>;

// === impl Used ===

impl Used {
    /// What a worker of this spec has left.
    pub(crate) fn offers_left(&self, spec: &WorkerSpec) -> Offers {
        let capabilities = spec.capabilities.iter().cloned().map(Offer::Capability);
        let resources = spec
            .resources
            .keys()
            .filter(|name| !self.addresses_free(spec, name).is_empty())
            .cloned()
            .map(Offer::Resource);
        capabilities.chain(resources).collect()
    }
}

// === impl Demand ===

impl Demand {
    /// What it asks for that not every worker has.
    pub(crate) fn offers_asked(&self) -> Offers {
        let capability = self.capability.iter().cloned().map(Offer::Capability);
        let resources = self
            .resources
            .iter()
            .filter(|(_, amount)| **amount > 0)
            .map(|(name, _)| Offer::Resource(name.clone()));
        capability.chain(resources).collect()
    }
}

// === impl ClusterState ===

impl ClusterState {
    /// What a worker has left that not every one has.
    pub(crate) fn offers_of(&self, id: &WorkerId) -> Offers {
        let worker = self.workers.get(id);
        worker.map_or_else(Offers::new, |worker| {
            self.used_on(id).offers_left(&worker.spec)
        })
    }
}
