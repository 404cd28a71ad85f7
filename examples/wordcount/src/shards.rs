//! The pieces of the text: which wait, which are with an executor, which are counted. Pure bookkeeping.

use std::collections::{BTreeMap, VecDeque};

use crate::count::{self, Counts};

/// All pieces of one text.
#[derive(Debug)]
pub(crate) struct Shards {
    texts: BTreeMap<u32, String>,
    waiting: VecDeque<u32>,
    counted: BTreeMap<u32, bool>,
    total: Counts,
    handed_out_again: u32,
}

// === impl Shards ===

impl Shards {
    /// Cuts `text` into at most `count` pieces, between lines.
    pub(crate) fn cut(text: &str, count: u32) -> Self {
        let target = text.len() / usize::try_from(count).unwrap_or(1).max(1) + 1;
        let mut texts = BTreeMap::new();
        let mut piece = String::new();
        let mut number = 0;
        for line in text.split_inclusive('\n') {
            piece.push_str(line);
            if piece.len() >= target {
                texts.insert(number, std::mem::take(&mut piece));
                number += 1;
            }
        }
        if !piece.is_empty() {
            texts.insert(number, piece);
        }
        let waiting = texts.keys().copied().collect();
        let counted = texts.keys().map(|shard| (*shard, false)).collect();
        Self {
            texts,
            waiting,
            counted,
            total: Counts::new(),
            handed_out_again: 0,
        }
    }

    /// How many pieces there are.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// The next piece to hand out, if one waits.
    pub(crate) fn take(&mut self) -> Option<(u32, String)> {
        let shard = self.waiting.pop_front()?;
        self.texts.get(&shard).map(|text| (shard, text.clone()))
    }

    /// The executor that had `shard` is gone; somebody else gets it.
    pub(crate) fn give_back(&mut self, shard: u32) {
        if self.counted.get(&shard) == Some(&false) && !self.waiting.contains(&shard) {
            self.waiting.push_front(shard);
            self.handed_out_again += 1;
        }
    }

    /// What `shard` holds. Counted once, however often it is said.
    pub(crate) fn counted(&mut self, shard: u32, counts: Counts) {
        if let Some(done @ false) = self.counted.get_mut(&shard) {
            *done = true;
            count::add(&mut self.total, counts);
        }
    }

    /// How many pieces are counted.
    pub(crate) fn done(&self) -> usize {
        self.counted.values().filter(|done| **done).count()
    }

    /// Whether all are.
    pub(crate) fn complete(&self) -> bool {
        self.done() == self.len()
    }

    /// How often a piece was handed out again.
    pub(crate) fn handed_out_again(&self) -> u32 {
        self.handed_out_again
    }

    /// The sum of everything counted.
    pub(crate) fn total(&self) -> &Counts {
        &self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_are_the_text() {
        let text = "one\ntwo two\nthree\nfour\n";
        let mut shards = Shards::cut(text, 3);
        assert!((2..=3).contains(&shards.len()));
        let mut joined = String::new();
        while let Some((_, piece)) = shards.take() {
            joined.push_str(&piece);
        }
        assert_eq!(joined, text);
    }

    #[test]
    fn a_piece_counts_once_however_often_it_is_reported() {
        let mut shards = Shards::cut("a a\n", 1);
        let (shard, piece) = shards.take().unwrap();
        shards.counted(shard, count::words(&piece));
        shards.counted(shard, count::words(&piece));
        assert!(shards.complete());
        assert_eq!(shards.total().get("a"), Some(&2));
    }

    #[test]
    fn a_piece_that_is_given_back_is_handed_out_again() {
        let mut shards = Shards::cut("a\nb\n", 2);
        let (first, _) = shards.take().unwrap();
        shards.give_back(first);
        shards.give_back(first);
        assert_eq!(shards.handed_out_again(), 1);
        assert_eq!(shards.take().map(|(shard, _)| shard), Some(first));
        shards.counted(first, count::words("a"));
        shards.give_back(first);
        assert_ne!(shards.take().map(|(shard, _)| shard), Some(first));
    }
}
