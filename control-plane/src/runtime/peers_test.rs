use interrex_proto::v1::{Reregister, Standby};

use super::*;

fn worker(id: &str) -> Peer {
    Peer::Worker(WorkerId::new(id))
}

fn reregister() -> Body {
    Body::Reregister(Reregister { reason: "x".into() })
}

#[tokio::test]
async fn a_frame_carries_the_epoch_of_its_sender() {
    let peers = Peers::default();
    let mut session = peers.attach().unwrap();
    peers.begin(Epoch(7));
    assert!(peers.bind(Epoch(7), &worker("w1"), session.id));
    assert!(peers.send_to(&worker("w1"), Epoch(7), reregister()));
    assert_eq!(session.frames.next().await.unwrap().epoch, 7);
    // The old leadership's loop may still run for a moment after the next has begun.
    peers.begin(Epoch(9));
    assert!(!peers.send_to(&worker("w1"), Epoch(7), reregister()));
    assert!(!peers.bind(Epoch(7), &worker("w1"), session.id));
}

#[test]
fn a_newer_session_of_the_same_peer_replaces_the_older() {
    let peers = Peers::default();
    peers.begin(Epoch(1));
    let (old, new) = (peers.attach().unwrap(), peers.attach().unwrap());
    assert!(peers.bind(Epoch(1), &worker("w1"), old.id));
    assert!(peers.bind(Epoch(1), &worker("w1"), new.id));
    assert!(old.closed.is_cancelled() && !new.closed.is_cancelled());
    peers.detach(old.id);
    assert_eq!(
        peers.take_changes(),
        Changes::default(),
        "its end says nothing about the worker"
    );
    peers.detach(new.id);
    assert_eq!(
        peers.take_changes().gone,
        BTreeSet::from([WorkerId::new("w1")])
    );
}

#[test]
fn a_session_that_does_not_read_is_closed_and_nobody_waits() {
    let peers = Peers::default();
    peers.begin(Epoch(1));
    let session = peers.attach().unwrap();
    assert!(peers.bind(Epoch(1), &worker("w1"), session.id));
    let sent = (0..SESSION_FRAMES_MAX + 10)
        .filter(|_| peers.send_to(&worker("w1"), Epoch(1), reregister()))
        .count();
    assert_eq!(sent, SESSION_FRAMES_MAX);
    assert!(session.closed.is_cancelled());
}

#[test]
fn a_session_is_bounded_in_bytes_too() {
    let peers = Peers::default();
    let session = peers.attach().unwrap();
    let large = Body::Reregister(Reregister {
        reason: "x".repeat(SESSION_BYTES_MAX / 4),
    });
    for _ in 0..4 {
        peers.send(session.id, Epoch(1), large.clone());
    }
    assert!(session.closed.is_cancelled());
}

#[tokio::test]
async fn a_broadcast_reaches_sessions_that_have_not_registered() {
    let peers = Peers::default();
    let mut session = peers.attach().unwrap();
    peers.broadcast(Epoch(0), &Body::Standby(Standby::default()));
    assert_eq!(
        session.frames.next().await.unwrap().body,
        Some(Body::Standby(Standby::default()))
    );
}

#[test]
fn a_peer_that_comes_back_at_once_has_not_gone() {
    let peers = Peers::default();
    peers.begin(Epoch(1));
    let (worker, app) = (worker("w1"), Peer::App(AppId::new("a1")));
    for _ in 0..3 {
        let session = peers.attach().unwrap();
        assert!(peers.bind(Epoch(1), &worker, session.id));
        assert!(peers.bind(Epoch(1), &app, session.id));
        peers.detach(session.id);
    }
    let session = peers.attach().unwrap();
    assert!(peers.bind(Epoch(1), &worker, session.id));
    let changes = peers.take_changes();
    assert_eq!(changes.gone, BTreeSet::new());
    assert_eq!(changes.apps, BTreeMap::from([(AppId::new("a1"), false)]));
}

#[test]
fn a_session_that_ended_before_its_answer_is_noted_as_gone() {
    let peers = Peers::default();
    peers.begin(Epoch(1));
    let session = peers.attach().unwrap();
    peers.detach(session.id);
    assert!(!peers.bind(Epoch(1), &worker("w1"), session.id));
    assert_eq!(
        peers.take_changes().gone,
        BTreeSet::from([WorkerId::new("w1")])
    );
}
