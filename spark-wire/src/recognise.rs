//! Which build of Spark a peer is: the dictionaries that agree with every (class, serial version UID) seen so far.
//!
//! A class that a dictionary does not know says nothing about it. Being undecided does no harm as long as the
//! remaining dictionaries agree on what is to be written.

use std::collections::BTreeMap;

use crate::{dictionary::Dictionary, java::Graph};

/// What is known about one peer.
#[derive(Debug, Clone, Default)]
pub struct Recogniser {
    seen: BTreeMap<String, i64>,
}

/// Most classes that are remembered of one peer; a registration has about 30.
const SEEN_MAX: usize = 200;

// === impl Recogniser ===

impl Recogniser {
    /// Takes note of the classes of a message.
    pub fn observe(&mut self, graph: &Graph) {
        for class in graph.classes() {
            if self.seen.len() >= SEEN_MAX {
                return;
            }
            self.seen.entry(class.name.clone()).or_insert(class.suid);
        }
    }

    /// Takes note of one class, as the peer has said it in other words. What it has shown before counts more.
    pub fn note(&mut self, class: &str, suid: i64) {
        if self.seen.len() < SEEN_MAX {
            self.seen.entry(class.to_owned()).or_insert(suid);
        }
    }

    /// All that was seen.
    pub fn seen(&self) -> impl Iterator<Item = (&str, i64)> {
        self.seen.iter().map(|(name, suid)| (name.as_str(), *suid))
    }

    /// The dictionaries that agree with all that was seen, best first: the one that knows the most of it.
    #[must_use]
    pub fn candidates<'d>(
        &self,
        dictionaries: impl IntoIterator<Item = &'d Dictionary>,
    ) -> Vec<&'d Dictionary> {
        let mut fitting: Vec<(usize, &Dictionary)> = Vec::new();
        for dictionary in dictionaries {
            if let Some(known) = self.agreement(dictionary) {
                fitting.push((known, dictionary));
            }
        }
        fitting.sort_by_key(|(known, _)| std::cmp::Reverse(*known));
        fitting.into_iter().map(|(_, d)| d).collect()
    }

    /// How many of Spark's own classes agree; nothing where one does not, or where none is known.
    fn agreement(&self, dictionary: &Dictionary) -> Option<usize> {
        let mut known = 0;
        for (name, suid) in &self.seen {
            let Some(class) = dictionary.class(name) else {
                continue;
            };
            if class.suid != *suid {
                return None;
            }
            known += usize::from(name.starts_with("org.apache.spark."));
        }
        (known > 0).then_some(known)
    }

    /// Spark's own classes that were seen, for a log line or a refusal: at most `most` of them.
    #[must_use]
    pub fn describe(&self, most: usize) -> String {
        let spark = self
            .seen
            .iter()
            .filter(|(n, _)| n.starts_with("org.apache.spark."));
        let words: Vec<String> = spark
            .take(most)
            .map(|(n, s)| format!("{n} {s:016x}"))
            .collect();
        words.join(", ")
    }
}
