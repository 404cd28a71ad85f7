//! A session against scripted masters.

use std::time::Duration;

use interrex_client::session::{
    Delivery, Session, SessionClosed, SessionEvent, SessionHandle, SessionOptions, SessionTimings,
    StreamId,
};
use interrex_proto::v1::{self, master_frame, peer_frame};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::support::{
    FakeMaster, FakePeer, black_hole, dead_address, session_options, unhurried, within,
};

/// A write that takes longer than this waits for a reader.
const STUCK: Duration = Duration::from_millis(300);

/// An agent that answers every request for a registration.
struct Role {
    handle: SessionHandle,
    events: mpsc::Receiver<SessionEvent>,
}

fn worker() -> peer_frame::Body {
    peer_frame::Body::RegisterWorker(v1::RegisterWorker::default())
}

fn launch(driver_id: &str) -> master_frame::Body {
    let driver_id = driver_id.to_owned();
    master_frame::Body::LaunchDriver(v1::LaunchDriver {
        driver_id,
        ..v1::LaunchDriver::default()
    })
}

fn report(sequence: u64) -> peer_frame::Body {
    peer_frame::Body::Report(v1::WorkReport {
        sequence,
        body: None,
    })
}

impl Role {
    fn start(options: SessionOptions) -> Self {
        let (handle, events) = Session::spawn(options, CancellationToken::new()).unwrap();
        Self { handle, events }
    }

    async fn raw_event(&mut self) -> SessionEvent {
        within("an event", self.events.recv())
            .await
            .expect("the session has ended")
    }

    /// The next event that is not a request for a registration; those are answered.
    async fn event(&mut self) -> SessionEvent {
        loop {
            match self.raw_event().await {
                SessionEvent::RegistrationWanted { stream, .. } => {
                    self.handle.register(stream, worker()).await.unwrap();
                }
                event => return event,
            }
        }
    }

    async fn attached(&mut self) -> (u64, String) {
        match self.event().await {
            SessionEvent::Attached { epoch, master, .. } => (epoch, master),
            other => panic!("{other:?} instead of an attachment"),
        }
    }

    async fn wanted(&mut self) -> StreamId {
        match self.raw_event().await {
            SessionEvent::RegistrationWanted { stream, .. } => stream,
            other => panic!("{other:?} instead of a request for a registration"),
        }
    }

    /// Registers on `count` streams, whatever else happens not at all.
    async fn register(&mut self, count: usize) {
        for _ in 0..count {
            let stream = self.wanted().await;
            self.handle.register(stream, worker()).await.unwrap();
        }
    }
}

/// Two masters with an open stream each, the first of which leads in epoch 5.
async fn two_masters() -> (FakeMaster, FakePeer, FakeMaster, FakePeer, Role) {
    let (m1, m2) = (FakeMaster::start(), FakeMaster::start());
    let options = SessionOptions {
        timings: unhurried(),
        ..session_options(&[&m1, &m2])
    };
    let mut role = Role::start(options);
    role.register(2).await;
    let (mut p1, mut p2) = (m1.accept().await, m2.accept().await);
    assert_eq!((p1.body().await, p2.body().await), (worker(), worker()));
    p2.standby(Some(m1.named("m1"))).await;
    p1.registered(5, v1::Registered::default()).await;
    assert_eq!(role.attached().await, (5, m1.address.clone()));
    (m1, p1, m2, p2, role)
}

#[tokio::test]
async fn the_session_registers_with_every_master_and_obeys_the_leader() {
    let (_m1, mut p1, _m2, _p2, mut role) = two_masters().await;
    p1.send(5, launch("d1")).await;
    assert_eq!(
        role.event().await,
        SessionEvent::Frame {
            epoch: 5,
            body: launch("d1")
        }
    );
    for sequence in 0..10 {
        assert_eq!(
            role.handle.send(report(sequence)).await,
            Ok(Delivery::Queued)
        );
    }
    for sequence in 0..10 {
        let frame = p1.recv().await;
        assert_eq!((frame.seen_epoch, frame.body), (5, Some(report(sequence))));
    }
}

#[tokio::test]
async fn a_new_leader_on_an_idle_stream_is_followed_at_once() {
    // No timer can help: with these timings only the announcement moves the session.
    let (_m1, _p1, m2, mut p2, mut role) = two_masters().await;
    p2.changed(6).await;
    assert!(matches!(
        role.raw_event().await,
        SessionEvent::Detached { .. }
    ));
    assert_eq!(role.handle.send(report(1)).await, Ok(Delivery::NotAttached));
    let stream = role.wanted().await;
    role.handle.register(stream, worker()).await.unwrap();
    let frame = p2.recv().await;
    assert_eq!((frame.seen_epoch, frame.body), (6, Some(worker())));
    p2.registered(6, v1::Registered::default()).await;
    assert_eq!(role.attached().await, (6, m2.address.clone()));
    assert_eq!(role.handle.seen(), 6);
    assert_eq!(role.handle.send(report(1)).await, Ok(Delivery::Queued));
    assert_eq!(
        p2.body().await,
        report(1),
        "what is sent later is behind the registration"
    );
}

#[tokio::test]
async fn an_order_of_an_older_epoch_is_answered_stale_and_never_reaches_the_role() {
    let (_m1, mut p1, _m2, mut p2, mut role) = two_masters().await;
    p2.changed(6).await;
    assert!(matches!(role.event().await, SessionEvent::Detached { .. }));
    let stream = role.wanted().await;
    role.handle.register(stream, worker()).await.unwrap();
    assert_eq!(p2.body().await, worker());
    p2.registered(6, v1::Registered::default()).await;
    assert_eq!(role.attached().await.0, 6);

    p1.send(5, launch("late")).await;
    let stale = v1::StaleEpoch {
        seen: 6,
        refused: 5,
        frame: "launch_driver".into(),
    };
    assert_eq!(p1.body().await, peer_frame::Body::StaleEpoch(stale));
    p2.send(6, launch("fresh")).await;
    assert_eq!(
        role.event().await,
        SessionEvent::Frame {
            epoch: 6,
            body: launch("fresh")
        }
    );
}

#[tokio::test]
async fn silent_and_dead_masters_do_not_delay_the_others() {
    let master = FakeMaster::start();
    let (silent, _kept) = black_hole();
    let masters = vec![silent, dead_address(), master.address.clone()];
    let options = SessionOptions {
        masters,
        seed: 3,
        ..SessionOptions::default()
    };
    let began = tokio::time::Instant::now();
    let mut role = Role::start(options);
    let (mut peer, attached) = tokio::join!(
        async {
            let mut peer = master.accept().await;
            assert_eq!(peer.body().await, worker());
            peer.registered(1, v1::Registered::default()).await;
            peer
        },
        role.attached()
    );
    assert_eq!(attached, (1, master.address.clone()));
    // The silent master's own deadline has not even passed.
    assert!(began.elapsed() < SessionTimings::default().registration_timeout);
    assert_eq!(role.handle.send(report(1)).await, Ok(Delivery::Queued));
    assert_eq!(peer.body().await, report(1));
}

#[tokio::test]
async fn a_master_that_restarts_is_found_again() {
    let master = FakeMaster::start();
    let address = master.address.clone();
    let timings = SessionTimings {
        redial_min: Duration::from_millis(10),
        redial_max: Duration::from_millis(50),
        ..SessionTimings::default()
    };
    let options = SessionOptions {
        timings,
        ..session_options(&[&master])
    };
    let mut role = Role::start(options);
    role.register(1).await;
    let peer = master.accept().await;
    peer.registered(1, v1::Registered::default()).await;
    assert_eq!(role.attached().await.0, 1);

    drop(peer);
    drop(master);
    assert!(matches!(role.event().await, SessionEvent::Detached { .. }));
    // The port may be in use for a moment, until the old runtime is gone.
    let master = within("the port", async {
        loop {
            if std::net::TcpListener::bind(&address).is_ok() {
                break FakeMaster::start_at(&address);
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (_peer, attached) = tokio::join!(
        async {
            let mut peer = master.accept().await;
            let frame = peer.recv().await;
            assert_eq!((frame.seen_epoch, frame.body), (1, Some(worker())));
            peer.registered(2, v1::Registered::default()).await;
            peer
        },
        role.attached()
    );
    assert_eq!(attached.0, 2);
}

#[tokio::test]
async fn a_hint_leads_to_a_master_that_is_not_in_the_list() {
    let (standby, leader) = (FakeMaster::start(), FakeMaster::start());
    let mut role = Role::start(session_options(&[&standby]));
    role.register(1).await;
    let peer = standby.accept().await;
    peer.standby(Some(leader.named("m2"))).await;
    role.register(1).await;
    let led = leader.accept().await;
    led.registered(4, v1::Registered::default()).await;
    assert_eq!(role.attached().await, (4, leader.address.clone()));
}

#[tokio::test]
async fn a_role_that_reads_nothing_can_still_send() {
    let (_m1, mut p1, _m2, _p2, role) = two_masters().await;
    // Orders until every queue on the way is full; the role reads none of them. Each is large beside the transport's
    // own window (2 MiB), so that it is the queues that are measured.
    let order = launch(&"d".repeat(16 << 10));
    let mut orders = 0;
    while timeout(STUCK, p1.send(5, order.clone())).await.is_ok() {
        orders += 1;
        assert!(orders < 2_000, "some queue has no bound");
    }
    let sent = within("the session", role.handle.send(report(7))).await;
    assert_eq!(sent, Ok(Delivery::Queued));
    assert_eq!(p1.body().await, report(7));
}

#[tokio::test]
async fn closing_writes_what_is_queued_and_ends_the_session() {
    let (_m1, mut p1, _m2, mut p2, mut role) = two_masters().await;
    // More than the transport takes at once: most of it waits in the stream's queue when the session is closed.
    let large = |sequence| {
        let message = "m".repeat(16 << 10);
        let driver = v1::DriverChanged {
            message,
            ..v1::DriverChanged::default()
        };
        let body = Some(v1::work_report::Body::Driver(driver));
        peer_frame::Body::Report(v1::WorkReport { sequence, body })
    };
    for sequence in 0..200 {
        assert_eq!(
            role.handle.send(large(sequence)).await,
            Ok(Delivery::Queued)
        );
    }
    let handle = role.handle.clone();
    let close = tokio::spawn(async move { handle.close().await });
    let rest = p1.rest().await;
    assert_eq!(rest.len(), 200);
    assert_eq!(
        rest.last().and_then(|frame| frame.body.clone()),
        Some(large(199))
    );
    drop(p1);
    assert_eq!(p2.rest().await, []);
    drop(p2);
    within("the close", close).await.unwrap();
    assert_eq!(role.handle.send(report(1)).await, Err(SessionClosed));
    assert_eq!(within("the end", role.events.recv()).await, None);
    within("a second close", role.handle.close()).await;
}
