//! Spark's own settings for a standalone cluster, and what becomes of each here.
//!
//! A table, so that an operator who brings a `spark-defaults.conf` is told about every `spark.deploy.*`,
//! `spark.master.*` and `spark.worker.*` key: it sets one of our options, is not needed, is not supported, or is refused
//! because a cluster without it would be open where its operator thinks it is not. Nothing is dropped in silence.

mod table;

use self::table::{KEYS, RESOURCES};

/// What becomes of one of Spark's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Sets this option, by its long name, from a value of this kind.
    Becomes(&'static str, Kind),
    /// Has no meaning here; the text says what takes its place.
    NotNeeded(&'static str),
    /// Has a meaning that is not built; the text says what happens instead.
    NotYet(&'static str),
    /// A flag that must not be on; the text says why.
    Refused(&'static str),
}

/// How Spark writes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Seconds, or with a unit; `m` is minutes.
    Time,
    /// A whole number.
    Number,
    /// A whole number; Spark's largest stands for "no limit", which is the default.
    Limit,
    Flag,
    /// A flag that says the opposite of the option.
    Not,
    /// A power of two, whatever the unit's spelling.
    Bytes,
    /// A port on this machine's own address.
    Port,
    /// `false` turns the server off.
    Server,
    /// Spark's words in capitals.
    Word,
    /// As it is.
    Text,
}

/// Who reads a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Master,
    Agent,
    Both,
}

/// What came of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Sets this option.
    Option(&'static str, String),
    /// Says what is so anyway.
    Default,
    /// Ignored, with the reason to show.
    Ignored(String),
    /// Of no interest to this command.
    Foreign,
}

use Fate::{Becomes, NotNeeded, NotYet, Refused};

/// Prefixes that only a standalone cluster reads: an unknown key below them is worth a word.
const OWN_PREFIXES: [&str; 3] = ["spark.deploy.", "spark.master.", "spark.worker."];
/// `spark.worker.resource.gpu.amount` and the like.
const RESOURCE_PREFIX: &str = "spark.worker.resource.";

/// What a command makes of a setting.
///
/// # Errors
/// The key, its value and what would be right, or why it cannot be.
pub(crate) fn take(section: &str, key: &str, value: &str) -> Result<Taken, String> {
    let known = KEYS.iter().find(|(name, ..)| *name == key);
    let Some((_, reader, fate)) = known else {
        return Ok(unknown(section, key));
    };
    let is_read = match reader {
        Reader::Both => true,
        Reader::Master => section == "master",
        Reader::Agent => section == "agent",
    };
    if !is_read {
        return Ok(Taken::Foreign);
    }
    match *fate {
        Becomes(option, kind) => {
            let set = kind.option_value(value);
            let set = set.map_err(|wanted| format!("{key}: `{value}` is no {wanted}"))?;
            Ok(set.map_or(Taken::Default, |value| Taken::Option(option, value)))
        }
        NotNeeded(instead) => Ok(Taken::Ignored(format!("{key} is not needed: {instead}"))),
        NotYet(instead) => Ok(Taken::Ignored(format!("{key} is not supported: {instead}"))),
        Refused(why) if value.eq_ignore_ascii_case("true") => Err(format!("{key}: {why}")),
        Refused(_) => Ok(Taken::Default),
    }
}

fn unknown(section: &str, key: &str) -> Taken {
    if key.starts_with(RESOURCE_PREFIX) {
        return match section {
            "agent" => Taken::Ignored(format!("{key} is not needed: {RESOURCES}")),
            _master => Taken::Foreign,
        };
    }
    if OWN_PREFIXES.iter().any(|prefix| key.starts_with(prefix)) {
        return Taken::Ignored(format!("{key} is no setting of Spark that is known here"));
    }
    Taken::Foreign
}

// === impl Kind ===

impl Kind {
    /// The value as the option takes it; nothing where that is the default. On failure: what it should be.
    fn option_value(self, value: &str) -> Result<Option<String>, &'static str> {
        Ok(Some(match self {
            Self::Time => format!("{}ms", milliseconds(value)?),
            Self::Number => number::<u64>(value)?.to_string(),
            Self::Limit => {
                let limit: u32 = number(value)?;
                if limit >= i32::MAX.unsigned_abs() {
                    return Ok(None);
                }
                limit.to_string()
            }
            Self::Flag => flag(value)?.to_string(),
            Self::Not => (!flag(value)?).to_string(),
            Self::Bytes => format!("{}B", bytes(value)?),
            Self::Port => format!("127.0.0.1:{}", number::<u16>(value)?),
            Self::Server => {
                if flag(value)? {
                    return Ok(None);
                }
                "off".to_owned()
            }
            Self::Word => value.to_ascii_uppercase(),
            Self::Text => value.to_owned(),
        }))
    }
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, &'static str> {
    value.parse().map_err(|_error| "whole number that fits")
}

fn flag(value: &str) -> Result<bool, &'static str> {
    let lower = value.to_ascii_lowercase();
    lower.parse().map_err(|_error| "flag; use true or false")
}

fn with_unit(value: &str) -> Option<(u64, String)> {
    let split = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (digits, unit) = value.split_at_checked(split)?;
    Some((digits.parse().ok()?, unit.trim().to_ascii_lowercase()))
}

/// Spark's standalone settings are in seconds; a unit is understood too. Spark's `m` is minutes.
fn milliseconds(value: &str) -> Result<u64, &'static str> {
    let wanted = "time, such as 60 or 60s";
    let (amount, unit) = with_unit(value).ok_or(wanted)?;
    let each = match unit.as_str() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _unknown => return Err(wanted),
    };
    Ok(amount.saturating_mul(each))
}

/// Spark's sizes are powers of two.
fn bytes(value: &str) -> Result<u64, &'static str> {
    let wanted = "size, such as 100m";
    let (amount, unit) = with_unit(value).ok_or(wanted)?;
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _unknown => return Err(wanted),
    };
    Ok(amount.saturating_mul(1 << shift))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::{args::Cli, config::keys_of};

    #[test]
    fn every_key_that_becomes_an_option_has_one() {
        let command = Cli::command();
        for (key, reader, fate) in KEYS {
            let Becomes(option, _) = fate else { continue };
            let section = match reader {
                Reader::Agent => "agent",
                Reader::Master | Reader::Both => "master",
            };
            let options = keys_of(command.find_subcommand(section).expect("a command"));
            assert!(
                options.iter().any(|o| o == option),
                "{key} becomes --{option}"
            );
        }
    }

    #[test]
    fn no_key_is_listed_twice() {
        let mut names: Vec<_> = KEYS.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn values_are_taken_as_spark_means_them() {
        let set = |key: &str, value: &str| take("master", key, value);
        let option = |name, value: &str| Ok(Taken::Option(name, value.to_owned()));
        assert_eq!(
            set("spark.deploy.recoveryTimeout", "2m"),
            option("recovery-timeout", "120000ms")
        );
        assert_eq!(
            set("spark.deploy.defaultCores", "2147483647"),
            Ok(Taken::Default)
        );
        assert_eq!(
            set("spark.deploy.maxDrivers", "5"),
            option("max-drivers", "5")
        );
        assert_eq!(
            set("spark.deploy.maxExecutorRetries", "-1"),
            option("executor-failures-max", "-1")
        );
        assert_eq!(
            set("spark.deploy.workerSelectionPolicy", "memory_free_asc"),
            option("worker-selection", "MEMORY_FREE_ASC")
        );
        assert_eq!(
            set("spark.master.rest.enabled", "FALSE"),
            option("rest", "off")
        );
        assert_eq!(
            set("spark.master.rest.maxRequestBodySize", "8m"),
            option("rest-max-body", "8388608B")
        );
        assert_eq!(
            set("spark.ui.killEnabled", "false"),
            option("ui-read-only", "true")
        );
    }

    #[test]
    fn what_is_not_taken_over_is_said_in_words() {
        let said = |section: &str, key: &str| match take(section, key, "x") {
            Ok(Taken::Ignored(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(said("master", "spark.deploy.zookeeper.url").contains("list them in --peers"));
        assert!(said("master", "spark.deploy.appIdPattern").contains("not supported"));
        assert!(said("master", "spark.deploy.unheardOf").contains("no setting of Spark"));
        assert!(said("agent", "spark.worker.resource.gpu.amount").contains("--resource"));
        assert_eq!(
            take("master", "spark.executor.memory", "1g"),
            Ok(Taken::Foreign)
        );
        assert_eq!(
            take("agent", "spark.deploy.maxDrivers", "1"),
            Ok(Taken::Foreign)
        );
    }
}
