//! What live runs count.

use ::metrics::counter;
use interrex_proto::metric::{self, Label, Metric, Table};

use crate::live::Scenario;

const FAULTS: &str = "interrex_chaos_faults_total";

/// Everything that the harness counts.
pub const TABLE: Table = Table {
    title: "Chaos runs (`interrex chaos live --metrics-addr ADDRESS`)",
    metrics: &[
        Metric::counter(FAULTS, "Faults of a live run that have done something, by their names in `interrex chaos live --list -o json`.")
            .by(&[Label::open("kind")])
            .when("by a live run alone"),
    ],
};

/// Describes every metric to the installed recorder, and begins the counters of what `scenario` must try at zero.
pub fn describe(scenario: Scenario) {
    metric::describe(TABLE.metrics);
    for fault in scenario.required() {
        counter!(FAULTS, "kind" => *fault).increment(0);
    }
}

/// A fault has done something. Kinds are names in the code: a few dozen.
pub(crate) fn fault(kind: &str) {
    counter!(FAULTS, "kind" => kind.to_owned()).increment(1);
}
