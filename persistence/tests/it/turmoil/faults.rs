//! What is done to the masters, by seed.

use std::{fs::OpenOptions, path::Path, time::Duration};

/// Numbers by seed; the same on every machine.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

/// One thing that is done to some masters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nobody hears this one, nor it anybody.
    Alone(usize),
    /// What this one sends to that one is lost; not the other way.
    Deaf(usize, usize),
    /// These two do not hear each other.
    Apart(usize, usize),
    /// These two hear each other, and none of the others; of five, a minority that may have the leader.
    Pair(usize, usize),
    /// The power of this one fails.
    Crash(usize),
    /// The power of all fails.
    Blackout,
}

// === impl Dice ===

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// `SplitMix64`.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(super) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    /// Something to do to one of `count` masters, of which `leader` leads.
    pub(super) fn fault(&mut self, count: usize, leader: Option<usize>) -> Fault {
        let any = |dice: &mut Self| usize::try_from(dice.below(count as u64)).unwrap_or(0);
        // Faults of followers are less interesting.
        let aim = match leader {
            Some(leader) if self.below(3) > 0 => leader,
            Some(_) | None => any(self),
        };
        let other = (aim + 1 + usize::try_from(self.below(count as u64 - 1)).unwrap_or(0)) % count;
        match self.below(9) {
            // Of three, the same as the third alone.
            0 if count > 3 => Fault::Pair(aim, other),
            0 | 1 => Fault::Alone(aim),
            2 => Fault::Deaf(aim, other),
            3 => Fault::Deaf(other, aim),
            4 => Fault::Apart(aim, other),
            5..=7 => Fault::Crash(aim),
            _ => Fault::Blackout,
        }
    }
}

/// The power fails: of the log in `dir` only the first `synced` bytes, since it was begun, are safe. Some of what follows
/// may be there too, the last of it in pieces; as much as `dice` say, or none. Returns how many bytes are lost.
pub(super) fn lose_unsynced(dir: &Path, synced: u64, dice: Option<&mut Dice>) -> u64 {
    let mut files: Vec<_> = std::fs::read_dir(dir.join("log"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "wal"))
        .collect();
    files.sort();
    // Each life begins a file; those of earlier lives are what earlier failures have left.
    let Some(newest) = files.pop() else { return 0 };
    let name = newest.file_stem().unwrap().to_string_lossy();
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    let start: u64 = digits.parse().unwrap();
    let file = OpenOptions::new().write(true).open(&newest).unwrap();
    let length = file.metadata().unwrap().len();
    let safe = synced.saturating_sub(start);
    assert!(safe <= length, "{safe} bytes are synced of {length}");
    let more = dice.map_or(0, |dice| dice.below(length - safe + 1));
    let kept = safe + more;
    file.set_len(kept).unwrap();
    length - kept
}
