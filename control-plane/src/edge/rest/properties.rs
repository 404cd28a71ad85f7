//! The Spark properties that a cluster must understand: what a driver needs and how it is run.

use std::collections::BTreeMap;

use interrex_proto::{
    limits::{CORES_MAX, MEMORY_MIB_MAX},
    v1,
};

use super::errors::RestError;
use crate::edge::validate::{self, FieldError, RESOURCE_AMOUNT_MAX, shown};

/// Spark's default for `spark.driver.memory` at its REST server, in MiB.
const DRIVER_MEMORY_MIB: u64 = 1024;
/// Spark's default for `spark.driver.cores`.
const DRIVER_CORES: u32 = 1;
/// A property of ours: never two runs at once.
const AT_MOST_ONCE: &str = "spark.interrex.atMostOnce";
const RESOURCE_PREFIX: &str = "spark.driver.resource.";
const RESOURCE_SUFFIX: &str = ".amount";

/// Everything of a driver but its payload. `name` is used where `spark.app.name` is not set.
///
/// # Errors
/// 400, naming the property, its value and what would be right.
pub(super) fn driver(
    properties: &BTreeMap<String, String>,
    name: &str,
    user: &str,
) -> Result<v1::DriverSpec, RestError> {
    let of = |key: &str| properties.get(key).map(|value| value.trim());
    // Checked though only the application uses them: a typo is cheaper to find now.
    if let Some(cores) = of("spark.cores.max") {
        whole_cores("spark.cores.max", cores)?;
    }
    if let Some(memory) = of("spark.executor.memory") {
        memory_mib("spark.executor.memory", memory)?;
    }
    let named = of("spark.app.name").filter(|name| !name.is_empty());
    if let Some(name) = named {
        validate::name("sparkProperties.spark.app.name", name)?;
    }
    Ok(v1::DriverSpec {
        at_most_once: of(AT_MOST_ONCE).map_or(Ok(false), |v| flag(AT_MOST_ONCE, v))?,
        needs_executors: true,
        priority: 0,
        name: named.map_or_else(|| fitting(name), str::to_owned),
        user: user.to_owned(),
        cores: of("spark.driver.cores")
            .map_or(Ok(DRIVER_CORES), |v| whole_cores("spark.driver.cores", v))?,
        memory_mib: of("spark.driver.memory").map_or(Ok(DRIVER_MEMORY_MIB), |v| {
            memory_mib("spark.driver.memory", v)
        })?,
        supervise: of("spark.driver.supervise")
            .map_or(Ok(false), |v| flag("spark.driver.supervise", v))?,
        resources: resources(properties)?,
        command: None,
        spark: None,
    })
}

/// A name that was not chosen as one (a class, a program) is cut rather than refused.
fn fitting(name: &str) -> String {
    let printable = name.chars().filter(|c| !c.is_control());
    let mut fits = String::new();
    for c in printable {
        if fits.len() + c.len_utf8() > interrex_proto::limits::NAME_BYTES_MAX {
            break;
        }
        fits.push(c);
    }
    fits
}

fn whole_cores(key: &str, value: &str) -> Result<u32, RestError> {
    match value.parse::<u32>() {
        Ok(cores) if (1..=CORES_MAX).contains(&cores) => Ok(cores),
        Ok(_) | Err(_) => {
            let wanted = format!("is no whole number of cores from 1 to {CORES_MAX}");
            Err(bad(key, value, &wanted))
        }
    }
}

fn flag(key: &str, value: &str) -> Result<bool, RestError> {
    if value.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if value.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err(bad(key, value, "is no flag; use true or false"))
    }
}

/// A size as Spark writes it, such as `512m` or `4g`; without a unit it counts bytes. Rounded down to MiB.
fn memory_mib(key: &str, value: &str) -> Result<u64, RestError> {
    let lower = value.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match lower.strip_prefix(digits) {
        Some("" | "b") => 0,
        Some("k" | "kb") => 10,
        Some("m" | "mb") => 20,
        Some("g" | "gb") => 30,
        Some("t" | "tb") => 40,
        Some("p" | "pb") => 50,
        Some(_) | None => {
            return Err(bad(
                key,
                value,
                "has an unknown unit; use one of b k m g t p, as in 512m",
            ));
        }
    };
    let Ok(amount) = digits.parse::<u64>() else {
        return Err(bad(
            key,
            value,
            "is no size; use a whole number and a unit, as in 512m",
        ));
    };
    let mib = u128::from(amount) << shift >> 20;
    match u64::try_from(mib) {
        Ok(0) => Err(bad(
            key,
            value,
            "is less than 1 MiB; use a larger number or a unit, as in 512m",
        )),
        Ok(mib) if mib <= MEMORY_MIB_MAX => Ok(mib),
        Ok(_) | Err(_) => Err(bad(
            key,
            value,
            &format!("is more than {MEMORY_MIB_MAX} MiB, the limit"),
        )),
    }
}

fn resources(properties: &BTreeMap<String, String>) -> Result<Vec<v1::ResourceAmount>, RestError> {
    let mut amounts = Vec::new();
    for (key, value) in properties.range(RESOURCE_PREFIX.to_owned()..) {
        let Some(rest) = key.strip_prefix(RESOURCE_PREFIX) else {
            break;
        };
        let Some(name) = rest.strip_suffix(RESOURCE_SUFFIX) else {
            continue;
        };
        match value.trim().parse::<u32>() {
            Ok(amount) if (1..=RESOURCE_AMOUNT_MAX).contains(&amount) => {
                amounts.push(v1::ResourceAmount {
                    name: name.to_owned(),
                    amount,
                });
            }
            Ok(_) | Err(_) => {
                let wanted = format!("is no whole number from 1 to {RESOURCE_AMOUNT_MAX}");
                return Err(bad(key, value, &wanted));
            }
        }
    }
    Ok(amounts)
}

fn bad(key: &str, value: &str, wanted: &str) -> RestError {
    let path = format!("sparkProperties.{}", validate::cut(key));
    FieldError::new(path, format!("{} {wanted}", shown(value))).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::convert::env;

    fn refused(key: &str, value: &str) -> String {
        driver(&env(&[(key, value)]), "x", "")
            .expect_err("must be refused")
            .message
    }

    #[test]
    fn sparks_defaults_hold() {
        let spec = driver(&BTreeMap::new(), "org.example.Pi", "ann").expect("valid");
        assert_eq!(
            (spec.cores, spec.memory_mib, spec.supervise),
            (1, 1024, false)
        );
        assert!(spec.needs_executors);
        assert_eq!(
            (spec.name.as_str(), spec.user.as_str()),
            ("org.example.Pi", "ann")
        );
    }

    #[test]
    fn properties_say_what_a_driver_needs() {
        let properties = env(&[
            ("spark.app.name", "pi"),
            ("spark.driver.cores", "2"),
            ("spark.driver.memory", "3g"),
            ("spark.driver.resource.gpu.amount", "2"),
            ("spark.driver.resource.gpu.vendor", "example"),
            ("spark.driver.supervise", "TRUE"),
        ]);
        let spec = driver(&properties, "x", "").expect("valid");
        assert_eq!(
            (spec.cores, spec.memory_mib, spec.supervise),
            (2, 3072, true)
        );
        assert_eq!(spec.name, "pi");
        assert_eq!(
            spec.resources,
            [v1::ResourceAmount {
                name: "gpu".into(),
                amount: 2
            }]
        );
    }

    #[test]
    fn cores_are_whole_and_positive() {
        for value in ["1.5", "0", "-1", "", "many", "4294967296"] {
            for key in ["spark.driver.cores", "spark.cores.max"] {
                let message = refused(key, value);
                assert!(
                    message.contains(key) && message.contains("from 1 to 1048576"),
                    "{message}"
                );
            }
        }
        assert_eq!(
            refused("spark.driver.cores", "1.5"),
            "Malformed request: sparkProperties.spark.driver.cores: `1.5` is no whole number of cores \
             from 1 to 1048576"
        );
    }

    #[test]
    fn sizes_are_read_as_spark_reads_them() {
        let mib = |value| memory_mib("spark.driver.memory", value);
        for (value, expected) in [
            ("512m", 512),
            ("1G", 1024),
            ("2gb", 2048),
            ("1048576", 1),
            ("1500k", 1),
            ("1t", 1 << 20),
        ] {
            assert_eq!(mib(value), Ok(expected), "{value}");
        }
        for value in ["512", "1.5g", "g", "", "1x", "-1g", "0", "99999999999p"] {
            assert!(mib(value).is_err(), "{value} must be refused");
        }
        assert!(refused("spark.executor.memory", "lots").contains("spark.executor.memory"));
    }

    #[test]
    fn flags_and_amounts_are_checked() {
        assert!(refused("spark.driver.supervise", "yes").contains("use true or false"));
        assert!(refused(AT_MOST_ONCE, "1").contains("use true or false"));
        assert!(refused("spark.driver.resource.gpu.amount", "0.5").contains("gpu.amount"));
    }

    #[test]
    fn a_class_name_is_cut_where_a_chosen_name_is_refused() {
        let long = "n".repeat(1000);
        let spec = driver(&BTreeMap::new(), &long, "").expect("valid");
        assert_eq!(spec.name.len(), 256);
        assert!(refused("spark.app.name", &long).contains("at most 256"));
    }
}
