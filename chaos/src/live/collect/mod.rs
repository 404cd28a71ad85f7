//! Puts the history of a run together: what clients wrote, what the ledger says, what the masters' logs tell of
//! leaders, the agents' of orders, and what the harness did. Pure over their texts, but for [`History`] of the run, which reads the files.

mod agents;
mod attempts;
mod clients;
mod logs;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use super::{clock::Clock, journal::Journal, ledger, ledger::Gone, places::Places};
use crate::history::{History, Kind, Op, Record};

/// Everything that happened, in order of time.
pub(super) fn history(
    places: &Places,
    journal: &Journal,
    gone: &[Gone],
) -> Result<History, io::Error> {
    let clock = journal.clock();
    let end = clock.now();
    let mut records = journal.records();
    let mut orders = BTreeMap::new();
    for path in files_in(&places.clients())? {
        records.extend(clients::records(&fs::read_to_string(&path)?, end));
    }
    for path in files_in(&places.logs())? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if name.starts_with('m') {
            records.extend(logs::records(&name, &fs::read_to_string(&path)?, clock));
        } else if name.starts_with('w') {
            orders.insert(
                name.into_owned(),
                agents::orders(&fs::read_to_string(&path)?),
            );
        }
    }
    let mut attempts = attempt_records(places, clock, gone)?;
    for start in attempts.iter_mut().filter(|record| record.op == Op::Start) {
        agents::add_heard(start, orders.get(&start.process));
    }
    records.extend(attempts);
    Ok(in_order(records))
}

/// The ids of all submissions that clients have begun to make.
pub(super) fn submissions(places: &Places) -> io::Result<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for path in files_in(&places.clients())? {
        let records = clients::records(&fs::read_to_string(&path)?, 0);
        let submits = records.into_iter().filter(|record| record.op == Op::Submit);
        ids.extend(submits.map(|record| record.id));
    }
    Ok(ids)
}

/// What processes have said: whose, and where, seen from the directory of the run.
pub(super) fn logs(places: &Places) -> io::Result<Vec<(String, String)>> {
    let files = files_in(&places.logs())?.into_iter();
    let named = files.map(|path| {
        let node = path.file_stem().unwrap_or_default().to_string_lossy();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        (node.into_owned(), format!("logs/{file}"))
    });
    Ok(named.collect())
}

fn attempt_records(places: &Places, clock: Clock, gone: &[Gone]) -> io::Result<Vec<Record>> {
    let text = match fs::read_to_string(ledger::Ledger::at(&places.ledger()).file()) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let entries = ledger::parse(&text).map_err(io::Error::other)?;
    Ok(attempts::records(&entries, gone, clock))
}

/// Records of the same time: what is asked for stands before what came of it.
fn in_order(mut records: Vec<Record>) -> History {
    records.sort_by_key(|record| (record.time, record.kind != Kind::Invoke));
    let mut history = History::default();
    for record in records {
        history.push(record);
    }
    history
}

fn files_in(dir: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        checks::{Judgement, Verdict},
        live::{LiveOptions, Scenario},
    };

    const SUBMISSION: &str = concat!(
        r#"{"time":10,"process":"c1","kind":"invoke","op":"submit","id":"s1","value":{"supervise":false}}"#,
        "\n",
        r#"{"time":20,"process":"c1","kind":"ok","op":"submit","id":"s1","value":{"driver":"d1"}}"#,
        "\n"
    );
    const ATTEMPT: &str = "s1 1 1 7 START 40 alone=1 cores=1 driver=d1 memory=1 short=0 slots=0 worker=w1\n\
                           s1 1 1 7 END 50 code=0 driver=d1 worker=w1\n";
    const LEADING: &str = concat!(
        r#"{"timestamp":"2026-01-01T00:00:00Z","message":"leading","epoch":1,"target":"interrex_control_plane::runtime::role"}"#,
        "\n"
    );

    const ORDERED: &str = concat!(
        "not ours\n",
        r#"{"timestamp":"2026-01-01T00:00:00Z","message":"ordered to start","work":"driver d1 attempt 1","epoch":1,"heard":1,"target":"interrex_agent::worker::pump"}"#,
        "\n"
    );

    /// The files of a run with this ledger, judged with these required faults.
    fn judged(ledger: &str, required: &[&str]) -> Judgement {
        let (_dir, places) = files(ledger);
        judge(&places, required)
    }

    fn files(ledger: &str) -> (tempfile::TempDir, Places) {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::new(&LiveOptions {
            dir: dir.path().to_owned(),
            ..LiveOptions::of(Scenario::LeaderKill)
        });
        for dir in places.directories() {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(places.client_history("c1"), SUBMISSION).unwrap();
        fs::write(places.log("m1"), LEADING).unwrap();
        fs::write(places.log("w1"), ORDERED).unwrap();
        fs::write(places.ledger().join("ledger.txt"), ledger).unwrap();
        (dir, places)
    }

    fn judge(places: &Places, required: &[&str]) -> Judgement {
        let journal = Journal::new(Clock::began_at(0));
        let offer = json!({"cores": 4, "memory_mib": 4096});
        journal.push(Record {
            time: 0,
            process: "w1".into(),
            kind: Kind::Info,
            op: Op::Offer,
            id: String::new(),
            attempt: None,
            epoch: None,
            value: offer,
        });
        journal.end("leader-kill", "m1", true);
        journal.info("nemesis", Op::Calm, "", json!(null));
        journal.info("nemesis", Op::Converged, "", json!(null));
        let mut last = journal.records().pop().unwrap();
        last.op = Op::Final;
        last.id = "s1".into();
        last.attempt = Some(1);
        last.value = json!({"driver": "d1", "state": "FINISHED"});
        journal.push(last);
        let history = history(places, &journal, &[]).unwrap();
        let required: Vec<String> = required.iter().map(|name| (*name).to_owned()).collect();
        Judgement::of(&history, &required)
    }

    #[test]
    fn a_ledger_that_shows_what_was_asked_for_is_valid() {
        let judgement = judged(ATTEMPT, &["leader-kill"]);
        assert_eq!(judgement.verdict, Verdict::Valid, "{judgement:?}");
    }

    #[test]
    fn an_attempt_too_many_in_the_ledger_is_invalid() {
        let twice = format!("{ATTEMPT}{}", ATTEMPT.replace("s1 1 1 7", "s1 2 1 8"));
        let judgement = judged(&twice, &["leader-kill"]);
        assert_eq!(judgement.verdict, Verdict::Invalid);
        assert_eq!(judgement.violations()[0].check, "single-success");
    }

    #[test]
    fn work_that_is_said_to_be_done_and_has_no_line_is_invalid() {
        let judgement = judged("", &["leader-kill"]);
        assert_eq!(judgement.verdict, Verdict::Invalid);
        assert_eq!(judgement.violations()[0].check, "true-results");
    }

    #[test]
    fn an_order_of_an_older_epoch_that_its_agent_has_obeyed_is_invalid() {
        let (dir, places) = files(ATTEMPT);
        let late = ORDERED.replace(r#""heard":1"#, r#""heard":2"#);
        fs::write(places.log("w1"), late).unwrap();
        let judgement = judge(&places, &["leader-kill"]);
        drop(dir);
        assert_eq!(judgement.verdict, Verdict::Invalid);
        assert_eq!(judgement.violations()[0].check, "old-orders");
    }

    #[test]
    fn more_than_an_agent_offers_is_invalid() {
        let short = ATTEMPT.replace("short=0", "short=1");
        assert_eq!(judged(&short, &["leader-kill"]).verdict, Verdict::Invalid);
    }

    #[test]
    fn a_fault_that_did_nothing_leaves_it_unknown() {
        let judgement = judged(ATTEMPT, &["leader-kill", "leader-pause-long"]);
        assert_eq!(judgement.verdict, Verdict::Unknown);
        assert_eq!(judgement.missing, ["leader-pause-long"]);
    }
}
