//! What stands around every page: who shows it, who leads, where else one can go.

use crate::assets::Assets;

/// One entry of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NavEntry {
    /// Where it leads.
    pub href: &'static str,
    /// What it says.
    pub label: &'static str,
}

/// The frame of one page; `frame.html` is its template, which the templates of pages extend.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Addresses of style, script and icon.
    pub assets: Assets,
    /// For the window's title: the cluster or the agent.
    pub place: String,
    /// Who shows this page: a master's or worker's id.
    pub me: String,
    /// The clock of the server, in milliseconds since the Unix epoch; the script counts from it.
    pub now_ms: u64,
    /// Who leads, as far as is known; else empty.
    pub leader: String,
    /// In which epoch.
    pub epoch: u64,
    /// Where all masters' pages are (`host:port`, separated by spaces), so that the script finds another one.
    pub masters: String,
    /// Whether the script keeps the page up to date. Not where somebody fills in a form.
    pub live: bool,
    /// Whether the script looks now and then, because there is no stream that says when.
    pub poll: bool,
    /// The navigation: address, label, whether it is this page.
    pub nav: Vec<(&'static str, &'static str, bool)>,
    /// What is wrong at the moment, shown in a banner.
    pub trouble: Option<String>,
    /// Of this program.
    pub version: &'static str,
    /// Whether these pages can change anything.
    pub read_only: bool,
}

// === impl Frame ===

impl Frame {
    /// The navigation, with the entry of `current` marked.
    #[must_use]
    pub fn navigation(
        entries: &[NavEntry],
        current: &str,
    ) -> Vec<(&'static str, &'static str, bool)> {
        let entry = |entry: &NavEntry| (entry.href, entry.label, entry.href == current);
        entries.iter().map(entry).collect()
    }
}
