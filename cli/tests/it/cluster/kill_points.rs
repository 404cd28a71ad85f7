//! A master dies at each named point inside a submission. Whatever was acknowledged is there and runs once, and so does
//! what was under way, under its id.

use nix::sys::signal::Signal;

use super::place::{MASTERS, Masters, Place};
use crate::support::{Running, expect_code, wait_for};

/// Inside a submission, in its order; and what has the answer leave before the death, where it must.
const POINTS: [(&str, &str); 7] = [
    ("before-append", "return"),
    ("appended-before-fsync", "return"),
    ("fsynced-before-commit", "return"),
    ("committed-before-reply", "return"),
    ("replied-before-launch", "return(100)"),
    ("leading-before-send", "return"),
    ("confirmed-before-answer", "return"),
];
/// Submissions within which a master must have died at its point.
const SUBMISSIONS_MAX: usize = 20;

/// Whether the binary under test has kill points; says so where it has none.
fn has_points() -> bool {
    let has = cfg!(feature = "kill-points");
    if !has {
        eprintln!("skipped: built without --features kill-points (`make test` has it)");
    }
    has
}

/// Submissions one after the other, each under an id of its own.
struct Submitter<'a> {
    place: &'a Place,
    name: String,
    ids: Vec<String>,
}

// === impl Submitter ===

impl<'a> Submitter<'a> {
    fn new(place: &'a Place, name: &str) -> Self {
        Self {
            place,
            name: name.to_owned(),
            ids: Vec::new(),
        }
    }

    fn begin(&mut self) -> Running {
        let id = format!("{}-{}", self.name, self.ids.len());
        let submitting = self.place.submitting(&id, &self.place.ledger_job(&id));
        self.ids.push(id);
        submitting
    }

    /// One more, acknowledged.
    fn one(&mut self) {
        expect_code(&self.begin().finish(), 0);
    }

    /// Begins a status request for the newest, whose answer is of no interest.
    fn ask(&self) -> Running {
        let newest = self.ids.last().expect("something was submitted");
        let args = ["status", newest.as_str(), "--deadline", "10s"];
        crate::support::start(&mut self.place.command(&args))
    }

    /// What was acknowledged before is known by its id.
    fn repeat_all(&self) {
        for id in &self.ids {
            let script = self.place.ledger_job(id);
            assert!(self.place.submit(id, &script), "{id} is known");
        }
    }
}

/// Master `n` dies by SIGKILL at `point`, as its log says, while `submitter` submits; restarted at once if `alone`,
/// since nobody else can answer then.
fn dies(masters: &mut Masters<'_>, n: usize, submitter: &mut Submitter<'_>, alone: bool) {
    let mut dead = false;
    for _ in 0..SUBMISSIONS_MAX {
        let mut under_way = vec![submitter.begin()];
        let mut asked = false;
        wait_for("the submission is answered", || {
            if !dead && let Some(signal) = masters.died(n) {
                assert_eq!(signal, Signal::SIGKILL as i32, "m{n}");
                dead = true;
                if alone {
                    masters.start(n);
                }
            }
            let answered = under_way.iter_mut().all(Running::has_ended);
            if answered && !asked {
                asked = true;
                under_way.push(submitter.ask());
                return None;
            }
            answered.then_some(())
        });
        expect_code(&under_way.remove(0).finish(), 0);
        under_way.into_iter().for_each(|asked| drop(asked.finish()));
        if dead {
            return;
        }
    }
    panic!("m{n} has not died within {SUBMISSIONS_MAX} submissions");
}

fn expect_point(masters: &mut Masters<'_>, n: usize, point: &str) {
    let said = masters.said(n);
    let told = |line: &str| line.contains("dying at a kill point") && line.contains(point);
    assert!(said.lines().any(told), "m{n} has not died at {point}");
}

/// The only master dies at each of `points`, in turn, and is started again.
fn one_master(engine: &str, points: &[(&str, &str)]) {
    let place = Place::new();
    let mut masters = place.masters("alone", engine, 1);
    let agent = place.agent();
    let mut all = Vec::new();
    for (point, action) in points {
        masters.arm_next_leader(&format!("{point}=2*off->1*{action}"));
        place.wait_alive();
        let mut submitter = Submitter::new(&place, point);
        dies(&mut masters, 0, &mut submitter, true);
        expect_point(&mut masters, 0, point);
        submitter.one();
        submitter.repeat_all();
        all.extend(submitter.ids);
    }
    place.expect_each_once(&all);
    agent.stop();
    masters.stop();
}

#[test]
fn one_master_that_dies_at_any_point_of_a_submission_loses_and_doubles_nothing() {
    if has_points() {
        one_master("raft", &POINTS);
    }
}

#[test]
fn one_master_on_sled_that_dies_while_it_writes_loses_and_doubles_nothing() {
    if has_points() {
        let writing = ["appended-before-fsync", "fsynced-before-commit"];
        let points = POINTS
            .into_iter()
            .filter(|(name, _)| writing.contains(name));
        one_master("sled", &points.collect::<Vec<_>>());
    }
}

#[test]
fn a_leader_of_three_that_dies_at_any_point_of_a_submission_loses_and_doubles_nothing() {
    if !has_points() {
        return;
    }
    let place = Place::new();
    let mut masters = place.masters("three", "raft", MASTERS);
    let agent = place.agent();
    let mut all = Vec::new();
    for (point, action) in POINTS {
        let (_, epoch) = place.leader();
        let victim = masters.arm_next_leader(&format!("{point}=2*off->1*{action}"));
        place.wait_alive();
        let mut submitter = Submitter::new(&place, point);
        dies(&mut masters, victim, &mut submitter, false);
        expect_point(&mut masters, victim, point);
        submitter.one();
        assert!(place.leader().1 > epoch + 1, "another one leads");
        masters.start(victim);
        submitter.repeat_all();
        all.extend(submitter.ids);
    }
    place.expect_each_once(&all);
    agent.stop();
    masters.stop();
}

#[test]
fn an_order_that_is_held_up_until_another_master_leads_starts_nothing() {
    if !has_points() {
        return;
    }
    let place = Place::new();
    let mut masters = place.masters("late", "raft", MASTERS);
    let agent = place.agent();
    let slow = masters.arm_next_leader("leading-before-send=1*sleep(2000)");
    place.wait_alive();
    let (_, epoch) = place.leader();
    let mut submitter = Submitter::new(&place, "late");
    // Acknowledged, and its order is held up: now the whole master stands still.
    submitter.one();
    masters.process(slow).signal(Signal::SIGSTOP);
    place.wait_state(&submitter.ids[0], "FINISHED");
    let (next, later) = place.leader();
    assert!(next != slow && later > epoch, "m{next} leads in {later}");
    // It sends what it was about to send, in its old epoch.
    masters.process(slow).signal(Signal::SIGCONT);
    wait_for("it knows that another one leads", || {
        masters.said(slow).contains("stepping down").then_some(())
    });
    submitter.one();
    place.expect_each_once(&submitter.ids);
    assert!(masters.process(slow).ended().is_none(), "it goes on");
    agent.stop();
    masters.stop();
}

#[test]
fn a_build_says_what_it_thinks_of_orders_that_it_cannot_carry_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let orders = "before-breakfast=return";
    let mut command = crate::support::interrex();
    command.args([
        "master", "--id", "m1", "--engine", "memory", "--rest", "off",
    ]);
    command.args([
        "--web",
        "127.0.0.1:0",
        "--bind",
        "127.0.0.1:0",
        "--data-dir",
    ]);
    command.arg(dir.path()).env("FAILPOINTS", orders);
    let words = if cfg!(feature = "kill-points") {
        ["FAILPOINTS", "`before-breakfast` is no kill point"]
    } else {
        ["FAILPOINTS", "--features kill-points"]
    };
    crate::support::expect_refusal(&crate::support::run(&mut command), 2, &words);
}
