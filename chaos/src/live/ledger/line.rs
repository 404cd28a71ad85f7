//! One line of the ledger: `submission attempt epoch pid START|END time key=value ...`. Pure.

use std::{collections::BTreeMap, fmt};

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The attempt begins.
    Start,
    /// Its work is done.
    End,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The submission's request id.
    pub submission: String,
    /// Which attempt.
    pub attempt: u32,
    /// The epoch of the order.
    pub epoch: u64,
    /// The process.
    pub pid: u32,
    /// Begin or end.
    pub event: Event,
    /// When, in microseconds since the machine started.
    pub at_us: u64,
    /// What else there is to say. `driver`, `worker`; of a start: `cores`, `memory`, `alone` (1: no other attempt ran),
    /// `short` (cores that were not free), `slots` (which cores it got); of an end: `code`.
    pub more: BTreeMap<String, String>,
}

/// A line that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the ledger is not `submission attempt epoch pid START|END time`: {text:?}")]
pub struct LineError {
    /// Which, from 1.
    pub line: usize,
    /// What it says, cut to 200 characters.
    pub text: String,
}

// === impl Entry ===

impl Entry {
    /// One of the further fields; empty if there is none.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.more.get(name).map(String::as_str).unwrap_or_default()
    }

    /// The same as a number; 0 if there is none.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        self.field(name).parse().unwrap_or(0)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let entry = Self {
            submission: words.next()?.to_owned(),
            attempt: words.next()?.parse().ok()?,
            epoch: words.next()?.parse().ok()?,
            pid: words.next()?.parse().ok()?,
            event: match words.next()? {
                "START" => Event::Start,
                "END" => Event::End,
                _other => return None,
            },
            at_us: words.next()?.parse().ok()?,
            more: BTreeMap::new(),
        };
        let more = words.map(|word| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Some(Self {
            more: more.collect::<Option<_>>()?,
            ..entry
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = match self.event {
            Event::Start => "START",
            Event::End => "END",
        };
        write!(
            f,
            "{} {} {} {} {event} {}",
            self.submission, self.attempt, self.epoch, self.pid, self.at_us
        )?;
        for (name, value) in &self.more {
            write!(f, " {name}={value}")?;
        }
        Ok(())
    }
}

/// All whole lines of a ledger. What follows the last line feed is being written, and comes next time.
///
/// # Errors
/// [`LineError`] for the first line that is none: somebody else has written into the file.
pub fn parse(text: &str) -> Result<Vec<Entry>, LineError> {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .split('\n')
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .map(|(index, line)| {
            Entry::parse(line).ok_or_else(|| LineError {
                line: index + 1,
                text: line.chars().take(200).collect(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_as_it_was_written() {
        let entry = Entry {
            submission: "s-1".into(),
            attempt: 2,
            epoch: 7,
            pid: 99,
            event: Event::Start,
            at_us: 123,
            more: BTreeMap::from([("worker".into(), "w1".into()), ("cores".into(), "1".into())]),
        };
        let line = entry.to_string();
        assert_eq!(line, "s-1 2 7 99 START 123 cores=1 worker=w1");
        assert_eq!((entry.number("cores"), entry.field("none")), (1, ""));
        assert_eq!(parse(&format!("{line}\n")).unwrap(), [entry]);
    }

    #[test]
    fn a_line_that_is_being_written_is_left_for_later_and_a_bad_one_is_named() {
        assert_eq!(parse("s-1 1 1 9 START 1\ns-1 1 1 9 E").unwrap().len(), 1);
        let error = parse("s-1 1 1 9 START 1\nhello\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(error.to_string().contains("hello"), "{error}");
    }
}
