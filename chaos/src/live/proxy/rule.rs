//! What a link does to the bytes on it, for each direction of each pair of nodes. Pure.

use std::time::Duration;

/// What happens to the bytes of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flow {
    /// They pass.
    #[default]
    Pass,
    /// They wait until the link is mended, and then arrive: a cut, as TCP sees it.
    Hold,
    /// They vanish, and the connection that they were on stays silent for good: a box in between has forgotten it.
    Swallow,
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
    /// What happens to bytes.
    pub flow: Flow,
    /// How late they arrive; zero for at once.
    pub delay: Duration,
    /// How many pass in a second; `None` for as many as come.
    pub bytes_per_second: Option<u64>,
}

/// Both directions of a link, and whether it can be dialled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rule {
    /// From the one who dials.
    pub forth: Way,
    /// To the one who dials.
    pub back: Way,
    /// New connections are reset.
    pub refuse: bool,
}

// === impl Way ===

impl Way {
    /// Nothing arrives until the link is mended.
    pub const CUT: Self = Self {
        flow: Flow::Hold,
        delay: Duration::ZERO,
        bytes_per_second: None,
    };
    /// What is sent is gone.
    pub const HOLE: Self = Self {
        flow: Flow::Swallow,
        ..Self::CUT
    };

    /// Everything arrives, this much later.
    #[must_use]
    pub fn late(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// Only so many bytes pass in a second.
    #[must_use]
    pub fn slow(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: Some(bytes_per_second),
            ..Self::default()
        }
    }

    /// How long `bytes` take on this way, beside the delay.
    #[must_use]
    pub fn takes(&self, bytes: usize) -> Duration {
        match self.bytes_per_second {
            Some(rate) => Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64),
            None => Duration::ZERO,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// Nothing passes, either way.
    pub const CUT: Self = Self {
        forth: Way::CUT,
        back: Way::CUT,
        refuse: false,
    };
    /// Requests arrive and answers do not.
    pub const NO_ANSWERS: Self = Self {
        forth: Way {
            flow: Flow::Pass,
            ..Way::CUT
        },
        back: Way::CUT,
        refuse: false,
    };
    /// Everything that is sent is gone, either way, and nobody is told.
    pub const HALF_OPEN: Self = Self {
        forth: Way::HOLE,
        back: Way::HOLE,
        refuse: false,
    };

    /// The same both ways.
    #[must_use]
    pub fn both(way: Way) -> Self {
        Self {
            forth: way,
            back: way,
            refuse: false,
        }
    }

    /// Whether it does nothing to anybody.
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_way_takes_its_time() {
        assert_eq!(Way::slow(1_000).takes(500), Duration::from_millis(500));
        assert_eq!(Way::default().takes(1 << 20), Duration::ZERO);
    }

    #[test]
    fn only_the_rule_that_does_nothing_is_open() {
        assert!(Rule::default().is_open());
        for rule in [
            Rule::CUT,
            Rule::NO_ANSWERS,
            Rule::HALF_OPEN,
            Rule::both(Way::late(Duration::from_millis(1))),
        ] {
            assert!(!rule.is_open(), "{rule:?}");
        }
    }
}
