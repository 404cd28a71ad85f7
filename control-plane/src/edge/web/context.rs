//! What a page is made from: one published view, who this master is, and the question.

use std::sync::{Arc, MutexGuard, PoisonError};

use http::Uri;
use interrex_core::time::Timestamp;
use interrex_web::frame::{Frame, NavEntry};

use super::{Site, history::History};
use crate::runtime::{handle::MasterStatus, view::ClusterView};

/// Every page that the navigation leads to.
pub(super) const NAV: [NavEntry; 7] = [
    entry("/", "Overview"),
    entry("/drivers", "Drivers"),
    entry("/apps", "Applications"),
    entry("/workers", "Workers"),
    entry("/queue", "Queue"),
    entry("/events", "Events"),
    entry("/internals", "Internals"),
];

/// What a page is made from.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) site: Arc<Site>,
    /// Empty on a master that does not lead.
    pub(super) view: Arc<ClusterView>,
    pub(super) status: MasterStatus,
    pub(super) now: Timestamp,
    pub(super) uri: Uri,
    /// The master that shows the page, where that is another one.
    pub(super) via: Option<String>,
    /// It asks only, and may be asked again.
    pub(super) is_read: bool,
}

/// What the top of every page says about leadership.
#[derive(Debug, Clone)]
pub(super) struct Who {
    pub(super) leader: String,
    pub(super) epoch: u64,
    pub(super) recovery: &'static str,
}

const fn entry(href: &'static str, label: &'static str) -> NavEntry {
    NavEntry { href, label }
}

// === impl Context ===

impl Context {
    pub(super) fn new(site: &Arc<Site>, uri: Uri, via: Option<String>) -> Self {
        Self {
            site: Arc::clone(site),
            view: site.handle.view(),
            status: site.handle.status(),
            now: site.handle.now(),
            uri,
            via,
            is_read: true,
        }
    }

    /// Whether this master leads and can show the cluster.
    pub(super) fn leads(&self) -> bool {
        !self.view.is_empty()
    }

    /// The frame of the page that stands at `current` in the navigation.
    pub(super) fn frame(&self, current: &str) -> Frame {
        let me = &self.status.me.id;
        let masters = self.status.masters.iter().map(|master| master.web.as_str());
        let masters: Vec<&str> = masters.filter(|web| !web.is_empty()).collect();
        Frame {
            place: match self.status.cluster_id.as_str() {
                "" => me.clone(),
                id => id.chars().take(8).collect(),
            },
            me: self.via.clone().unwrap_or_else(|| me.clone()),
            now_ms: self.now.0,
            leader: self.leader(),
            epoch: self.status.epoch.0,
            masters: masters.join(" "),
            live: true,
            nav: Frame::navigation(&NAV, current),
            trouble: None,
            version: env!("CARGO_PKG_VERSION"),
            read_only: self.site.options.read_only,
            ..Frame::default()
        }
    }

    /// The same for a page with a form, which must not change under the hands of whoever fills it in.
    pub(super) fn still_frame(&self, current: &str) -> Frame {
        Frame {
            live: false,
            ..self.frame(current)
        }
    }

    pub(super) fn who(&self) -> Who {
        Who {
            leader: self.leader(),
            epoch: self.status.epoch.0,
            recovery: self.status.recovery,
        }
    }

    /// What happened lately, by the second.
    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        let history = self.site.live.history.lock();
        history.unwrap_or_else(PoisonError::into_inner)
    }

    fn leader(&self) -> String {
        let leader = self.status.leader.as_ref();
        leader.map(|leader| leader.id.clone()).unwrap_or_default()
    }
}
