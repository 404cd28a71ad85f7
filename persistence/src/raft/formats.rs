//! Which kinds of entries the masters of a cluster understand, while some of them are newer than others.
//!
//! An entry of a kind that a later version brings is an [`Extension`](super::types::LogEntry::Extension) with the format that
//! it needs. Every master says in its greetings up to which format it applies entries, and a leader writes nothing that one
//! of the members does not apply. A master that is given such an entry all the same (it was downgraded) stops, says why,
//! and leaves the others alone. What must never happen: that a master passes over an entry that others apply.

use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::node::Member;

/// The newest format of entries that this build writes and applies. Kinds without a number of their own are of format 1.
pub(super) const ENTRY_FORMAT: u32 = 1;

/// What the masters have said.
#[derive(Debug)]
pub(super) struct Formats {
    /// What this one applies.
    own: u32,
    /// What members have said, by their number.
    announced: Mutex<BTreeMap<u64, u32>>,
}

/// An entry that a member would not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an entry of format {format} is not written: {master} applies formats up to {known}; upgrade it, or remove it with \
     `interrex cluster remove {master}`"
)]
pub(super) struct TooNew {
    format: u32,
    master: String,
    known: u32,
}

// === impl Formats ===

impl Formats {
    pub(super) fn new(own: u32) -> Self {
        Self {
            own,
            announced: Mutex::default(),
        }
    }

    /// What this master applies.
    pub(super) fn own(&self) -> u32 {
        self.own
    }

    /// The member with this number applies entries up to `format`; 0: its build does not say so, and knows the first only.
    pub(super) fn note(&self, number: u64, format: u32) {
        self.lock().insert(number, format.max(1));
    }

    /// Forgets those that are no members any more.
    pub(super) fn keep(&self, members: &[(String, u64)]) {
        self.lock()
            .retain(|number, _| members.iter().any(|(_, member)| member == number));
    }

    /// Whether `members`, of whom this master is the one with the number `me`, all apply entries of `format`. Who has not been
    /// heard of is taken to be as old as can be.
    ///
    /// # Errors
    /// [`TooNew`] names the first who does not.
    pub(super) fn may_write(&self, format: u32, me: u64, members: &[Member]) -> Result<(), TooNew> {
        let announced = self.lock();
        for member in members {
            let known = match member.node == me {
                true => self.own,
                false => announced.get(&member.node).copied().unwrap_or(1),
            };
            if known < format {
                return Err(TooNew {
                    format,
                    master: member.info.id.clone(),
                    known,
                });
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.announced
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a master that applies formats up to `own` may apply the entry at `index`.
///
/// # Errors
/// `Unsupported`, with both: it must stop there.
pub(super) fn check_applicable(format: u32, index: u64, own: u32) -> io::Result<()> {
    if format <= own {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!(
            "entry {index} of the log has format {format}, this program applies formats up to {own}; use the newer program"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::types::NodeInfo;

    fn member(node: u64, id: &str) -> Member {
        Member {
            node,
            info: NodeInfo {
                id: id.into(),
                ..NodeInfo::default()
            },
            voter: node != 3,
        }
    }

    #[test]
    fn nothing_is_written_that_one_member_does_not_apply() {
        let formats = Formats::new(2);
        let members = [member(1, "m1"), member(2, "m2"), member(3, "m3")];
        formats.may_write(1, 1, &members).unwrap();
        // Not heard of yet.
        let refused = formats.may_write(2, 1, &members).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "an entry of format 2 is not written: m2 applies formats up to 1; upgrade it, or remove it with `interrex \
             cluster remove m2`"
        );
        formats.note(2, 3);
        // A learner counts: it may be promoted. One that does not say is an old one.
        formats.note(3, 0);
        let refused = formats.may_write(2, 1, &members).unwrap_err();
        assert_eq!((refused.master.as_str(), refused.known), ("m3", 1));
        formats.note(3, 2);
        formats.may_write(2, 1, &members).unwrap();
        assert_eq!(formats.may_write(3, 1, &members).unwrap_err().master, "m1");
        // Who comes back under another number has said nothing.
        formats.keep(&[("m1".into(), 1), ("m2".into(), 2)]);
        assert_eq!(formats.may_write(2, 1, &members).unwrap_err().master, "m3");
    }

    #[test]
    fn an_entry_that_is_too_new_is_refused_by_its_place_and_format() {
        check_applicable(1, 5, 1).unwrap();
        let refused = check_applicable(4, 57, 1).unwrap_err().to_string();
        assert_eq!(
            refused,
            "entry 57 of the log has format 4, this program applies formats up to 1; use the newer program"
        );
    }
}
