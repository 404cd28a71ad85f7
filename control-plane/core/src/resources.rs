//! What workers offer and what drivers and executors use.

use std::collections::BTreeMap;

/// Whole cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cores(pub u32);

/// Memory in MiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryMib(pub u64);

/// Addresses of custom resources by resource name, such as `gpu` → `["0", "1"]`. Addresses are in string
/// order (Spark hands out the lowest first: `WorkerResourceInfo.acquire`).
pub type Addresses = BTreeMap<String, Vec<String>>;

/// Amounts of custom resources by resource name.
pub type Amounts = BTreeMap<String, u32>;

/// What one driver or one executor needs on a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand {
    /// Whole cores, at least 1.
    pub cores: Cores,
    /// Memory.
    pub memory: MemoryMib,
    /// Custom resources; empty for most.
    pub resources: Amounts,
    /// Needs a worker that offers this capability; `None` for plain commands.
    pub capability: Option<String>,
    /// Cannot run on one of Spark's own workers, which start nothing but Spark and know neither leases nor epochs.
    pub needs_agent: bool,
}
