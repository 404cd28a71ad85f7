//! How many files this process may have open: every session of a master is one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::exit::Failure;

/// Raises the soft limit to the hard one, as far as the system lets it, and says how many there may be. The soft limit is
/// 1,024 in most places for the sake of `select`, which nothing here uses. Children inherit it, so this is nothing for an
/// agent, which starts other people's programs.
pub(crate) fn raise() -> u64 {
    let (soft, hard) = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok(limits) => limits,
        Err(error) => {
            tracing::warn!(%error, "cannot read the limit of open files");
            return u64::MAX;
        }
    };
    if soft >= hard {
        return soft;
    }
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => {
            tracing::debug!(from = soft, to = hard, "raised the limit of open files");
            hard
        }
        Err(error) => {
            tracing::warn!(soft, hard, %error, "cannot raise the limit of open files");
            soft
        }
    }
}

/// Raises the limit, and fails where it still is below `needed`.
///
/// # Errors
/// With what to do about it.
pub(crate) fn require(needed: u64) -> Result<(), Failure> {
    let may = raise();
    if may >= needed {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "open files: {needed} are needed, this process may have {may}; raise the hard limit (`ulimit -Hn {needed}` as root, \
         `LimitNOFILE=` for a service), or use fewer"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let may = raise();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        assert_eq!((soft, may), (hard, hard));
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused_with_both_numbers_and_a_remedy() {
        let may = raise();
        assert!(require(1).is_ok());
        if let Some(more) = may.checked_add(1) {
            let failure = require(more).expect_err("too many");
            for part in [more.to_string(), may.to_string(), "ulimit -Hn".to_owned()] {
                assert!(failure.message.contains(&part), "{}", failure.message);
            }
        }
    }
}
