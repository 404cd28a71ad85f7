//! The text that is counted: the user's files, or a made-up one.
//!
//! The made-up text needs no data file and is the same everywhere: old novels and speeches (in the public
//! domain) give the words and which word may follow which; a seeded generator writes on from there.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result, ensure};

/// Passages that are in the public domain.
const SAMPLE: &str = include_str!("../text/sample.txt");
/// Bytes of the made-up text, at least.
const GENERATED_BYTES: usize = 4 << 20;
/// The generator's seed: the same text at every run.
const SEED: u64 = 0x494e_5445_5252_4558;
/// Words on one line of the made-up text.
const LINE_WORDS: usize = 14;
/// Largest text that is read, in bytes.
const TEXT_BYTES_MAX: u64 = 1 << 30;

/// xorshift64*: small, good enough for prose, and the same on every machine.
struct Random(u64);

/// The text of `files`, one after the other; the made-up one if there are none.
pub(crate) fn load(files: &[PathBuf]) -> Result<String> {
    if files.is_empty() {
        return Ok(generate(GENERATED_BYTES));
    }
    let mut text = String::new();
    let mut total = 0;
    for file in files {
        let name = file.display();
        total += std::fs::metadata(file)
            .with_context(|| format!("{name}"))?
            .len();
        ensure!(
            total <= TEXT_BYTES_MAX,
            "the text has more than {TEXT_BYTES_MAX} bytes"
        );
        let bytes = std::fs::read(file).with_context(|| format!("{name}"))?;
        text.push_str(&String::from_utf8_lossy(&bytes));
        text.push('\n');
    }
    Ok(text)
}

/// The sample, continued until there are at least `bytes` bytes.
fn generate(bytes: usize) -> String {
    let words: Vec<&str> = SAMPLE.split_whitespace().collect();
    let mut followers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pair in words.windows(2) {
        if let [word, next] = pair {
            followers.entry(word).or_default().push(next);
        }
    }
    let mut random = Random(SEED);
    let mut text = SAMPLE.to_owned();
    let mut word = random.pick(&words);
    let mut on_line = 0;
    while text.len() < bytes {
        text.push_str(word);
        on_line += 1;
        text.push(if on_line % LINE_WORDS == 0 { '\n' } else { ' ' });
        word = match followers.get(word) {
            Some(next) => random.pick(next),
            None => random.pick(&words),
        };
    }
    text
}

// === impl Random ===

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let count = u64::try_from(from.len()).unwrap_or(1).max(1);
        let index = usize::try_from(self.next() % count).unwrap_or(0);
        from.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count;

    #[test]
    fn the_made_up_text_is_large_varied_and_always_the_same() {
        let text = load(&[]).unwrap();
        assert!(text.len() >= GENERATED_BYTES && text.len() < GENERATED_BYTES + 100);
        assert_eq!(text, generate(GENERATED_BYTES));
        assert!(count::words(&text).len() > 300);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = load(&["no-such-file".into()]).unwrap_err();
        assert!(format!("{error:#}").contains("no-such-file"));
    }
}
