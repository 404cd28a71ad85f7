//! One field and its bounds: the refusal that names it, and the checks that every description is made of.
//!
//! Used through [`validate`](super::validate); nothing here knows a description.

use std::{borrow::Cow, fmt::Display};

use interrex_proto::limits::{CORES_MAX, MEMORY_MIB_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX};

/// How much of a bad value a refusal repeats, in characters.
const SHOWN_CHARS_MAX: usize = 48;

/// Why a description was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct FieldError {
    /// Which field, as a path such as `command.args[3]`.
    pub field: Cow<'static, str>,
    /// Its value, and what would be right.
    pub reason: String,
}

// === impl FieldError ===

impl FieldError {
    /// A refusal of `field`.
    pub fn new(field: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }
}

/// At most the first [`SHOWN_CHARS_MAX`] characters, with control characters escaped, in backquotes.
#[must_use]
pub fn shown(value: &str) -> String {
    let mut text: String = value
        .chars()
        .take(SHOWN_CHARS_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if value.chars().nth(SHOWN_CHARS_MAX).is_some() {
        text.push('…');
    }
    format!("`{text}`")
}

/// As [`shown`], without the backquotes: for paths and sentences that have marks of their own.
#[must_use]
pub fn cut(value: &str) -> String {
    shown(value).trim_matches('`').to_owned()
}

/// `text` cut to [`TEXT_BYTES_MAX`] at a character's edge: messages for people are never refused.
#[must_use]
pub fn cut_message(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
    text
}

/// A client's id for a request (also a submission's id): an [`id`] that cannot be taken for one of ours.
///
/// # Errors
/// [`FieldError`] with what is wrong with it.
pub fn request_id(field: &'static str, value: &str) -> Result<(), FieldError> {
    id(field, value)?;
    if looks_like_ours(value) {
        return Err(FieldError::new(
            field,
            format!(
                "{} looks like an id that the cluster gives; choose another",
                shown(value)
            ),
        ));
    }
    Ok(())
}

/// An id: 1 to [`NAME_BYTES_MAX`] printable ASCII characters without spaces and slashes.
///
/// # Errors
/// [`FieldError`] with what is wrong with it.
pub fn id(field: &'static str, value: &str) -> Result<(), FieldError> {
    bounded(field, value)?;
    if value.is_empty() {
        return Err(FieldError::new(
            field,
            "is empty; an id has 1 to 256 characters",
        ));
    }
    match value.bytes().all(|b| b.is_ascii_graphic() && b != b'/') {
        true => Ok(()),
        false => Err(FieldError::new(
            field,
            format!(
                "{} has a space, slash or unprintable character",
                shown(value)
            ),
        )),
    }
}

/// A name for people: at most [`NAME_BYTES_MAX`] bytes, no control characters; may be empty.
///
/// # Errors
/// [`FieldError`] with what is wrong with it.
pub fn name(field: impl Into<Cow<'static, str>>, value: &str) -> Result<(), FieldError> {
    let field = field.into();
    bounded(field.clone(), value)?;
    match value.chars().any(char::is_control) {
        true => Err(FieldError::new(
            field,
            format!("{} has a control character", shown(value)),
        )),
        false => Ok(()),
    }
}

/// Whole cores of one thing: 1 to [`CORES_MAX`].
///
/// # Errors
/// [`FieldError`] with the value and the limits.
pub fn cores(field: impl Into<Cow<'static, str>>, value: u32) -> Result<(), FieldError> {
    within(field, u64::from(value), u64::from(CORES_MAX), "cores")
}

/// Memory of one thing: 1 to [`MEMORY_MIB_MAX`] MiB.
///
/// # Errors
/// [`FieldError`] with the value and the limits.
pub fn memory(field: impl Into<Cow<'static, str>>, mib: u64) -> Result<(), FieldError> {
    within(field, mib, MEMORY_MIB_MAX, "MiB")
}

pub(super) fn bounded(field: impl Into<Cow<'static, str>>, value: &str) -> Result<(), FieldError> {
    if value.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    let reason = format!(
        "{} is {} bytes; at most {NAME_BYTES_MAX} are allowed",
        shown(value),
        value.len()
    );
    Err(FieldError::new(field, reason))
}

pub(super) fn text(field: impl Into<Cow<'static, str>>, value: &str) -> Result<(), FieldError> {
    match value.find('\0') {
        Some(at) => {
            let reason = format!("{} has a NUL byte at offset {at}", shown(value));
            Err(FieldError::new(field, reason))
        }
        None => Ok(()),
    }
}

pub(super) fn within(
    field: impl Into<Cow<'static, str>>,
    value: u64,
    max: u64,
    unit: impl Display,
) -> Result<(), FieldError> {
    match (1..=max).contains(&value) {
        true => Ok(()),
        false => Err(FieldError::new(
            field,
            format!("`{value}` {unit}; 1 to {max} are allowed"),
        )),
    }
}

pub(super) fn count(field: &'static str, found: usize, max: usize) -> Result<(), FieldError> {
    match found > max {
        true => Err(FieldError::new(
            field,
            format!("has {found} entries; at most {max} are allowed"),
        )),
        false => Ok(()),
    }
}

pub(super) fn twice(field: impl Into<Cow<'static, str>>, value: &str) -> FieldError {
    FieldError::new(field, format!("{} is listed twice", shown(value)))
}

pub(super) fn has_nul(value: &str) -> bool {
    value.contains('\0')
}

/// `driver-20261129143200-0001` or `app-...`: such a request id could name two things.
fn looks_like_ours(value: &str) -> bool {
    let mut parts = value.split('-');
    let digits = |part: Option<&str>, least: usize| {
        part.is_some_and(|p| p.len() >= least && p.bytes().all(|b| b.is_ascii_digit()))
    };
    matches!(parts.next(), Some("driver" | "app"))
        && digits(parts.next(), 14)
        && digits(parts.next(), 1)
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_printable_and_cannot_be_taken_for_ours() {
        assert_eq!(request_id("request_id", "nightly-2026.11.29:1"), Ok(()));
        for bad in [
            "",
            "a b",
            "a/b",
            "a\n",
            "ä",
            "driver-20261129143200-0001",
            "app-20261129143200-1",
        ] {
            assert!(
                request_id("request_id", bad).is_err(),
                "{bad:?} must be refused"
            );
        }
        assert_eq!(request_id("request_id", "driver-nightly-1"), Ok(()));
        assert!(id("id", &"i".repeat(257)).is_err());
    }

    #[test]
    fn a_message_is_cut_at_a_character() {
        let text = cut_message("ä".repeat(TEXT_BYTES_MAX));
        assert_eq!(text.len(), TEXT_BYTES_MAX);
        assert_eq!(cut_message("short".into()), "short");
    }
}
