//! Leftovers: at the end nothing runs that belongs to nobody.

use super::{Violation, violation};
use crate::history::{History, Op};

pub(super) fn check(history: &History) -> Vec<Violation> {
    history
        .about(Op::Alive)
        .map(|record| {
            let message = format!(
                "a process is alive on {}: {}",
                record.process,
                record.text("why")
            );
            violation("no-leftovers", record.time, &record.id, message)
        })
        .collect()
}
