//! Following the event log over scripted masters.

use interrex_client::control::{ClientError, EventNews, EventStart, EventStream};
use interrex_proto::v1::{Event, EventFilter, MustRelist, WatchEventsRequest, WatchEventsResponse};
use tokio::sync::mpsc;
use tonic::Status;

use crate::{
    control::client,
    support::{Call, FakeMaster, within},
};

type Log = mpsc::Sender<Result<WatchEventsResponse, Status>>;

/// Serves the next watcher; what it asked for, and where its events go.
async fn watcher(master: &FakeMaster) -> (WatchEventsRequest, Log) {
    let Call::Watch(request, answer) = master.call().await else {
        panic!("another call than a watch")
    };
    let (log, events) = mpsc::channel(8);
    answer.send(Ok(events)).expect("somebody watches");
    (request, log)
}

fn events(numbers: &[u64], through: u64) -> WatchEventsResponse {
    let event = |sequence: &u64| Event {
        sequence: *sequence,
        ..Event::default()
    };
    WatchEventsResponse {
        events: numbers.iter().map(event).collect(),
        through,
        must_relist: None,
    }
}

async fn next(stream: &mut EventStream) -> Vec<u64> {
    match within("news", stream.next()).await.expect("no error") {
        EventNews::Events { events, .. } => events.iter().map(|event| event.sequence).collect(),
        gap @ EventNews::Gap { .. } => panic!("{gap:?}"),
    }
}

#[tokio::test]
async fn the_next_leader_goes_on_behind_what_was_seen() {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let mut stream = client(&[&m1]).watch_events(EventStart::Last(2), EventFilter::default());
    let (request, log) = tokio::join!(
        async {
            let (request, log) = watcher(&m1).await;
            log.send(Ok(events(&[4, 5], 5))).await.expect("it reads");
            (request, log)
        },
        async { assert_eq!(next(&mut stream).await, [4, 5]) }
    )
    .0;
    assert_eq!((request.after_sequence, request.last), (None, Some(2)));
    log.send(Err(crate::support::not_leader(Some(&m2))))
        .await
        .expect("it reads");
    let serve = async {
        let Call::Watch(_, answer) = m1.call().await else {
            panic!("it asks where it was")
        };
        answer
            .send(Err(crate::support::not_leader(Some(&m2))))
            .expect("it waits");
        let (request, log) = watcher(&m2).await;
        // A master that repeats itself is not believed.
        log.send(Ok(events(&[5, 6], 6))).await.expect("it reads");
        (request, log)
    };
    let ((request, _log), seen) = within("the next leader", async {
        tokio::join!(serve, next(&mut stream))
    })
    .await;
    assert_eq!((request.after_sequence, request.last), (Some(5), None));
    assert_eq!(seen, [6]);
}

#[tokio::test]
async fn what_did_not_match_is_not_asked_for_again() {
    let m1 = FakeMaster::start();
    let filter = EventFilter {
        kind: "DRIVER".into(),
        id: String::new(),
    };
    let mut stream = client(&[&m1]).watch_events(EventStart::Oldest, filter);
    let serve = async {
        let (request, log) = watcher(&m1).await;
        assert_eq!(request.after_sequence, None);
        log.send(Ok(events(&[3], 90))).await.expect("it reads");
        drop(log);
        watcher(&m1).await
    };
    let follow = async {
        assert_eq!(next(&mut stream).await, [3]);
        within("the next stream", stream.next()).await
    };
    let (request, log) = tokio::select! {
        again = serve => again,
        news = follow => panic!("{news:?}"),
    };
    assert_eq!(request.after_sequence, Some(90));
    drop(log);
}

#[tokio::test]
async fn a_gap_is_said_and_followed_by_what_is_kept() {
    let m1 = FakeMaster::start();
    let mut stream = client(&[&m1]).watch_events(EventStart::After(7), EventFilter::default());
    let serve = async {
        let (request, log) = watcher(&m1).await;
        assert_eq!(request.after_sequence, Some(7));
        let must_relist = Some(MustRelist {
            oldest: 20,
            newest: 30,
        });
        let answer = WatchEventsResponse {
            must_relist,
            ..WatchEventsResponse::default()
        };
        log.send(Ok(answer)).await.expect("it reads");
        let (request, log) = watcher(&m1).await;
        assert_eq!(request.after_sequence, Some(19));
        log.send(Ok(events(&[20, 21], 21))).await.expect("it reads");
        // And one that somebody swallowed.
        log.send(Ok(events(&[23], 23))).await.expect("it reads");
        watcher(&m1).await
    };
    let follow = async {
        let gap = |after, oldest, newest| EventNews::Gap {
            after,
            oldest,
            newest,
        };
        assert_eq!(stream.next().await, Ok(gap(7, 20, 30)));
        assert_eq!(next(&mut stream).await, [20, 21]);
        assert_eq!(stream.next().await, Ok(gap(21, 23, 23)));
        stream.next().await
    };
    let (request, _log) = within("the events", async {
        tokio::select! {
            again = serve => again,
            news = follow => panic!("{news:?}"),
        }
    })
    .await;
    assert_eq!(request.after_sequence, Some(22));
}

#[tokio::test]
async fn a_bad_filter_is_not_tried_elsewhere() {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let mut stream = client(&[&m1, &m2]).watch_events(EventStart::Oldest, EventFilter::default());
    let serve = async {
        let call = tokio::select! { call = m1.call() => call, call = m2.call() => call };
        let Call::Watch(_, answer) = call else {
            panic!("another call than a watch")
        };
        answer
            .send(Err(Status::invalid_argument("filter.id: is too long")))
            .expect("it waits");
    };
    let ((), refused) = within("the answer", async { tokio::join!(serve, stream.next()) }).await;
    assert!(
        matches!(refused, Err(ClientError::Invalid { .. })),
        "{refused:?}"
    );
}
