//! The checks as a test report: one case for each property, one for each fault that had to happen.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{ReportError, Summary, making, summary::CheckSummary};
use crate::checks::Verdict;

/// The document.
pub(super) fn xml(summary: &Summary) -> Result<String, ReportError> {
    let mut suite = TestSuite::new(format!("chaos {}", summary.run.name));
    suite.set_time(Duration::from_secs_f64(summary.seconds.max(0.0)));
    suite.add_test_cases(summary.checks.iter().map(check_case));
    for fault in &summary.run.required {
        suite.add_test_case(fault_case(summary, fault));
    }
    let mut report = Report::new("interrex chaos");
    report.add_test_suite(suite);
    let text = report.to_string().map_err(|error| error.to_string());
    text.map_err(making("the test report"))
}

fn check_case(check: &CheckSummary) -> TestCase {
    let mut status = match check.verdict {
        Verdict::Valid if check.judged == 0 => TestCaseStatus::skipped(),
        Verdict::Valid => TestCaseStatus::success(),
        Verdict::Invalid => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Verdict::Unknown => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    match check.violations.first() {
        Some(first) => {
            let at = first.time as f64 / 1e6;
            let message = format!("{at:.3} s: {} {}", first.id, first.message);
            status.set_message(message);
        }
        None if !check.undecided.is_empty() => {
            status.set_message(check.undecided.clone());
        }
        None => {}
    }
    let mut case = TestCase::new(check.name.clone(), status);
    case.set_classname("property");
    case
}

fn fault_case(summary: &Summary, fault: &str) -> TestCase {
    let status = if summary.missing.iter().any(|missing| missing == fault) {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message("never happened: the run proves nothing about it");
        status
    } else {
        TestCaseStatus::success()
    };
    let mut case = TestCase::new(format!("{fault} happened"), status);
    case.set_classname("fault");
    case
}
