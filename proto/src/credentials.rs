//! The token that a caller shows to masters, added to every call of a channel.
//!
//! Masters that were given tokens refuse what changes anything without one. A token is a secret: it is never logged,
//! printed or written anywhere, and [`Credentials`] shows only whether there is one.

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

/// Holds a token; there is no option for it, since whoever lists processes sees options.
const VARIABLE: &str = "INTERREX_TOKEN";
/// Names a file that holds one.
pub const FILE_VARIABLE: &str = "INTERREX_TOKEN_FILE";
/// Shortest token: guessing one must not be worth a try.
pub const TOKEN_BYTES_MIN: usize = 16;
/// Longest token.
pub const TOKEN_BYTES_MAX: usize = 256;

/// A channel whose calls carry the caller's token.
pub type MasterChannel = InterceptedService<Channel, Credentials>;

/// The token that is shown, or none. Clones share it, so that a new one reaches all channels.
#[derive(Clone, Default)]
pub struct Credentials {
    bearer: Arc<RwLock<Option<MetadataValue<Ascii>>>>,
}

/// A token that cannot be one.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("token file {file}: {source}")]
    Unreadable {
        /// Which.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// It is too short, too long, or has characters that do not travel in a header.
    #[error(
        "a token has {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} letters, digits and -._~+/=, and this one has not \
         ({length} bytes); make one with `openssl rand -hex 32`"
    )]
    Malformed {
        /// Its length; what it says is a secret.
        length: usize,
    },
}

// === impl Credentials ===

impl Credentials {
    /// Shows `token`.
    ///
    /// # Errors
    /// [`TokenError::Malformed`].
    pub fn new(token: &str) -> Result<Self, TokenError> {
        let made = Self::default();
        made.replace(token)?;
        Ok(made)
    }

    /// Shows what the environment says: the token in the file that `INTERREX_TOKEN_FILE` names, or `INTERREX_TOKEN`
    /// itself; nothing where neither is set.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn of_environment() -> Result<Self, TokenError> {
        match (std::env::var_os(FILE_VARIABLE), std::env::var(VARIABLE)) {
            (Some(file), _) => Self::read(Path::new(&file)),
            (None, Ok(token)) => Self::new(token.trim()),
            (None, Err(_unset)) => Ok(Self::default()),
        }
    }

    /// Shows the token that `file` holds, without the space around it.
    ///
    /// # Errors
    /// [`TokenError`], also where the file cannot be read.
    pub fn read(file: &Path) -> Result<Self, TokenError> {
        let made = Self::default();
        made.read_again(file)?;
        Ok(made)
    }

    /// From now on every clone shows what `file` holds now.
    ///
    /// # Errors
    /// [`TokenError`]; the former token stays.
    pub fn read_again(&self, file: &Path) -> Result<(), TokenError> {
        let text = std::fs::read_to_string(file).map_err(|source| TokenError::Unreadable {
            file: file.display().to_string(),
            source,
        })?;
        self.replace(text.trim())
    }

    /// From now on every clone shows `token`.
    ///
    /// # Errors
    /// [`TokenError::Malformed`]; the former token stays.
    pub fn replace(&self, token: &str) -> Result<(), TokenError> {
        let malformed = || TokenError::Malformed {
            length: token.len(),
        };
        if !is_token(token) {
            return Err(malformed());
        }
        let bearer = format!("Bearer {token}").parse();
        let mut bearer: MetadataValue<Ascii> = bearer.map_err(|_unprintable| malformed())?;
        bearer.set_sensitive(true);
        *self.bearer.write().unwrap_or_else(PoisonError::into_inner) = Some(bearer);
        Ok(())
    }

    /// A channel whose calls carry the token of the moment at which they are made.
    #[must_use]
    pub fn over(&self, channel: Channel) -> MasterChannel {
        InterceptedService::new(channel, self.clone())
    }

    /// What the header `authorization` says of this token, for calls that are not gRPC; `None` where there is no token.
    #[must_use]
    pub fn header(&self) -> Option<String> {
        let current = self.current()?;
        current.to_str().ok().map(str::to_owned)
    }

    /// Whether `shown`, such a header, has this very token; where there is none, everybody is let in.
    #[must_use]
    pub fn admits(&self, shown: Option<&[u8]>) -> bool {
        let Some(own) = self.current() else {
            return true;
        };
        let (own, shown) = (own.as_bytes(), shown.unwrap_or_default());
        // Every byte is looked at: how long this takes must not tell how many were right.
        let differences = own.iter().zip(shown).fold(0, |sum, (a, b)| sum | (a ^ b));
        own.len() == shown.len() && differences == 0
    }

    fn current(&self) -> Option<MetadataValue<Ascii>> {
        let bearer = self.bearer.read().unwrap_or_else(PoisonError::into_inner);
        bearer.clone()
    }
}

/// Whether `token` can be one: RFC 6750's characters, in a length that is worth something.
#[must_use]
pub fn is_token(token: &str) -> bool {
    let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&token.len());
    fits && token
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(bearer) = self.current() {
            request.metadata_mut().insert("authorization", bearer);
        }
        Ok(request)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.current().is_some() {
            "a token"
        } else {
            "none"
        };
        f.debug_tuple("Credentials").field(&shown).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn shown(credentials: &Credentials) -> Option<String> {
        let mut interceptor = credentials.clone();
        let request = interceptor.call(Request::new(())).expect("never refused");
        let value = request.metadata().get("authorization")?;
        Some(value.to_str().expect("text").to_owned())
    }

    #[test]
    fn every_call_carries_the_token_of_the_moment() {
        let credentials = Credentials::new(TOKEN).expect("a token");
        let clone = credentials.clone();
        assert_eq!(shown(&clone), Some(format!("Bearer {TOKEN}")));
        let newer = "fedcba9876543210";
        credentials.replace(newer).expect("a token");
        assert_eq!(shown(&clone), Some(format!("Bearer {newer}")));
        assert_eq!(shown(&Credentials::default()), None);
    }

    #[test]
    fn what_cannot_be_a_token_is_refused_without_being_shown() {
        for bad in [
            "short",
            "with a space in it",
            &"x".repeat(257),
            "línea-con-acentos",
        ] {
            let refused = Credentials::new(bad).expect_err("refused").to_string();
            assert!(refused.contains("openssl rand"), "{refused}");
            assert!(!refused.contains(bad), "{refused}");
        }
    }

    #[test]
    fn a_token_is_not_shown_for_debugging() {
        let credentials = Credentials::new(TOKEN).expect("a token");
        assert_eq!(format!("{credentials:?}"), "Credentials(\"a token\")");
    }

    #[test]
    fn a_file_that_went_bad_leaves_the_former_token() {
        let folder = std::env::temp_dir().join(format!("interrex-token-{}", std::process::id()));
        std::fs::write(&folder, format!("{TOKEN}\n")).expect("written");
        let credentials = Credentials::read(&folder).expect("a token");
        std::fs::write(&folder, "no").expect("written");
        credentials.read_again(&folder).expect_err("too short");
        std::fs::remove_file(&folder).expect("removed");
        credentials.read_again(&folder).expect_err("gone");
        assert_eq!(shown(&credentials), Some(format!("Bearer {TOKEN}")));
    }
}
