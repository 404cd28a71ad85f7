//! Counting words: the same code for executors and for the direct count.

use std::collections::BTreeMap;

/// How often each word occurs.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Counts the words of `text`: runs of letters, digits and inner apostrophes, in lower case.
pub(crate) fn words(text: &str) -> Counts {
    let mut counts = Counts::new();
    for word in text.split(|c: char| !c.is_alphanumeric() && c != '\'') {
        let word = word.trim_matches('\'');
        if !word.is_empty() {
            *counts.entry(word.to_lowercase()).or_default() += 1;
        }
    }
    counts
}

/// Adds `more` to `counts`.
pub(crate) fn add(counts: &mut Counts, more: Counts) {
    for (word, count) in more {
        *counts.entry(word).or_default() += count;
    }
}

/// The `n` most frequent words, the more frequent first, ties in the order of the alphabet.
pub(crate) fn top(counts: &Counts, n: usize) -> Vec<(&str, u64)> {
    let mut all: Vec<(&str, u64)> = counts.iter().map(|(w, c)| (w.as_str(), *c)).collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    all.truncate(n);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_without_case_and_punctuation() {
        let counts = words("The cat's hat -- the CAT's 'hat'.");
        let expected = [("cat's", 2), ("hat", 2), ("the", 2)];
        assert_eq!(top(&counts, 10), expected);
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        let mut sum = words("a b b");
        add(&mut sum, words("b c"));
        assert_eq!(sum, words("a b b b c"));
    }
}
