//! An election may give the same master the same epoch again, as Raft does when a quorum was silent for a moment.
//! Then no fence stands between its two leaderships.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use interrex_control_plane::app::Master;
use interrex_persistence::{
    backend::Backend,
    election::{LeaderElection, LeaderView, Leadership, MasterInfo},
    epoch::Epoch,
    error::ElectionError,
    faulty::{Fault, Faults, Op},
    memory::MemoryCluster,
    record::RecordKey,
};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::support::{PATIENCE, bind, client, leads, submission};

/// How late the commit of the first leadership comes.
const LATE: Duration = Duration::from_millis(300);

/// One candidate, one epoch.
#[derive(Debug, Default)]
struct OneTerm {
    lost: Mutex<CancellationToken>,
    view: watch::Sender<LeaderView>,
}

impl OneTerm {
    fn lose(&self) {
        self.token().cancel();
    }

    fn token(&self) -> std::sync::MutexGuard<'_, CancellationToken> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl LeaderElection for OneTerm {
    async fn campaign(&self, _me: &MasterInfo) -> Result<Leadership, ElectionError> {
        let lost = CancellationToken::new();
        *self.token() = lost.clone();
        let epoch = Epoch(1);
        Ok(Leadership { epoch, lost })
    }

    async fn resign(&self) {}

    fn observe(&self) -> watch::Receiver<LeaderView> {
        self.view.subscribe()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_a_leadership_that_is_over_never_arrives_in_the_next_one() {
    let (cluster, faults) = (MemoryCluster::new(), Faults::calm());
    let election = Arc::new(OneTerm::default());
    let (options, listeners) = bind("m1");
    let backend = Backend {
        election: Arc::<OneTerm>::clone(&election),
        ..faults.wrap(cluster.join(options.me.clone()))
    };
    let master = Master::start(options, listeners, backend).expect("a master");
    leads(&master).await;

    faults.next(Op::Commit, Fault::Delay(LATE));
    let mut caller = client(&master);
    let first = tokio::spawn(async move { caller.submit(submission("s1")).await });
    let under_way = async {
        let mut turns = tokio::time::interval(Duration::from_millis(5));
        while faults.injected() == 0 {
            turns.tick().await;
        }
    };
    timeout(PATIENCE, under_way).await.expect("a commit begins");
    // Longer than what is late, so that it is still under way when that is due.
    faults.next(Op::Commit, Fault::Delay(LATE * 2));
    election.lose();
    let in_doubt = first.await.expect("no panic").unwrap_err();
    assert_eq!(in_doubt.code(), Code::Unknown, "{in_doubt:?}");
    let accepted = async {
        let mut caller = client(&master);
        let mut turns = tokio::time::interval(Duration::from_millis(5));
        while caller.submit(submission("s2")).await.is_err() {
            turns.tick().await;
        }
    };
    timeout(PATIENCE, accepted).await.expect("it leads again");

    let requests: Vec<_> = cluster
        .store()
        .iter()
        .map(|(RecordKey { kind, id }, _)| (kind.0, id.to_string()))
        .filter(|(_, id)| id == "s1" || id == "s2")
        .collect();
    assert_eq!(
        requests.len(),
        1,
        "stored behind the back of the leader: {requests:?}"
    );
    master.shutdown().await;
}
