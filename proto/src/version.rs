//! Which build this is, for whoever asks: metrics, `/version`, bundles.

use std::sync::OnceLock;

/// What stands for a commit that is not known.
pub const UNKNOWN: &str = "unknown";

static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// The program says from which commit it was built; libraries cannot know. The first word stays.
pub fn set_commit(commit: &'static str) {
    COMMIT.get_or_init(|| commit);
}

/// The commit that this program was built from, or [`UNKNOWN`].
#[must_use]
pub fn commit() -> &'static str {
    COMMIT.get().copied().unwrap_or(UNKNOWN)
}
