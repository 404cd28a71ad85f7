//! Times, spans, sizes and counts for people. The script writes times in the same words.

use std::{
    fmt,
    time::{Duration, UNIX_EPOCH},
};

use askama::filters::HtmlSafe;

/// Units of time, largest first.
const UNITS: [(u64, &str); 4] = [
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "min"),
    (1_000, "s"),
];
/// The last instant that is written out (year 9999).
const LAST_MS: u64 = 253_402_300_799_999;

/// An instant: how long ago, and exactly when one points at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct When {
    at_ms: u64,
    now_ms: u64,
}

/// How long something took, or has taken until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lasted {
    from_ms: u64,
    to_ms: Option<u64>,
    now_ms: u64,
}

// === impl When ===

impl When {
    /// `at_ms` since the Unix epoch; 0: never.
    #[must_use]
    pub fn new(at_ms: u64, now_ms: u64) -> Self {
        Self { at_ms, now_ms }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ms, now_ms } = *self;
        if at_ms == 0 {
            return f.write_str(r#"<span class="none">–</span>"#);
        }
        let (exact, ago) = (utc(at_ms), ago(at_ms, now_ms));
        let machine = rfc3339(at_ms);
        write!(
            f,
            r#"<time datetime="{machine}" title="{exact}" data-at="{at_ms}">{ago}</time>"#
        )
    }
}

impl HtmlSafe for When {}

// === impl Lasted ===

impl Lasted {
    /// From `from_ms` (0: has not begun) to `to_ms` (0: goes on).
    #[must_use]
    pub fn new(from_ms: u64, to_ms: u64, now_ms: u64) -> Self {
        Self {
            from_ms,
            to_ms: Some(to_ms).filter(|to| *to != 0),
            now_ms,
        }
    }
}

impl fmt::Display for Lasted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from_ms;
        match self.to_ms {
            _ if from == 0 => f.write_str(r#"<span class="none">–</span>"#),
            Some(to) => f.write_str(&span(to.saturating_sub(from))),
            None => {
                let text = span(self.now_ms.saturating_sub(from));
                write!(f, r#"<span data-since="{from}">{text}</span>"#)
            }
        }
    }
}

impl HtmlSafe for Lasted {}

/// `3 s ago`, `just now`, `in 5 min`.
#[must_use]
pub fn ago(at_ms: u64, now_ms: u64) -> String {
    match now_ms.checked_sub(at_ms) {
        Some(past) if past >= 1000 => format!("{} ago", short(past)),
        None if at_ms - now_ms > 1000 => format!("in {}", short(at_ms - now_ms)),
        Some(_) | None => "just now".to_owned(),
    }
}

/// `250 ms`, `12 s`, `2 min 5 s`, `1 h 3 min`.
#[must_use]
pub fn span(ms: u64) -> String {
    for (index, (unit, name)) in UNITS.iter().enumerate() {
        if ms < *unit {
            continue;
        }
        let whole = ms / unit;
        let rest = UNITS
            .get(index + 1)
            .map(|(next, name)| (ms % unit / next, name));
        return match rest {
            Some((rest, next)) if rest > 0 => format!("{whole} {name} {rest} {next}"),
            Some(_) | None => format!("{whole} {name}"),
        };
    }
    format!("{ms} ms")
}

fn short(ms: u64) -> String {
    let unit = UNITS.iter().find(|(unit, _)| ms >= *unit);
    unit.map_or_else(
        || format!("{ms} ms"),
        |(unit, name)| format!("{} {name}", ms / unit),
    )
}

/// `2026-11-29 20:50:07.123 UTC`.
#[must_use]
pub fn utc(ms: u64) -> String {
    let text = rfc3339(ms);
    format!("{} UTC", text.trim_end_matches('Z').replace('T', " "))
}

fn rfc3339(ms: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(ms.min(LAST_MS));
    humantime::format_rfc3339_millis(at).to_string()
}

/// `512 MiB`, `4 GiB`, `1.5 TiB`.
#[must_use]
pub fn mebibytes(mib: u64) -> String {
    let (unit, name) = match mib {
        0..1024 => (1, "MiB"),
        1024..0x10_0000 => (1 << 10, "GiB"),
        _ => (1 << 20, "TiB"),
    };
    let tenths = u128::from(mib) * 10 / unit;
    match tenths % 10 {
        0 => format!("{} {name}", group(tenths / 10)),
        part => format!("{}.{part} {name}", group(tenths / 10)),
    }
}

/// Without the codes that colour text on a terminal.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' && rest.peek() == Some(&'[') {
            let _bracket = rest.next();
            while rest
                .next_if(|c| c.is_ascii_digit() || matches!(c, ';' | '?'))
                .is_some()
            {}
            let _last = rest.next_if(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

/// `1,234,567`.
#[must_use]
pub fn count(n: u64) -> String {
    group(u128::from(n))
}

/// `1 core`, `2 cores`.
#[must_use]
pub fn counted(n: u64, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {what}{s}", count(n))
}

fn group(n: u128) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        let now = 1_800_000_000_000;
        for (at, words) in [
            (now, "just now"),
            (now + 500, "just now"),
            (now - 3_200, "3 s ago"),
            (now - 150_000, "2 min ago"),
            (now - 7_200_000, "2 h ago"),
            (now - 3 * 86_400_000, "3 d ago"),
            (now + 300_000, "in 5 min"),
        ] {
            assert_eq!(ago(at, now), words);
        }
        for (ms, words) in [
            (0, "0 ms"),
            (250, "250 ms"),
            (12_900, "12 s"),
            (125_000, "2 min 5 s"),
            (3_780_000, "1 h 3 min"),
            (172_800_000, "2 d"),
        ] {
            assert_eq!(span(ms), words);
        }
    }

    #[test]
    fn the_exact_instant_is_kept_beside_the_words() {
        let when = When::new(1_796_000_000_123, 1_796_000_003_123).to_string();
        assert!(when.contains(">3 s ago</time>"), "{when}");
        assert!(
            when.contains(r#"title="2026-11-30 00:53:20.123 UTC""#),
            "{when}"
        );
        assert!(When::new(0, 5).to_string().contains('–'));
        assert!(utc(u64::MAX).starts_with("9999-12-31"));
    }

    #[test]
    fn what_goes_on_counts_on() {
        assert_eq!(Lasted::new(1_000, 3_500, 9_000).to_string(), "2 s");
        assert!(
            Lasted::new(1_000, 0, 9_000)
                .to_string()
                .contains(r#"data-since="1000">8 s"#)
        );
    }

    #[test]
    fn sizes_and_counts_are_grouped() {
        assert_eq!(mebibytes(512), "512 MiB");
        assert_eq!(mebibytes(1536), "1.5 GiB");
        assert_eq!(mebibytes(4 << 10), "4 GiB");
        assert_eq!(mebibytes(3 << 20), "3 TiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(counted(1, "core"), "1 core");
    }

    #[test]
    fn colours_of_a_terminal_are_left_out() {
        assert_eq!(plain("a\u{1b}[31;1mred\u{1b}[0m b\u{1b}[?25l"), "ared b");
        assert_eq!(plain("\u{1b}[999"), "", "cut off in the middle");
        assert_eq!(plain("plain\u{1b}x"), "plain\u{1b}x");
    }
}
