//! What a machine said of itself: an invariant of its own that did not hold.

use super::{Violation, violation};
use crate::history::{History, Op};

pub(super) fn check(history: &History) -> Vec<Violation> {
    history
        .about(Op::Broken)
        .map(|record| {
            let message = format!("{}: {}", record.process, record.text("what"));
            violation("invariants", record.time, &record.id, message)
        })
        .collect()
}
