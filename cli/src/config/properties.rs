//! Java's properties, as `spark-defaults.conf` has them: `java.util.Properties.load`. Pure.
//!
//! A key ends at the first `=`, `:` or blank that has no backslash before it; a line that ends with a backslash goes on
//! in the next one; `#` and `!` begin comments. The crates for this bring a regex engine or encodings along.

use std::iter::Peekable;
use std::str::Chars;

/// Why a file is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: \\u is followed by `{found}`, which are no four hexadecimal digits")]
pub(crate) struct PropertiesError {
    /// From 1.
    line: usize,
    /// What stands there.
    found: String,
}

/// Keys with their values, in the order of the file; the last one of a name counts.
///
/// # Errors
/// A `\u` that is followed by something else than four hexadecimal digits.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, String)>, PropertiesError> {
    let mut pairs = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let mut logical = line.trim_start_matches(is_blank).to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while ends_open(&logical) {
            logical.pop();
            let Some((_, more)) = lines.next() else { break };
            logical.push_str(more.trim_start_matches(is_blank));
        }
        let wrong = |found| PropertiesError {
            line: number + 1,
            found,
        };
        pairs.push(pair(&logical).map_err(wrong)?);
    }
    Ok(pairs)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// An odd number of backslashes at the end.
fn ends_open(line: &str) -> bool {
    line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

fn pair(line: &str) -> Result<(String, String), String> {
    let mut rest = line.chars().peekable();
    let key = piece(&mut rest, |c| is_blank(c) || matches!(c, '=' | ':'))?;
    while rest.next_if(|c| is_blank(*c)).is_some() {}
    if rest.next_if(|c| matches!(c, '=' | ':')).is_some() {
        while rest.next_if(|c| is_blank(*c)).is_some() {}
    }
    let value = piece(&mut rest, |_| false)?;
    Ok((key, value))
}

/// Up to the first character that ends it; escapes replaced.
fn piece(rest: &mut Peekable<Chars<'_>>, ends: impl Fn(char) -> bool) -> Result<String, String> {
    let mut text = String::new();
    while let Some(c) = rest.next_if(|c| !ends(*c)) {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('t') => text.push('\t'),
            Some('n') => text.push('\n'),
            Some('r') => text.push('\r'),
            Some('f') => text.push('\u{c}'),
            Some('u') => {
                let digits: String = rest.by_ref().take(4).collect();
                let number = u32::from_str_radix(&digits, 16).ok();
                let number = number.filter(|_| digits.len() == 4);
                // Half of a pair of UTF-16 is not a character of its own.
                let number = number.ok_or(digits)?;
                text.push(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => text.push(other),
            None => {}
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        parse(text).expect("properties")
    }

    fn one(text: &str) -> (String, String) {
        let mut all = read(text);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn all_separators_of_java_are_known() {
        for line in ["a=b", "a:b", "a b", "a \t= b", "  a   b", "a\u{c}:\tb"] {
            assert_eq!(one(line), ("a".to_owned(), "b".to_owned()), "{line:?}");
        }
        assert_eq!(one("a==b"), ("a".to_owned(), "=b".to_owned()));
        assert_eq!(one("a"), ("a".to_owned(), String::new()));
        assert_eq!(one("a= b c "), ("a".to_owned(), "b c ".to_owned()));
    }

    #[test]
    fn comments_and_empty_lines_are_left_out() {
        assert!(read("# a=b\n ! c=d\n\n \t \n").is_empty());
        assert_eq!(one("a=#b"), ("a".to_owned(), "#b".to_owned()));
    }

    #[test]
    fn a_line_goes_on_behind_a_backslash() {
        assert_eq!(one("a = b,\\\n    c"), ("a".to_owned(), "b,c".to_owned()));
        assert_eq!(one("a = b\\"), ("a".to_owned(), "b".to_owned()));
        assert_eq!(one("a = b\\\\"), ("a".to_owned(), "b\\".to_owned()));
    }

    #[test]
    fn escapes_are_replaced() {
        assert_eq!(
            one(r"a\ b\=c=\u00fc\t\q"),
            ("a b=c".to_owned(), "ü\tq".to_owned())
        );
        let wrong = parse("x=1\na=\\u12").expect_err("two digits");
        assert_eq!(
            wrong.to_string(),
            "line 2: \\u is followed by `12`, which are no four hexadecimal digits"
        );
    }
}
