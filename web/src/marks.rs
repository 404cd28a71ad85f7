//! Small marks on a page: states as pills, shares as bars, links. Each writes itself as HTML and escapes its text.

use std::fmt;

use askama::{Template, filters::HtmlSafe};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::format;

/// Everything in a path's segment but what may stand there as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// What a state means for whoever looks at it; never told by colour alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// At work.
    Busy,
    /// Waits.
    Wait,
    /// Went wrong.
    Bad,
    /// Over, or without a meaning of its own.
    #[default]
    Quiet,
}

/// A state as a pill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Template)]
#[template(
    source = r#"<span class="pill {{ tone.class() }}" title="{{ state }}">{{ words }}</span>"#,
    ext = "html"
)]
pub struct Pill {
    state: String,
    words: String,
    tone: Tone,
}

/// How much of something is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bar {
    used: u64,
    of: u64,
}

/// A link, or only its text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Template)]
#[template(
    source = r#"{% if let Some(href) = href %}<a href="{{ href }}">{{ text }}</a>{% else if text.is_empty() %}<span class="none">–</span>{% else %}{{ text }}{% endif %}"#,
    ext = "html"
)]
pub struct Link {
    text: String,
    href: Option<String>,
}

// === impl Tone ===

impl Tone {
    /// As the style sheet calls it.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Wait => "wait",
            Self::Bad => "bad",
            Self::Quiet => "quiet",
        }
    }

    /// Of a state in Spark's words, or of the name of an event that ends in one.
    #[must_use]
    pub fn of(state: &str) -> Self {
        match state {
            "ALIVE" | "FINISHED" | "LEADER" | "ELECTED" | "ACCEPTING" | "ENDED" | "READY" => {
                Self::Good
            }
            "RUNNING"
            | "LAUNCHING"
            | "KILLING"
            | "STARTING"
            | "ENDING"
            | "RECOVERING"
            | "COMPLETING_RECOVERY" => Self::Busy,
            "SUBMITTED" | "WAITING" | "RELAUNCHING" | "UNKNOWN" | "DECOMMISSIONED" | "DRAIN"
            | "KILL_REQUESTED" | "NOT_ACCEPTING" | "RESTORING" | "CAMPAIGNING" | "HELD" => {
                Self::Wait
            }
            "FAILED" | "ERROR" | "DEAD" | "LOST" | "REFUSED" | "QUARANTINED" | "CONFLICT"
            | "HOPELESS" | "UNREADY" => Self::Bad,
            _other => Self::Quiet,
        }
    }
}

// === impl Pill ===

impl Pill {
    /// Of a state in Spark's words, such as `RELAUNCHING`.
    #[must_use]
    pub fn of(state: &str) -> Self {
        Self::new(state, Tone::of(state))
    }

    /// With a meaning of its own.
    #[must_use]
    pub fn new(state: &str, tone: Tone) -> Self {
        Self {
            state: state.to_owned(),
            words: words(state),
            tone,
        }
    }
}

impl HtmlSafe for Pill {}

/// With a capital letter in front, as a sentence begins.
#[must_use]
pub fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// `KILL_REQUESTED` → `Kill requested`.
#[must_use]
pub fn words(state: &str) -> String {
    sentence(&state.replace('_', " ").to_lowercase())
}

// === impl Bar ===

impl Bar {
    /// `used` of `of`.
    #[must_use]
    pub fn new(used: u64, of: u64) -> Self {
        Self { used, of }
    }

    /// In whole percent, at most 100; 0 of 0 is 0.
    #[must_use]
    pub fn percent(self) -> u64 {
        let percent = u128::from(self.used) * 100 / u128::from(self.of.max(1));
        u64::try_from(percent.min(100)).unwrap_or(100)
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.percent();
        let full = if percent >= 95 { " full" } else { "" };
        write!(
            f,
            concat!(
                r#"<svg class="bar" role="img" aria-label="{p} % in use">"#,
                r#"<rect class="track" width="100%" height="100%" rx="6"/>"#,
                r#"<rect class="fill{full}" width="{p}%" height="100%" rx="6"/></svg>"#
            ),
            p = percent,
            full = full
        )
    }
}

impl HtmlSafe for Bar {}

// === impl Link ===

impl Link {
    /// To a path of segments, such as `["workers", "w1"]`; an empty text is no link.
    #[must_use]
    pub fn to(text: impl Into<String>, segments: &[&str]) -> Self {
        let text = text.into();
        let href = (!text.is_empty()).then(|| path(segments));
        Self { text, href }
    }

    /// To another server, given as `host:port`; the scheme is that of the page.
    #[must_use]
    pub fn out(text: impl Into<String>, host: &str, rest: &str) -> Self {
        let text = text.into();
        let usable = !host.is_empty() && !host.contains(['/', '\\', '?', '#', '@', ' ']);
        Self {
            href: usable.then(|| format!("//{host}{rest}")),
            text,
        }
    }

    /// Whether there is nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Only text.
    #[must_use]
    pub fn none(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            href: None,
        }
    }
}

impl HtmlSafe for Link {}

/// A path on this server: every segment encoded.
#[must_use]
pub fn path(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, SEGMENT));
    }
    path
}

/// `12 of 32 cores`, for what stands beside a [`Bar`].
#[must_use]
pub fn used_of(used: u64, of: u64, what: &str) -> String {
    format!("{} of {}", format::count(used), format::counted(of, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_wherever_it_comes_from() {
        let evil = r#"<script>alert("1")</script>'&"#;
        for html in [
            Pill::of(evil).to_string(),
            Link::to(evil, &["workers", evil]).to_string(),
            Link::none(evil).to_string(),
        ] {
            assert!(
                !html.contains("<script") && !html.contains("alert(\""),
                "{html}"
            );
        }
        assert_eq!(path(&["drivers", "a/b?c#d%"]), "/drivers/a%2Fb%3Fc%23d%25");
    }

    #[test]
    fn a_link_out_of_the_cluster_cannot_become_a_script() {
        for host in ["javascript:alert(1)//", "a b", "x@y:1", ""] {
            let html = Link::out("w1", host, "/").to_string();
            assert_eq!(html, "w1", "{host}");
        }
        assert_eq!(
            Link::out("w1", "10.0.0.1:8081", "/").to_string(),
            r#"<a href="//10.0.0.1:8081/">w1</a>"#
        );
    }

    #[test]
    fn a_state_is_told_in_words() {
        assert_eq!(words("KILL_REQUESTED"), "Kill requested");
        let pill = Pill::of("RUNNING").to_string();
        assert_eq!(
            pill,
            r#"<span class="pill busy" title="RUNNING">Running</span>"#
        );
    }

    #[test]
    fn a_bar_never_leaves_its_frame() {
        assert_eq!(Bar::new(0, 0).percent(), 0);
        assert_eq!(Bar::new(3, 4).percent(), 75);
        assert_eq!(Bar::new(u64::MAX, 1).percent(), 100);
        assert!(Bar::new(4, 4).to_string().contains("fill full"));
    }
}
