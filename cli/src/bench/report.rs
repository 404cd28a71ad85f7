//! What a bench has found.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    exit::Failure,
    output::{self, Format},
};

/// Longest time that is told apart: an hour, in microseconds.
const TIME_MICROS_MAX: u64 = 3_600_000_000;

/// One result, as it is printed with `-o json`.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    pub(super) bench: &'static str,
    pub(super) params: Map<String, Value>,
    pub(super) metrics: Map<String, Value>,
}

/// Times in microseconds, with three significant digits.
#[derive(Debug)]
pub(super) struct Times(Histogram<u64>);

// === impl Report ===

impl Report {
    /// A result without parameters and figures.
    pub(super) fn new(bench: &'static str) -> Self {
        Self {
            bench,
            params: Map::new(),
            metrics: Map::new(),
        }
    }

    /// Adds a parameter.
    pub(super) fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a figure.
    pub(super) fn metric(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.metrics.insert(name.to_owned(), value.into());
        self
    }

    /// Adds median, 99th percentile and maximum of `times`, in seconds, under names that begin with `name`.
    pub(super) fn named_times(mut self, name: &str, times: &Times) -> Self {
        for (which, quantile) in [("median", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let key = format!("{name}_{which}_seconds");
            self.metrics.insert(key, json!(times.at(quantile)));
        }
        self
    }

    /// Adds minimum, median, 99th percentile and maximum of `times`, in seconds.
    pub(super) fn times(mut self, times: &Times) -> Self {
        for (name, quantile) in [("min", 0.0), ("median", 0.5), ("p99", 0.99), ("max", 1.0)] {
            self.metrics
                .insert(format!("{name}_seconds"), json!(times.at(quantile)));
        }
        self
    }
}

// === impl Times ===

impl Times {
    /// No times yet.
    ///
    /// # Errors
    /// Never with the constant bounds used here.
    pub(super) fn new() -> Result<Self, Failure> {
        let histogram = Histogram::new_with_bounds(1, TIME_MICROS_MAX, 3);
        histogram
            .map(Self)
            .map_err(|e| Failure::failed(format!("making a histogram: {e}")))
    }

    /// Adds one.
    pub(super) fn add(&mut self, time: Duration) {
        self.0
            .saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds all of another.
    pub(super) fn merge(&mut self, other: &Self) {
        // Both count the same range; an addition that overflows would only lose counts.
        self.0.add(&other.0).unwrap_or_default();
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value at a quantile between 0 and 1, in seconds.
    pub(super) fn at(&self, quantile: f64) -> f64 {
        let micros = u32::try_from(self.0.value_at_quantile(quantile)).unwrap_or(u32::MAX);
        Duration::from_micros(u64::from(micros)).as_secs_f64()
    }
}

/// Prints results: one JSON object a line, or one table with a row each.
pub(super) fn print(reports: &[Report], format: Format) -> Result<(), Failure> {
    match format {
        Format::Json => reports.iter().try_for_each(output::json_line),
        Format::Table => {
            let Some(first) = reports.first() else {
                return Ok(());
            };
            let header: Vec<&str> = first
                .params
                .keys()
                .chain(first.metrics.keys())
                .map(String::as_str)
                .collect();
            let rows = reports.iter().map(|r| {
                let cells = r.params.values().chain(r.metrics.values());
                cells.map(cell).collect()
            });
            output::table(&header, rows.collect())
        }
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, figure)
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_)) => other.to_string(),
    }
}

/// Four digits behind the point, or microseconds where these would say nothing.
fn figure(number: f64) -> String {
    if number.abs() < 0.01 {
        format!("{number:.6}")
    } else {
        format!("{number:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times_keep_their_digits_in_a_table() {
        assert_eq!([0.5512, 0.000_02].map(figure), ["0.5512", "0.000020"]);
    }

    #[test]
    fn times_come_out_in_seconds() {
        let mut times = Times::new().unwrap();
        for ms in [100, 200, 300] {
            times.add(Duration::from_millis(ms));
        }
        assert_eq!(times.count(), 3);
        assert!((times.at(0.5) - 0.2).abs() < 0.001);
        let report = Report::new("x").param("rounds", 3).times(&times);
        let text = serde_json::to_string(&report).unwrap();
        assert!(
            text.starts_with(r#"{"bench":"x","params":{"rounds":3},"metrics":{"#),
            "{text}"
        );
    }
}
