//! The list of masters as people write it: `a:7077,b:7077`, `spark://a:7077,b:7077`, or several of these.

use std::collections::BTreeSet;

/// Most masters one list may name.
pub const MASTERS_MAX: usize = 64;

/// Why a list of masters was refused. The message names the entry and the fix; retrying does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MastersError {
    /// No address at all.
    #[error("masters: the list is empty: give host:port, such as 127.0.0.1:7077")]
    Empty,
    /// One entry is not `host:port`.
    #[error("masters: entry `{entry}` {fault}: write host:port, such as 127.0.0.1:7077")]
    Entry {
        /// The entry as it was written.
        entry: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// More than [`MASTERS_MAX`] addresses.
    #[error("masters: {count} addresses are more than the limit of {MASTERS_MAX}")]
    TooMany {
        /// How many were given.
        count: usize,
    },
}

/// Reads `lists`, each `host:port` separated by commas with an optional `spark://` in front, into plain
/// `host:port` addresses: in order, each once.
///
/// # Errors
/// [`MastersError`] naming the first bad entry.
pub fn parse<I>(lists: I) -> Result<Vec<String>, MastersError>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let mut known = BTreeSet::new();
    let mut addresses = Vec::new();
    for list in lists {
        for entry in list
            .as_ref()
            .split(',')
            .map(str::trim)
            .filter(|e| !e.is_empty())
        {
            let address = parse_entry(entry)?;
            if known.insert(address.clone()) {
                addresses.push(address);
            }
        }
    }
    match addresses.len() {
        0 => Err(MastersError::Empty),
        count if count > MASTERS_MAX => Err(MastersError::TooMany { count }),
        _ => Ok(addresses),
    }
}

/// Whether `address` is a plain `host:port` that can be dialled.
pub(crate) fn is_address(address: &str) -> bool {
    parse_entry(address).is_ok_and(|plain| plain == address)
}

fn parse_entry(entry: &str) -> Result<String, MastersError> {
    let fault = |fault| {
        Err(MastersError::Entry {
            entry: entry.to_owned(),
            fault,
        })
    };
    let plain = entry.strip_prefix("spark://").unwrap_or(entry);
    if plain.contains("://") {
        return fault("has an unknown scheme");
    }
    let Some((host, port)) = plain.rsplit_once(':') else {
        return fault("has no port");
    };
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return fault("has a port outside 1 to 65535");
    }
    let host_ok = match host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
        }
    };
    if !host_ok {
        return fault("has no valid host");
    }
    Ok(plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_writing_a_list_gives_plain_addresses_once() {
        let expected = vec!["a:1".to_owned(), "b:2".to_owned(), "[::1]:3".to_owned()];
        assert_eq!(parse(["a:1,b:2,[::1]:3"]).unwrap(), expected);
        assert_eq!(parse(["spark://a:1,b:2,[::1]:3"]).unwrap(), expected);
        assert_eq!(
            parse(["a:1", "b:2, a:1", "spark://[::1]:3,"]).unwrap(),
            expected
        );
    }

    #[test]
    fn a_bad_entry_is_named_with_its_fault() {
        for (list, entry, fault) in [
            ("a:1,b", "b", "has no port"),
            ("a:0", "a:0", "has a port outside 1 to 65535"),
            ("a:70000", "a:70000", "has a port outside 1 to 65535"),
            ("a:x", "a:x", "has a port outside 1 to 65535"),
            (":7077", ":7077", "has no valid host"),
            ("::1:7077", "::1:7077", "has no valid host"),
            ("a b:7077", "a b:7077", "has no valid host"),
            ("http://a:7077", "http://a:7077", "has an unknown scheme"),
        ] {
            let expected = MastersError::Entry {
                entry: entry.to_owned(),
                fault,
            };
            assert_eq!(parse([list]), Err(expected), "{list}");
        }
        assert_eq!(parse(["", " , "]), Err(MastersError::Empty));
        assert_eq!(parse(Vec::<String>::new()), Err(MastersError::Empty));
    }

    #[test]
    fn too_many_masters_are_refused_with_the_limit() {
        let many: Vec<String> = (0..=MASTERS_MAX).map(|n| format!("m{n}:7077")).collect();
        assert_eq!(
            parse(&many),
            Err(MastersError::TooMany {
                count: MASTERS_MAX + 1
            })
        );
    }
}
