//! What a master says about itself and the others.

use interrex_core::ids::Epoch;
use interrex_persistence::election::MasterInfo;

/// What this master is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// Follows another leader, or is stopping.
    #[default]
    Standby,
    /// Wants to lead.
    Campaigning,
    /// Elected; reads what is stored.
    Recovering,
    /// Serves.
    Leading,
}

/// What this master knows about itself and the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MasterStatus {
    /// Itself.
    pub me: MasterInfo,
    /// What it is doing.
    pub role: Role,
    /// The epoch that it leads in, or the newest that it has heard of.
    pub epoch: Epoch,
    /// The leader, if one is known; itself while it leads.
    pub leader: Option<MasterInfo>,
    /// All masters that are known, itself included, ordered by id.
    pub masters: Vec<MasterInfo>,
    /// The cluster's id; empty on a master that does not lead, unless the backend knows it.
    pub cluster_id: String,
    /// `STANDBY`, `RECOVERING`, `COMPLETING_RECOVERY`, `ALIVE`, or `RESTORING` where nothing is served.
    pub recovery: &'static str,
}

// === impl Role ===

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Standby,
        Self::Campaigning,
        Self::Recovering,
        Self::Leading,
    ];

    /// `leader`, `standby`, ... as command line and metrics show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Standby => "standby",
            Self::Campaigning => "campaigning",
            Self::Recovering => "recovering",
            Self::Leading => "leader",
        }
    }
}
