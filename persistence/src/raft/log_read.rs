//! Whether a read of the log has brought what it was asked for. Pure: no clock, no I/O.
//!
//! openraft believes what it is given: it counts entries that a read has left out as applied, and sends a follower what
//! comes after a gap as if there were none. So a read that lacks something is an error here, which ends this run of
//! openraft; the log is then opened and checked anew. What must never happen: that an entry is passed over.

use std::io;

use super::meter::ReadFault;

/// A read, and what the log has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The first that is asked for.
    pub(super) from: u64,
    /// The first that is not.
    pub(super) to: u64,
    /// The last that was removed behind a snapshot.
    pub(super) purged: Option<u64>,
    /// The last that there is.
    pub(super) last: Option<u64>,
}

// === impl Asked ===

impl Asked {
    /// How many entries there are from the first that is asked for.
    pub(super) fn behind(&self) -> u64 {
        self.last
            .map_or(0, |last| last.saturating_add(1).saturating_sub(self.from))
    }

    /// Compares with what was found. `limited`: it may end early, but has something, and begins at the beginning, even
    /// if that was removed meanwhile.
    ///
    /// # Errors
    /// `InvalidData`, with both, if something is missing.
    pub(super) fn check(
        &self,
        limited: bool,
        found: impl ExactSizeIterator<Item = u64>,
    ) -> io::Result<()> {
        let kept = self.purged.map_or(0, |purged| purged.saturating_add(1));
        let begin = if limited {
            self.from
        } else {
            self.from.max(kept)
        };
        let end = self
            .last
            .map_or(0, |last| last.saturating_add(1))
            .min(self.to);
        let count = found.len();
        if begin >= end {
            return Ok(());
        }
        let mut next = begin;
        for index in found {
            if index != next {
                return Err(lacks(
                    begin,
                    end,
                    &format!("entry {index} instead of {next}"),
                ));
            }
            next += 1;
        }
        if next == begin || (next < end && !limited) {
            return Err(lacks(begin, end, &format!("{count} entries")));
        }
        Ok(())
    }
}

fn lacks(begin: u64, end: u64, found: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("a read of the log's entries from {begin} to before {end} brought {found}"),
    )
}

// === impl ReadFault ===

impl ReadFault {
    /// Does it to what was read.
    pub(super) fn spoil<T>(self, entries: &mut Vec<T>) -> io::Result<()> {
        let half = entries.len() / 2;
        match self {
            Self::Fails => return Err(io::Error::other("an injected fault of a read of the log")),
            Self::Empty => entries.clear(),
            Self::Late => drop(entries.drain(..half)),
            Self::Holed => drop(entries.drain(half..(half + 1).min(entries.len()))),
            Self::Short => entries.truncate(half),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(asked: Asked, limited: bool, found: &[u64]) -> Result<(), String> {
        let checked = asked.check(limited, found.iter().copied());
        checked.map_err(|error| error.to_string())
    }

    const ASKED: Asked = Asked {
        from: 10,
        to: 15,
        purged: Some(4),
        last: Some(40),
    };

    #[test]
    fn a_read_that_lacks_nothing_passes() {
        check(ASKED, false, &[10, 11, 12, 13, 14]).unwrap();
        check(ASKED, true, &[10, 11, 12, 13, 14]).unwrap();
        // What is read for a follower may be bounded in bytes.
        check(ASKED, true, &[10, 11]).unwrap();
        // Beyond the end, and before the beginning, there is nothing to find.
        let beyond = Asked {
            to: 100,
            last: Some(12),
            ..ASKED
        };
        check(beyond, false, &[10, 11, 12]).unwrap();
        check(Asked { from: 13, ..beyond }, true, &[]).unwrap();
        check(
            Asked {
                from: 3,
                to: 7,
                ..ASKED
            },
            false,
            &[5, 6],
        )
        .unwrap();
        check(
            Asked {
                from: 0,
                to: 5,
                ..ASKED
            },
            false,
            &[],
        )
        .unwrap();
        check(
            Asked {
                last: None,
                purged: None,
                ..ASKED
            },
            false,
            &[],
        )
        .unwrap();
    }

    #[test]
    fn a_read_that_lacks_something_fails_and_says_what() {
        for (limited, found, words) in [
            (false, &[][..], "brought 0 entries"),
            (true, &[], "brought 0 entries"),
            (false, &[10, 11], "brought 2 entries"),
            (false, &[11, 12, 13, 14], "entry 11 instead of 10"),
            (true, &[11, 12], "entry 11 instead of 10"),
            (true, &[10, 12], "entry 12 instead of 11"),
            (false, &[10, 11, 13, 14], "entry 13 instead of 12"),
        ] {
            let error = check(ASKED, limited, found).unwrap_err();
            assert!(error.contains(words), "{found:?}: {error}");
            assert!(error.contains("from 10 to before 15"), "{error}");
        }
        // A follower that needs what is removed gets a snapshot, never what comes after.
        let removed = Asked { from: 3, ..ASKED };
        assert!(check(removed, true, &[5, 6, 7]).is_err());
    }

    #[test]
    fn a_test_can_spoil_one_read_in_every_way() {
        let spoilt = |fault: ReadFault| {
            let mut entries = vec![1, 2, 3, 4];
            fault.spoil(&mut entries).map(|()| entries)
        };
        assert!(spoilt(ReadFault::Fails).is_err());
        assert!(spoilt(ReadFault::Empty).unwrap().is_empty());
        assert_eq!(spoilt(ReadFault::Late).unwrap(), [3, 4]);
        assert_eq!(spoilt(ReadFault::Holed).unwrap(), [1, 2, 4]);
        assert_eq!(spoilt(ReadFault::Short).unwrap(), [1, 2]);
    }
}
