//! What happens to etcd, and what masters make of it. Nothing that was acknowledged is lost, nothing of an old epoch is
//! stored, nobody ends, and everything goes on by itself.

use std::time::{Duration, Instant};

use interrex_persistence::{epoch::Epoch, error::CommitError, record::Recovered};
use tokio::time::{sleep, timeout};

use super::{
    masters::{LEASE, Masters, ids, me},
    proxy::Mode,
    server::Server,
};

/// A lease, half a second, and what a busy machine adds.
const TAKEOVER_MAX: Duration = Duration::from_secs(5);

/// Commits `count` records one after the other with whoever leads; the ids that were acknowledged.
async fn some(masters: &Masters, n: usize, epoch: Epoch, name: &str, count: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for i in 0..count {
        let id = format!("{name}-{i}");
        masters.put(n, epoch, &id).await.unwrap();
        acknowledged.push(id);
    }
    acknowledged
}

fn expect_all(recovered: &Recovered, acknowledged: &[String]) {
    let found = ids(recovered);
    for id in acknowledged {
        assert!(
            found.contains(&id.as_str()),
            "{id} was acknowledged: {found:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_that_start_before_etcd_wait_and_then_elect() {
    let mut server = Server::start().await;
    server.kill();
    let mut masters = Masters::idle_on(server, 2).await;
    masters.open(0).await;
    masters.open(1).await;
    masters.says(0, false, "etcd does not answer").await;
    let early = masters.backend(0).election.clone();
    let campaign = tokio::spawn(async move { early.campaign(&me(0)).await });
    masters.server.up().await.unwrap();
    let leadership = timeout(TAKEOVER_MAX, campaign)
        .await
        .expect("in time")
        .unwrap()
        .unwrap();
    masters
        .backend(0)
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap();
    masters.put(0, leadership.epoch, "a").await.unwrap();
    masters.says(0, true, "leading in epoch").await;
    masters.says(1, true, "following m0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_that_is_killed_and_comes_back_loses_nothing() {
    let mut masters = Masters::start(2).await;
    let (first, _) = masters.lead_open(0).await;
    let mut acknowledged = some(&masters, 0, first.epoch, "before", 5).await;
    masters.server.kill();
    // In flight while there is nobody: either it is known to be refused, or its outcome is unknown.
    let error = masters.put(0, first.epoch, "lost").await.unwrap_err();
    assert!(!matches!(error, CommitError::Fenced { .. }), "{error}");
    timeout(TAKEOVER_MAX, first.lost.cancelled())
        .await
        .expect("the leader stops by itself");
    masters.says(0, false, "etcd does not answer").await;
    masters.server.up().await.unwrap();
    let (second, recovered) = masters.lead_open(1).await;
    assert!(second.epoch > first.epoch);
    expect_all(&recovered, &acknowledged);
    acknowledged.extend(some(&masters, 1, second.epoch, "after", 5).await);
    masters.put(0, first.epoch, "late").await.unwrap_err();
    masters.backend(1).election.resign().await;
    let (third, recovered) = masters.lead_open(0).await;
    assert!(third.epoch > second.epoch);
    expect_all(&recovered, &acknowledged);
    assert!(!ids(&recovered).contains(&"late"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_etcd_within_the_lease_costs_no_leadership() {
    // A lease that a restart fits into, however busy the machine is.
    let mut masters = Masters::idle_on(Server::start().await, 1).await;
    let mut options = masters.options(0);
    options.settings.lease = Duration::from_secs(10);
    masters.open_with(0, options).await;
    let (leadership, _) = masters.lead_open(0).await;
    masters.put(0, leadership.epoch, "before").await.unwrap();
    masters.server.kill();
    let engine = masters.backend(0).engine.clone();
    let batch = |id: &str| interrex_persistence::record::CommitBatch {
        epoch: leadership.epoch,
        mutations: vec![interrex_persistence::conformance::put(id, "1")],
    };
    let waiting = batch("while it was away");
    let waiting = tokio::spawn(async move { engine.commit(waiting).await });
    masters.server.up().await.unwrap();
    waiting.await.unwrap().unwrap();
    masters.put(0, leadership.epoch, "after").await.unwrap();
    masters
        .backend(0)
        .engine
        .confirm(leadership.epoch)
        .await
        .unwrap();
    assert!(!leadership.lost.is_cancelled());
    let again = masters
        .backend(0)
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap();
    assert_eq!(ids(&again), ["after", "before", "while it was away"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_half_a_lease_changes_nothing() {
    let mut masters = Masters::idle_on(Server::start().await, 2).await;
    let lease = LEASE * 4;
    for n in 0..2 {
        let mut options = masters.options(n);
        options.settings.lease = lease;
        masters.open_with(n, options).await;
    }
    masters.settled().await;
    let (leadership, _) = masters.lead_open(0).await;
    masters.server.freeze();
    let commit = masters.put(0, leadership.epoch, "meanwhile");
    let (stored, ()) = tokio::join!(commit, async {
        sleep(lease / 2).await;
        masters.server.thaw();
    });
    stored.unwrap();
    assert!(!leadership.lost.is_cancelled(), "the same leader");
    masters.put(0, leadership.epoch, "after").await.unwrap();
    masters
        .says(
            1,
            true,
            &format!("following m0 in epoch {}", leadership.epoch),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_two_leases_ends_the_leadership_in_time_and_nothing_else() {
    let masters = Masters::start(2).await;
    let (first, _) = masters.lead_open(0).await;
    masters.put(0, first.epoch, "before").await.unwrap();
    let began = Instant::now();
    masters.server.freeze();
    let in_flight = masters.put(0, first.epoch, "in flight");
    let (error, stopped) = tokio::join!(in_flight, async {
        timeout(TAKEOVER_MAX, first.lost.cancelled())
            .await
            .expect("it stops by itself");
        began.elapsed()
    });
    assert!(error.unwrap_err().maybe_written(), "nobody knows");
    assert!(
        stopped < LEASE,
        "before its lease can be taken: {stopped:?}"
    );
    assert!(
        masters
            .backend(0)
            .engine
            .confirm(first.epoch)
            .await
            .is_err()
    );
    masters.says(0, false, "etcd does not answer").await;
    sleep((LEASE * 2).saturating_sub(began.elapsed())).await;
    masters.server.thaw();
    let (second, recovered) = masters.lead_open(0).await;
    assert!(second.epoch > first.epoch);
    expect_all(&recovered, &["before".to_owned()]);
    masters.put(0, first.epoch, "late").await.unwrap_err();
    masters.put(0, second.epoch, "after").await.unwrap();
    masters.says(1, true, "following m0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_before_the_next_one_begins() {
    for mode in [Mode::Silent, Mode::Cut] {
        let masters = Masters::start(2).await;
        let (first, _) = masters.lead_open(0).await;
        let acknowledged = some(&masters, 0, first.epoch, "before", 3).await;
        let next = masters.backend(1).election.clone();
        let began = Instant::now();
        masters.link(0, mode);
        let (second, in_flight) = tokio::join!(
            async { next.campaign(&me(1)).await.unwrap() },
            masters.put(0, first.epoch, "in flight"),
        );
        let took = began.elapsed();
        assert!(
            first.lost.is_cancelled(),
            "{mode:?}: the old leader stopped first"
        );
        assert!(in_flight.is_err(), "{mode:?}");
        assert!(took < TAKEOVER_MAX, "{mode:?}: {took:?}");
        let recovered = masters
            .backend(1)
            .engine
            .open_epoch(second.epoch)
            .await
            .unwrap();
        expect_all(&recovered, &acknowledged);
        masters.put(1, second.epoch, "after").await.unwrap();
        // It finds its way back by itself, as a standby.
        masters.says(0, false, "etcd does not answer").await;
        masters.link(0, Mode::Open);
        masters.says(0, true, "following m1").await;
        masters.put(0, first.epoch, "late").await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_to_etcd_that_fails_costs_no_leadership_where_another_one_works() {
    for mode in [Mode::Cut, Mode::Silent] {
        let mut masters = Masters::idle_on(Server::start().await, 1).await;
        let mut options = masters.options(0);
        options.settings.lease = LEASE * 8;
        let second = masters.server.address();
        options.settings.endpoints.push(second);
        masters.open_with(0, options).await;
        let (leadership, _) = masters.lead_open(0).await;
        let mut acknowledged = some(&masters, 0, leadership.epoch, "before", 3).await;
        masters.link(0, mode);
        acknowledged.extend(some(&masters, 0, leadership.epoch, "after", 3).await);
        let engine = &masters.backend(0).engine;
        engine.confirm(leadership.epoch).await.unwrap();
        let again = engine.open_epoch(leadership.epoch).await.unwrap();
        expect_all(&again, &acknowledged);
        assert!(!leadership.lost.is_cancelled(), "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_found_out_in_five_seconds() {
    let masters = Masters::start(2).await;
    masters.lead_open(1).await;
    masters.says(0, true, "following m1").await;
    let began = Instant::now();
    masters.link(0, Mode::Silent);
    masters.says(0, false, "etcd does not answer").await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    masters.link(0, Mode::Open);
    masters.says(0, true, "following m1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_etcd_is_waited_for() {
    let mut masters = Masters::idle_on(Server::start().await, 1).await;
    let mut options = masters.options(0);
    options.settings.lease = LEASE * 5;
    masters.open_with(0, options).await;
    let (leadership, _) = masters.lead_open(0).await;
    masters.link(0, Mode::Slow(Duration::from_millis(50)));
    let acknowledged = some(&masters, 0, leadership.epoch, "slow", 5).await;
    masters.link(0, Mode::Open);
    assert!(!leadership.lost.is_cancelled(), "slow is not gone");
    let again = masters
        .backend(0)
        .engine
        .open_epoch(leadership.epoch)
        .await
        .unwrap();
    expect_all(&again, &acknowledged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lease_ends_the_leadership_with_work_in_flight() {
    let masters = Masters::start(2).await;
    let (first, _) = masters.lead_open(0).await;
    let acknowledged = some(&masters, 0, first.epoch, "before", 3).await;
    let mut client = masters.server.client().await;
    let leases = client.leases().await.unwrap();
    let revoke = async {
        for lease in leases.leases() {
            client.lease_revoke(lease.id()).await.unwrap();
        }
    };
    let commits = (0..50).map(|i| {
        let (masters, epoch) = (&masters, first.epoch);
        async move {
            (
                i,
                masters.put(0, epoch, &format!("racing-{i}")).await.is_ok(),
            )
        }
    });
    let (stored, ()) = tokio::join!(futures::future::join_all(commits), revoke);
    timeout(TAKEOVER_MAX, first.lost.cancelled())
        .await
        .expect("it hears of it");
    // Both register again, and somebody leads.
    let (second, recovered) = masters.lead_open(1).await;
    assert!(second.epoch > first.epoch);
    expect_all(&recovered, &acknowledged);
    for (i, _) in stored.iter().filter(|(_, ok)| *ok) {
        expect_all(&recovered, &[format!("racing-{i}")]);
    }
    masters.put(0, first.epoch, "late").await.unwrap_err();
    masters.says(0, true, "following m1").await;
}

/// As `etcdctl alarm disarm`.
async fn disarm(client: &mut etcd_client::Client) {
    let space = etcd_client::AlarmType::Nospace;
    let raised = client
        .alarm(etcd_client::AlarmAction::Get, space, None)
        .await
        .unwrap();
    assert!(!raised.alarms().is_empty(), "etcd has no space");
    for alarm in raised.alarms() {
        let mut of = etcd_client::AlarmOptions::new();
        of.with_member(alarm.member_id());
        client
            .alarm(etcd_client::AlarmAction::Deactivate, space, Some(of))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_without_space_is_named_and_waited_for() {
    let server = Server::start_with(&["--quota-backend-bytes", "4194304"]).await;
    let masters = Masters::start_on(server, 1).await;
    let (first, _) = masters.lead_open(0).await;
    let acknowledged = some(&masters, 0, first.epoch, "before", 3).await;
    let mut client = masters.server.client().await;
    while client.put("filler", vec![7; 512 << 10], None).await.is_ok() {}
    let error = masters.put(0, first.epoch, "no room").await.unwrap_err();
    assert!(matches!(error, CommitError::Rejected(_)), "{error}");
    assert!(error.to_string().contains("space exceeded"), "{error}");
    masters.says(0, false, "etcdctl alarm disarm").await;
    // As the role does: it gives leadership back, and campaigns again.
    masters.backend(0).election.resign().await;
    let election = masters.backend(0).election.clone();
    let campaign = tokio::spawn(async move { election.campaign(&me(0)).await });
    let deleted = client.delete("filler", None).await.unwrap();
    let now = deleted.header().unwrap().revision();
    let at_once = etcd_client::CompactionOptions::new().with_physical();
    client.compact(now, Some(at_once)).await.unwrap();
    client.defragment().await.unwrap();
    assert!(
        !campaign.is_finished(),
        "nobody leads where nothing can be written"
    );
    disarm(&mut client).await;
    let second = timeout(TAKEOVER_MAX, campaign)
        .await
        .expect("without a restart")
        .unwrap()
        .unwrap();
    let recovered = masters
        .backend(0)
        .engine
        .open_epoch(second.epoch)
        .await
        .unwrap();
    assert!(second.epoch > first.epoch);
    expect_all(&recovered, &acknowledged);
    assert!(!ids(&recovered).contains(&"no room"));
    masters.put(0, second.epoch, "after").await.unwrap();
    masters.says(0, true, "leading").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_leader_is_replaced_within_its_lease_and_half_a_second() {
    let mut masters = Masters::start(2).await;
    let (first, _) = masters.lead_open(0).await;
    let acknowledged = some(&masters, 0, first.epoch, "before", 3).await;
    let next = masters.backend(1).election.clone();
    let campaign = tokio::spawn(async move { next.campaign(&me(1)).await });
    let began = Instant::now();
    masters.crash(0).await;
    let second = timeout(TAKEOVER_MAX, campaign)
        .await
        .expect("in time")
        .unwrap()
        .unwrap();
    let recovered = masters
        .backend(1)
        .engine
        .open_epoch(second.epoch)
        .await
        .unwrap();
    let took = began.elapsed();
    assert!(second.epoch > first.epoch);
    expect_all(&recovered, &acknowledged);
    // etcd looks for ended leases every half second; the rest is for a busy machine.
    assert!(took < LEASE + Duration::from_secs(2), "{took:?}");
}
