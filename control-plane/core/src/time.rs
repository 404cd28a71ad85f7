//! Time as a value: the core never reads a clock.

use std::{fmt, time::Duration};

/// Milliseconds since the Unix epoch, as the caller's clock shows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

// === impl Timestamp ===

impl Timestamp {
    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This much later; saturates.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// This much earlier; saturates.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)),
        )
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

impl Timestamp {
    /// `yyyyMMddHHmmss` in UTC, as it stands in ids.
    #[must_use]
    pub fn compact_utc(self) -> String {
        let seconds = self.0 / 1_000;
        let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute) = (second_of_day / 3_600, second_of_day / 60 % 60);
        format!(
            "{year:04}{month:02}{day:02}{hour:02}{minute:02}{:02}",
            second_of_day % 60
        )
    }
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar (Hinnant's algorithm: years begin in
/// March, so that the leap day is the last one).
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_as_a_date_in_utc() {
        for (ms, text) in [
            (0, "19700101000000"),
            (951_782_399_999, "20000228235959"),
            (951_782_400_000, "20000229000000"),
            (1_795_962_720_000, "20261129143200"),
            (4_107_542_400_000, "21000301000000"),
        ] {
            assert_eq!(Timestamp(ms).compact_utc(), text);
        }
    }
}
