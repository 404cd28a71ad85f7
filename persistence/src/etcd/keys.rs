//! What lies where in etcd.
//!
//! ```text
//! PREFIX/control/cluster            {"format":1,"id":...}: minted by the first master
//! PREFIX/control/leader             who leads; with its lease; its create-revision is the fence
//! PREFIX/control/heir               who should lead next; gone when somebody leads
//! PREFIX/control/base               added to revisions to make epochs
//! PREFIX/control/opened             the opened epoch; its mod-revision is the second fence
//! PREFIX/control/masters/ID         how a living master is reached; with its lease
//! PREFIX/data/snapshot              which snapshot counts
//! PREFIX/data/pieces/SEQ.N          its bytes
//! PREFIX/data/log/SEQ               batches after it, one or more a key
//! PREFIX/data/log/SEQ.N             the rest of an entry that is too large for one value
//! ```
//! Numbers are hexadecimal of fixed width, so that the order of keys is the order of numbers.

/// Makes keys under one prefix.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

/// A key of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogKey {
    /// The entry whose first batch has this number.
    Head(u64),
    /// A part of it.
    Part(u64, u32),
}

// === impl Keys ===

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn control(&self) -> String {
        format!("{}/control/", self.prefix)
    }

    pub(super) fn cluster(&self) -> String {
        format!("{}/control/cluster", self.prefix)
    }

    pub(super) fn leader(&self) -> String {
        format!("{}/control/leader", self.prefix)
    }

    pub(super) fn heir(&self) -> String {
        format!("{}/control/heir", self.prefix)
    }

    pub(super) fn base(&self) -> String {
        format!("{}/control/base", self.prefix)
    }

    pub(super) fn opened(&self) -> String {
        format!("{}/control/opened", self.prefix)
    }

    pub(super) fn masters(&self) -> String {
        format!("{}/control/masters/", self.prefix)
    }

    pub(super) fn master(&self, id: &str) -> String {
        format!("{}/control/masters/{id}", self.prefix)
    }

    pub(super) fn snapshot(&self) -> String {
        format!("{}/data/snapshot", self.prefix)
    }

    /// Where the pieces of all snapshots begin.
    pub(super) fn pieces(&self) -> String {
        format!("{}/data/pieces/", self.prefix)
    }

    /// Where all of them end.
    pub(super) fn pieces_end(&self) -> String {
        format!("{}/data/pieces0", self.prefix)
    }

    /// Where the pieces of one snapshot begin; those of the one before end there.
    pub(super) fn pieces_of(&self, seq: u64) -> String {
        format!("{}/data/pieces/{seq:016x}", self.prefix)
    }

    pub(super) fn piece(&self, seq: u64, n: u32) -> String {
        format!("{}/data/pieces/{seq:016x}.{n:08x}", self.prefix)
    }

    /// Where the log begins.
    pub(super) fn log(&self) -> String {
        format!("{}/data/log/", self.prefix)
    }

    /// Where it ends.
    pub(super) fn log_end(&self) -> String {
        format!("{}/data/log0", self.prefix)
    }

    /// An entry; all earlier ones, with their parts, are before it.
    pub(super) fn entry(&self, seq: u64) -> String {
        format!("{}/data/log/{seq:016x}", self.prefix)
    }

    pub(super) fn part(&self, seq: u64, n: u32) -> String {
        format!("{}/data/log/{seq:016x}.{n:08x}", self.prefix)
    }

    /// What a key of the log is; `None` for something that we never write.
    pub(super) fn log_key(&self, key: &[u8]) -> Option<LogKey> {
        let rest = key.strip_prefix(self.log().as_bytes())?;
        let text = std::str::from_utf8(rest).ok()?;
        let number = |text: &str, width: usize| {
            Some(text)
                .filter(|t| t.len() == width)
                .and_then(|t| u64::from_str_radix(t, 16).ok())
        };
        match text.split_once('.') {
            None => number(text, 16).map(LogKey::Head),
            Some((seq, part)) => {
                let part = u32::try_from(number(part, 8)?).ok()?;
                number(seq, 16).map(|seq| LogKey::Part(seq, part))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_log_are_read_back_and_ordered() {
        let keys = Keys::new("/interrex/main");
        assert_eq!(
            keys.log_key(keys.entry(7).as_bytes()),
            Some(LogKey::Head(7))
        );
        assert_eq!(
            keys.log_key(keys.part(u64::MAX, 3).as_bytes()),
            Some(LogKey::Part(u64::MAX, 3))
        );
        assert_eq!(keys.log_key(keys.snapshot().as_bytes()), None);
        assert_eq!(keys.log_key(b"/interrex/main/data/log/7"), None);
        assert!(keys.entry(9) < keys.part(9, 0) && keys.part(9, u32::MAX) < keys.entry(10));
        assert!(keys.entry(u64::MAX) < keys.log_end() && keys.log() < keys.entry(0));
        assert!(keys.pieces_of(8) < keys.piece(8, 0) && keys.piece(8, 9) < keys.pieces_of(9));
        assert!(keys.piece(u64::MAX, 0) < keys.pieces_end());
    }
}
