use interrex_core::{
    event::{EventSequence, Fact},
    ids::Epoch,
    state::{driver::DriverState, executor::ExecutorState},
    time::Timestamp,
    transition::Mutation,
};

use super::*;

fn event(sequence: u64, kind: EventKind, subject: &str, worker: Option<&str>) -> Event {
    Event {
        sequence: EventSequence(sequence),
        epoch: Epoch(2),
        fact: Fact {
            at: Timestamp(1),
            kind,
            subject: subject.into(),
            worker: worker.map(Into::into),
            attempt: None,
            who: Who::Leader,
            why: String::new(),
        },
    }
}

/// 11 to 15.
fn view() -> ClusterView {
    let mut view = ClusterView::new(Epoch(2), Arc::default());
    view.set_events(EventLog::recovered(&[], EventSequence(11)));
    let driver =
        |sequence, state, worker| event(sequence, EventKind::Driver(state), "driver-1", worker);
    for record in [
        vec![
            driver(11, DriverState::Submitted, None),
            driver(12, DriverState::Launching, Some("w1")),
        ],
        vec![event(
            13,
            EventKind::Executor(ExecutorState::Running),
            "app-1/10",
            Some("w2"),
        )],
        vec![
            driver(14, DriverState::Finished, Some("w1")),
            event(15, EventKind::LeaderElected, "m2", None),
        ],
    ] {
        view.apply(&[Mutation::PutEvents(record.into())]);
    }
    view
}

fn ask(request: v1::ListEventsRequest) -> v1::ListEventsResponse {
    page(&view(), request).expect("a page")
}

fn numbers(page: &v1::ListEventsResponse) -> Vec<u64> {
    page.events.iter().map(|event| event.sequence).collect()
}

fn filtered(id: &str, kind: &str) -> Vec<u64> {
    let filter = v1::EventFilter {
        id: id.to_owned(),
        kind: kind.to_owned(),
    };
    let page = ask(v1::ListEventsRequest {
        filter: Some(filter),
        ..v1::ListEventsRequest::default()
    });
    assert_eq!(page.through, 15, "what does not match was looked at, too");
    numbers(&page)
}

#[test]
fn pages_follow_each_other_without_a_gap() {
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = ask(v1::ListEventsRequest {
            after_sequence: after,
            page_size: 2,
            ..v1::ListEventsRequest::default()
        });
        seen.extend(numbers(&page));
        after = Some(page.through);
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, [11, 12, 13, 14, 15]);
}

#[test]
fn a_filter_takes_what_concerns_the_id_and_begins_with_the_kind() {
    assert_eq!(filtered("driver-1", ""), [11, 12, 14]);
    assert_eq!(
        filtered("app-1", ""),
        [13],
        "an application's executors are its own"
    );
    assert_eq!(filtered("app-1/10", ""), [13]);
    assert_eq!(filtered("app-1/1", ""), [0; 0]);
    assert_eq!(filtered("w1", ""), [12, 14]);
    assert_eq!(filtered("", "driver"), [11, 12, 14]);
    assert_eq!(filtered("", "driver_F"), [14]);
    assert_eq!(filtered("w1", "DRIVER_LAUNCHING"), [12]);
    assert_eq!(filtered("", "DRIVER_LAUNCHINGS"), [0; 0]);
}

#[test]
fn the_newest_ones_are_counted_behind_the_filter() {
    let last = |last, kind: &str| {
        let filter = v1::EventFilter {
            id: String::new(),
            kind: kind.to_owned(),
        };
        numbers(&ask(v1::ListEventsRequest {
            filter: Some(filter),
            last: Some(last),
            ..v1::ListEventsRequest::default()
        }))
    };
    assert_eq!(last(2, ""), [14, 15]);
    assert_eq!(last(2, "driver"), [12, 14]);
    assert_eq!(last(9, "driver"), [11, 12, 14]);
    assert_eq!(last(0, ""), [0; 0]);
}

#[test]
fn whoever_has_missed_something_is_told_so() {
    let from = |after| {
        ask(v1::ListEventsRequest {
            after_sequence: Some(after),
            ..v1::ListEventsRequest::default()
        })
    };
    for lost in [0, 9, 16, u64::MAX] {
        let page = from(lost);
        let range = page.must_relist.expect("something is missing");
        assert_eq!((range.oldest, range.newest), (11, 15), "after {lost}");
        assert!(page.events.is_empty());
    }
    assert_eq!(numbers(&from(10)).len(), 5);
    assert_eq!(numbers(&from(15)), [0; 0]);
}

#[test]
fn a_filter_that_cannot_be_is_refused_by_name() {
    let filter = v1::EventFilter {
        id: "x".repeat(1_000),
        kind: String::new(),
    };
    let request = v1::ListEventsRequest {
        filter: Some(filter),
        ..v1::ListEventsRequest::default()
    };
    let refused = page(&view(), request).expect_err("too long");
    assert!(refused.message().contains("filter.id"), "{refused}");
}
