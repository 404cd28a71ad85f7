//! What a metric is: name, labels and help, said once, in a table beside the code that sets it.
//!
//! From the tables come the HELP lines of a scrape, the zeros that counters start from and `docs/metrics.md`. The unit
//! is the end of the name, as Prometheus wants it. What must never happen: a label whose values nobody bounds (an id, a
//! path, a user's text), for each value is a time series that stays for ever.

use metrics::{Counter, Histogram, Label as Pair, Unit};

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name as Prometheus shows it.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// By what it is told apart.
    pub labels: &'static [Label],
    /// For operators.
    pub help: &'static str,
    /// When it is there at all; `None`: from the start of the process.
    pub when: Option<&'static str>,
}

/// One label of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Every value that it can have; empty: a few that are known only at run time (a peer's configured name, a code).
    pub values: &'static [&'static str],
}

/// Metrics that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Whose they are, for people.
    pub title: &'static str,
    /// The metrics.
    pub metrics: &'static [Metric],
}

/// Bounds of the buckets of every histogram: by how a name ends where the first word begins with `_`, else by the whole
/// name. A histogram without them would come out as a summary, which cannot be added up over processes.
pub const BUCKETS: &[(&str, &[f64])] = &[
    ("_seconds", &SECONDS),
    ("_mutations", &MUTATIONS),
    ("interrex_schedule_wait_seconds", &WAITS),
    ("interrex_worker_heartbeat_age_seconds", &WAITS),
];

/// From a local fsync to a slow start.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// What people wait for, up to two hours.
const WAITS: [f64; 14] = [
    0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 7_200.0,
];
/// From a single change to a full batch.
const MUTATIONS: [f64; 12] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0,
];

// === impl Kind ===

impl Kind {
    /// Prometheus' word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

// === impl Label ===

impl Label {
    /// A label that has these values and no others.
    #[must_use]
    pub const fn of(name: &'static str, values: &'static [&'static str]) -> Self {
        Self { name, values }
    }

    /// A label whose few values are known only at run time.
    #[must_use]
    pub const fn open(name: &'static str) -> Self {
        Self { name, values: &[] }
    }
}

// === impl Metric ===

impl Metric {
    /// A counter; its name ends in `_total`.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Counter, help)
    }

    /// A gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Gauge, help)
    }

    /// A histogram, with the buckets that its name asks for.
    #[must_use]
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Histogram, help)
    }

    const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self {
            name,
            kind,
            labels: &[],
            help,
            when: None,
        }
    }

    /// The same, told apart by labels.
    #[must_use]
    pub const fn by(mut self, labels: &'static [Label]) -> Self {
        self.labels = labels;
        self
    }

    /// The same, there only then.
    #[must_use]
    pub const fn when(mut self, when: &'static str) -> Self {
        self.when = Some(when);
        self
    }

    /// Its base unit, which is how its name ends.
    #[must_use]
    pub fn unit(&self) -> Unit {
        if self.name.ends_with("_seconds") {
            Unit::Seconds
        } else if self.name.ends_with("_bytes") {
            Unit::Bytes
        } else {
            Unit::Count
        }
    }

    /// Whether it is there from the start, whatever happens: then it begins at zero.
    #[must_use]
    pub fn begins_at_zero(&self) -> bool {
        let closed = self.labels.iter().all(|label| !label.values.is_empty());
        self.when.is_none() && closed
    }

    /// Tells the recorder what this is, and begins at zero where that can be known: a rate over a series that appears
    /// with its first event misses that event.
    fn describe(&self) {
        let (name, help, unit) = (self.name, self.help, self.unit());
        match self.kind {
            Kind::Counter => metrics::describe_counter!(name, unit, help),
            Kind::Gauge => metrics::describe_gauge!(name, unit, help),
            Kind::Histogram => metrics::describe_histogram!(name, unit, help),
        }
        if !self.begins_at_zero() {
            return;
        }
        for labels in combinations(self.labels) {
            match self.kind {
                Kind::Counter => {
                    let counter: Counter = metrics::counter!(name, labels);
                    counter.increment(0);
                }
                // Whoever sets it knows it.
                Kind::Gauge => {}
                Kind::Histogram => {
                    let _empty: Histogram = metrics::histogram!(name, labels);
                }
            }
        }
    }
}

/// Tells the installed recorder what these metrics are; to be called once the recorder is installed. Calling it again
/// does no harm.
pub fn describe(metrics: &[Metric]) {
    metrics.iter().for_each(Metric::describe);
}

/// Every combination of the values of `labels`.
fn combinations(labels: &[Label]) -> Vec<Vec<Pair>> {
    let mut all = vec![Vec::new()];
    for label in labels {
        let longer = |begun: Vec<Pair>| {
            label.values.iter().map(move |value| {
                let mut pairs = begun.clone();
                pairs.push(Pair::from_static_parts(label.name, value));
                pairs
            })
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: Label = Label::of("result", &["accepted", "refused"]);
    const SOURCE: Label = Label::of("source", &["grpc", "rest"]);

    #[test]
    fn the_unit_is_the_end_of_the_name() {
        let unit = |name| Metric::gauge(name, "").unit();
        assert_eq!(unit("a_seconds"), Unit::Seconds);
        assert_eq!(unit("a_bytes"), Unit::Bytes);
        assert_eq!(unit("a_entries"), Unit::Count);
    }

    #[test]
    fn every_combination_of_labels_begins_at_zero() {
        let shown = |labels: &[Label]| -> Vec<String> {
            let all = combinations(labels).into_iter();
            let one = |pairs: Vec<Pair>| -> String {
                let words: Vec<_> = pairs
                    .iter()
                    .map(|pair| format!("{}={}", pair.key(), pair.value()))
                    .collect();
                words.join(",")
            };
            all.map(one).collect()
        };
        assert_eq!(shown(&[]), [""]);
        assert_eq!(
            shown(&[SOURCE, RESULT]),
            [
                "source=grpc,result=accepted",
                "source=grpc,result=refused",
                "source=rest,result=accepted",
                "source=rest,result=refused"
            ]
        );
    }

    #[test]
    fn what_comes_later_or_is_open_does_not_begin_at_zero() {
        const OPEN: &[Label] = &[Label::open("code")];
        let counter = Metric::counter("a_total", "");
        assert!(counter.begins_at_zero());
        assert!(!counter.by(OPEN).begins_at_zero());
        assert!(!counter.when("after an election").begins_at_zero());
    }
}
