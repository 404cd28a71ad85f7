//! Reports of simulated worlds. They stay in the target folder, to be looked at.

use std::{collections::BTreeSet, fs, io::BufReader, path::PathBuf};

use interrex_chaos::{
    checks::{Judgement, Verdict},
    history::{History, Op},
    report::{self, FAILOVERS_FILE, HISTORY_FILE, JUNIT_FILE, PAGE_FILE, SUMMARY_FILE},
    sim::{self, plant::Plant},
};
use serde_json::Value;

/// The files of a report.
struct Written {
    history: History,
    page: String,
    summary: Value,
    junit: String,
    failovers: String,
}

fn written(name: &str, seed: u64, plant: Option<Plant>, required: &[&str]) -> Written {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let history = sim::history(seed, plant);
    let mut facts = sim::facts(seed, plant);
    facts.required = required.iter().map(ToString::to_string).collect();
    let judgement = Judgement::of(&history, &facts.required);
    report::write(&dir, &facts, &history, &judgement).unwrap();
    let read = |file| fs::read_to_string(dir.join(file)).unwrap();
    Written {
        history: History::read(BufReader::new(read(HISTORY_FILE).as_bytes())).unwrap(),
        page: read(PAGE_FILE),
        summary: serde_json::from_str(&read(SUMMARY_FILE)).unwrap(),
        junit: read(JUNIT_FILE),
        failovers: read(FAILOVERS_FILE),
    }
}

/// A seed in whose world this bug shows.
fn broken_seed(plant: Plant) -> u64 {
    let broken = |seed: &u64| !sim::run(*seed, Some(plant)).violations.is_empty();
    (0..100).find(broken).unwrap()
}

#[test]
fn a_healthy_world_has_a_page_that_shows_it_and_loads_nothing() {
    let Written {
        history,
        page,
        summary,
        junit,
        failovers,
    } = written("report-valid", 11, None, &[]);
    assert_eq!(summary["verdict"], "valid");
    assert!(page.contains("class=\"badge valid\""));
    for outside in ["src=", "@import", "url(", "<script", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let acknowledged = summary["requests"]["submissions"]["ok"].as_u64().unwrap();
    assert!(acknowledged > 0);
    let submitted = history
        .about(Op::Submit)
        .filter(|record| record.id.starts_with('s'));
    let ids: BTreeSet<_> = submitted.map(|record| record.id.as_str()).collect();
    for id in ids {
        assert!(
            page.contains(&format!("submit {id} at")),
            "{id} is not on the page"
        );
    }
    let leads = history.about(Op::Lead).count();
    assert_eq!(summary["leaderships"].as_u64().unwrap(), leads as u64);
    assert_eq!(
        failovers.lines().count(),
        leads,
        "a header, and all but the first leader"
    );
    assert!(junit.contains("failures=\"0\" errors=\"0\""), "{junit}");
}

#[test]
fn what_is_broken_is_flagged_linked_and_told_from_its_history() {
    let plant = Plant::NonIdempotentSubmission;
    let Written {
        history,
        page,
        summary,
        junit,
        ..
    } = written("report-invalid", broken_seed(plant), Some(plant), &[]);
    assert_eq!(summary["verdict"], "invalid");
    let checks = summary["checks"].as_array().unwrap();
    let broken = checks.iter().filter(|check| check["verdict"] == "invalid");
    let broken: Vec<_> = broken
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert!(broken.contains(&"acknowledged-survives"), "{broken:?}");
    for check in broken {
        for anchor in ["at", "check", "trace"] {
            let (id, link) = (
                format!("id=\"{anchor}-{check}\""),
                format!("#{anchor}-{check}"),
            );
            assert!(
                page.contains(&id) && page.contains(&link),
                "{anchor}-{check}"
            );
        }
    }
    assert!(junit.contains("<failure message="), "{junit}");
    // What was stored is judged the same again.
    assert_eq!(Judgement::of(&history, &[]).verdict, Verdict::Invalid);
}

#[test]
fn a_fault_that_never_happened_is_an_error_of_the_test_report() {
    let Written {
        page,
        summary,
        junit,
        ..
    } = written("report-unknown", 11, None, &["earthquake"]);
    assert_eq!(summary["verdict"], "unknown");
    assert_eq!(summary["missing"][0], "earthquake");
    assert!(page.contains("never happened"));
    assert!(junit.contains("earthquake happened") && junit.contains("<error message="));
}
