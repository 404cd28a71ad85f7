//! Who may change something: callers that show a token which this master knows.
//!
//! Without tokens everybody may, as with Spark. With tokens, whatever changes something needs one, over every port;
//! what only shows something does not. Tokens are kept as digests. Every refusal and every change by a named caller
//! is written to the audit log (`target = "interrex::audit"`).

pub(crate) mod audit;

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use interrex_proto::credentials::{Credentials, TOKEN_BYTES_MAX, TOKEN_BYTES_MIN, is_token};
use sha2::{Digest, Sha256};

use crate::metrics;

/// Most tokens of one master.
pub const TOKENS_MAX: usize = 1_000;
/// Longest name of a caller, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The tokens that a master knows, by file. Clones share them.
#[derive(Clone, Default)]
pub struct Access {
    tokens: Arc<RwLock<Option<Tokens>>>,
    own: Credentials,
    /// Spark's RPC is served although it knows no tokens.
    spark_is_open: bool,
}

/// Whose a digest is.
type Tokens = BTreeMap<[u8; 32], Arc<str>>;

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// No tokens are in use.
    Anybody,
    /// The name that belongs to the token.
    Named(Arc<str>),
}

/// A caller that may not change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// It shows none.
    #[error(
        "this master wants a token for what changes something, and none was shown; set --token-file or INTERREX_TOKEN"
    )]
    Missing,
    /// It shows one that nobody has.
    #[error("the token that was shown is not one of this master's; ask its operator")]
    Unknown,
}

/// A file of tokens that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It cannot be read.
    #[error("tokens: {file}: {source}")]
    Unreadable {
        /// Which.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// It is wrong. What a token says is never shown.
    #[error("tokens: {file}: {reason}")]
    Malformed {
        /// Which.
        file: String,
        /// What is wrong and where.
        reason: String,
    },
}

// === impl Access ===

impl Access {
    /// Reads a file with a caller's name and its token on each line; empty lines and those with `#` in front count
    /// for nothing. The first line is the masters' own: with it they speak to each other.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn read(file: &Path) -> Result<Self, AccessError> {
        let made = Self::default();
        made.read_again(file)?;
        Ok(made)
    }

    /// From now on, what `file` holds now counts.
    ///
    /// # Errors
    /// [`AccessError`]; what counted before still does.
    pub fn read_again(&self, file: &Path) -> Result<(), AccessError> {
        let name = || file.display().to_string();
        let text = fs::read_to_string(file).map_err(|source| AccessError::Unreadable {
            file: name(),
            source,
        })?;
        let malformed = |reason| AccessError::Malformed {
            file: name(),
            reason,
        };
        let (tokens, own) = parse(&text).map_err(malformed)?;
        self.own
            .replace(&own)
            .map_err(|error| malformed(error.to_string()))?;
        *self.tokens.write().unwrap_or_else(PoisonError::into_inner) = Some(tokens);
        Ok(())
    }

    /// Serves Spark's RPC, which has no place for a token, although there are tokens.
    #[must_use]
    pub fn with_open_spark(mut self, is_open: bool) -> Self {
        self.spark_is_open = is_open;
        self
    }

    /// Whether programs of Spark may speak to this master.
    #[must_use]
    pub fn admits_spark(&self) -> bool {
        self.spark_is_open || !self.is_limited()
    }

    /// What this master shows to others.
    #[must_use]
    pub fn own(&self) -> &Credentials {
        &self.own
    }

    /// Whether changes need a token.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        tokens.is_some()
    }

    /// Who shows this token.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn caller(&self, token: Option<&str>) -> Result<Caller, Denied> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let Some(tokens) = tokens.as_ref() else {
            return Ok(Caller::Anybody);
        };
        let token = token.ok_or(Denied::Missing)?;
        // By digest: how long a comparison takes says nothing of the token.
        let known = tokens.get(&digest(token)).ok_or(Denied::Unknown)?;
        Ok(Caller::Named(Arc::clone(known)))
    }

    /// The same for the value of an `authorization` header. A refusal is counted, and logged under `edge` and `what`.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn bearer(
        &self,
        header: Option<&http::HeaderValue>,
        edge: &'static str,
        what: &str,
    ) -> Result<Caller, Denied> {
        let text = header.and_then(|value| value.to_str().ok());
        let token = text.and_then(|text| {
            let (scheme, token) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        self.caller(token)
            .inspect_err(|denied| refused(*denied, edge, what))
    }
}

/// Counts and logs a refusal.
pub(crate) fn refused(denied: Denied, edge: &'static str, what: &str) {
    let reason = match denied {
        Denied::Missing => "missing",
        Denied::Unknown => "unknown",
    };
    metrics::denied(edge, reason);
    tracing::warn!(target: "interrex::audit", event = "denied", edge, what, reason, "a change without a valid token");
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("is_limited", &self.is_limited())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anybody => "anybody",
            Self::Named(name) => name,
        })
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The tokens, and the masters' own.
fn parse(text: &str) -> Result<(Tokens, String), String> {
    let mut tokens = Tokens::new();
    let mut own = None;
    for (index, line) in text.lines().enumerate() {
        let (line, number) = (line.trim(), index + 1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, token] = words.as_slice() else {
            return Err(format!(
                "line {number} has {} words; write `NAME TOKEN`",
                words.len()
            ));
        };
        if name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "line {number}: the name is longer than {NAME_BYTES_MAX} bytes"
            ));
        }
        if !is_token(token) {
            return Err(format!(
                "line {number}: the token of {name} has not {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} letters, digits and \
                 -._~+/=; make one with `openssl rand -hex 32`"
            ));
        }
        if let Some(other) = tokens.insert(digest(token), Arc::from(*name)) {
            return Err(format!(
                "line {number}: {name} has the same token as {other}"
            ));
        }
        if tokens.len() > TOKENS_MAX {
            return Err(format!("there are more than {TOKENS_MAX} tokens"));
        }
        own.get_or_insert_with(|| (*token).to_owned());
    }
    let own = own.ok_or("there is no token in it; write a line `NAME TOKEN`")?;
    Ok((tokens, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTERS: &str = "masters-0123456789";
    const ANN: &str = "ann-0123456789abcdef";

    fn access() -> Access {
        let (tokens, own) =
            parse(&format!("# callers\nmasters {MASTERS}\n\n ann  {ANN} \n")).expect("valid");
        let made = Access::default();
        made.own.replace(&own).expect("a token");
        *made.tokens.write().expect("whole") = Some(tokens);
        made
    }

    #[test]
    fn without_tokens_anybody_may() {
        assert_eq!(Access::default().caller(None), Ok(Caller::Anybody));
        assert!(!Access::default().is_limited());
    }

    #[test]
    fn with_tokens_only_who_shows_one_of_them_may() {
        let access = access();
        assert_eq!(access.caller(Some(ANN)), Ok(Caller::Named("ann".into())));
        assert_eq!(access.caller(None), Err(Denied::Missing));
        assert_eq!(access.caller(Some("ann")), Err(Denied::Unknown));
        assert_eq!(access.caller(Some("")), Err(Denied::Unknown));
    }

    #[test]
    fn a_header_is_read_as_rfc_6750_says() {
        let access = access();
        let header = |text: &str| http::HeaderValue::from_str(text).expect("printable");
        let of = |text: &str| access.bearer(Some(&header(text)), "test", "submit");
        assert!(of(&format!("Bearer {ANN}")).is_ok());
        assert!(of(&format!("bearer {ANN}")).is_ok());
        assert_eq!(of(ANN), Err(Denied::Missing));
        assert_eq!(of(&format!("Basic {ANN}")), Err(Denied::Missing));
        assert_eq!(of("Bearer nobody"), Err(Denied::Unknown));
    }

    #[test]
    fn a_file_that_makes_no_sense_is_refused_by_line_and_never_shows_a_token() {
        for (text, part) in [
            ("", "no token"),
            ("ann", "line 1 has 1 words"),
            (
                "a 0123456789abcdef\nb short-secret",
                "line 2: the token of b",
            ),
            (
                "a 0123456789abcdef\nb 0123456789abcdef",
                "b has the same token as a",
            ),
        ] {
            let refused = parse(text).expect_err("refused");
            assert!(refused.contains(part), "{refused}");
            assert!(!refused.contains("short-secret") && !refused.contains("0123456789abcdef"));
        }
    }

    #[test]
    fn the_first_token_is_the_masters_own() {
        let shown = format!("{:?}", access());
        assert!(
            !shown.contains(MASTERS) && shown.contains("true"),
            "{shown}"
        );
        let (_, own) = parse(&format!("masters {MASTERS}\nann {ANN}")).expect("valid");
        assert_eq!(own, MASTERS);
    }
}
