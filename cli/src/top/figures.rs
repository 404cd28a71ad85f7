//! A scrape as numbers: sums by label, rates against the scrape before, and quantiles of what happened in between. Pure.

use std::{collections::BTreeMap, time::Duration};

/// The samples of one scrape, by series as the text has it: `name{label="value"}`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures {
    samples: BTreeMap<String, f64>,
}

// === impl Figures ===

impl Figures {
    /// Reads Prometheus' text format; lines that are none of it are passed over.
    pub(super) fn parse(text: &str) -> Self {
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self {
            samples: lines.filter_map(sample).collect(),
        }
    }

    /// The sum of a metric's series that have every one of these labels, written as `state="used"`.
    pub(super) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.series(name)
            .filter(|(series, _)| labels.iter().all(|label| series.contains(label)))
            .map(|(_, value)| value)
            // Unlike the sum of no floats, which is -0.
            .fold(0.0, |sum, value| sum + value)
    }

    /// The values of a metric by one of its labels; none that are zero.
    pub(super) fn by(&self, name: &str, label: &str) -> Vec<(String, f64)> {
        let start = format!("{label}=\"");
        let mut all: BTreeMap<String, f64> = BTreeMap::new();
        for (series, value) in self.series(name) {
            let behind = series.split_once(start.as_str()).map(|(_, behind)| behind);
            let Some((of, _)) = behind.and_then(|behind| behind.split_once('"')) else {
                continue;
            };
            *all.entry(of.to_owned()).or_default() += value;
        }
        all.into_iter().filter(|(_, value)| *value > 0.0).collect()
    }

    /// How fast a counter rose since `before`, a second.
    pub(super) fn rate(&self, before: &Self, name: &str, labels: &[&str], over: Duration) -> f64 {
        let rose = self.sum(name, labels) - before.sum(name, labels);
        // Smaller than before: another leader, or another life of it.
        if rose < 0.0 || over.is_zero() {
            0.0
        } else {
            rose / over.as_secs_f64()
        }
    }

    /// The time that this share of what happened since `before` took at most, by the bounds of the buckets; `None` where
    /// nothing happened.
    pub(super) fn quantile(
        &self,
        before: &Self,
        share: f64,
        name: &str,
        labels: &[&str],
    ) -> Option<f64> {
        let bucket = format!("{name}_bucket");
        let mut counts: Vec<(f64, f64)> = Vec::new();
        for (bound, count) in self.by(&bucket, "le") {
            let label = format!("le=\"{bound}\"");
            let mut all = labels.to_vec();
            all.push(&label);
            let was = before.sum(&bucket, &all);
            let is = if labels.is_empty() {
                count
            } else {
                self.sum(&bucket, &all)
            };
            counts.push((bound.parse().unwrap_or(f64::INFINITY), (is - was).max(0.0)));
        }
        counts.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let total = counts.last().map_or(0.0, |(_, count)| *count);
        if total <= 0.0 {
            return None;
        }
        counts
            .iter()
            .find(|(_, count)| *count >= total * share)
            .map(|(bound, _)| *bound)
    }

    /// Series of exactly this name, with their values.
    fn series<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> + 'a {
        self.samples
            .range(name.to_owned()..)
            .take_while(move |(series, _)| series.starts_with(name))
            .filter(move |(series, _)| {
                series.len() == name.len()
                    || series
                        .get(name.len()..)
                        .is_some_and(|rest| rest.starts_with('{'))
            })
            .map(|(series, value)| (series.as_str(), *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP a_total Things.
a_total{kind=\"x\",result=\"ok\"} 4
a_total{kind=\"y\",result=\"ok\"} 6
a_total{kind=\"y\",result=\"bad\"} 1
a_total_more 99
took_seconds_bucket{le=\"0.01\"} 50
took_seconds_bucket{le=\"0.1\"} 98
took_seconds_bucket{le=\"1\"} 100
took_seconds_bucket{le=\"+Inf\"} 100
";

    #[test]
    fn sums_go_by_labels_and_by_the_whole_name() {
        let figures = Figures::parse(TEXT);
        assert_eq!(figures.sum("a_total", &[]), 11.0);
        assert_eq!(figures.sum("a_total", &["result=\"ok\""]), 10.0);
        assert_eq!(
            figures.sum("a_total", &["result=\"ok\"", "kind=\"y\""]),
            6.0
        );
        assert_eq!(figures.sum("b_total", &[]), 0.0);
        assert_eq!(
            figures.by("a_total", "kind"),
            [("x".to_owned(), 4.0), ("y".to_owned(), 7.0)]
        );
    }

    #[test]
    fn rates_and_quantiles_are_of_the_time_in_between() {
        let (before, now) = (Figures::default(), Figures::parse(TEXT));
        let over = Duration::from_secs(2);
        assert_eq!(now.rate(&before, "a_total", &["result=\"ok\""], over), 5.0);
        assert_eq!(
            before.rate(&now, "a_total", &[], over),
            0.0,
            "another leader counts from zero"
        );
        assert_eq!(now.quantile(&before, 0.5, "took_seconds", &[]), Some(0.01));
        assert_eq!(now.quantile(&before, 0.99, "took_seconds", &[]), Some(1.0));
        assert_eq!(
            now.quantile(&now, 0.99, "took_seconds", &[]),
            None,
            "nothing has happened"
        );
    }
}
