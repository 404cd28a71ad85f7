//! The memory backend: the suite, with two masters.

use async_trait::async_trait;
use interrex_persistence::{
    backend::Backend,
    conformance::{Bench, Fixture, Stop, put},
    conformance_suite, contention_suite,
    election::MasterInfo,
    error::AdminError,
    memory::MemoryCluster,
};

struct Memory {
    cluster: MemoryCluster,
    open: [Option<Backend>; 2],
}

fn info(n: usize) -> MasterInfo {
    MasterInfo {
        id: format!("m{n}"),
        rpc: format!("127.0.0.1:{n}"),
        ..Default::default()
    }
}

#[async_trait]
impl Fixture for Memory {
    async fn fresh() -> Self {
        let cluster = MemoryCluster::new();
        let open = [0, 1].map(|n| Some(cluster.join(info(n))));
        Self { cluster, open }
    }

    fn masters(&self) -> usize {
        self.open.len()
    }

    fn me(&self, n: usize) -> MasterInfo {
        info(n)
    }

    fn backend(&self, n: usize) -> Option<Backend> {
        self.open[n].clone()
    }

    async fn stop(&mut self, n: usize, how: Stop) {
        let backend = self.open[n].take().expect("it runs");
        match how {
            Stop::Clean => backend.admin.shutdown().await,
            Stop::Crash | Stop::TornTail => self.cluster.crash(&info(n).id),
        }
    }

    async fn start(&mut self, n: usize) {
        self.open[n] = Some(self.cluster.join(info(n)));
    }

    async fn depose(&mut self, _n: usize) -> bool {
        self.cluster.steal().is_some()
    }
}

conformance_suite!(Memory);
contention_suite!(Memory);

#[tokio::test]
async fn a_leader_whose_leadership_was_stolen_believes_in_it_until_it_meets_the_fence() {
    let bench = Bench::<Memory>::new().await;
    let old = bench.lead_among(&[0]).await;
    bench.fixture.cluster.steal();
    old.commit(vec![put("not yet fenced", "1")]).await.unwrap();
    assert!(!old.leadership.lost.is_cancelled());
    let new = bench.lead_among(&[1]).await;
    assert_eq!(new.recovered.records.len(), 1);
    assert!(old.commit(vec![put("fenced", "1")]).await.is_err());
    assert!(!old.leadership.lost.is_cancelled());
}

#[tokio::test]
async fn leadership_is_transferred_to_the_standby_that_was_named() {
    let bench = Bench::<Memory>::new().await;
    let old = bench.lead_among(&[0]).await;
    let refused = old
        .backend
        .admin
        .transfer_leader(Some("m1".to_owned()))
        .await;
    assert!(
        matches!(refused, Err(AdminError::Refused(_))),
        "{refused:?}"
    );
    let transfer = async {
        tokio::task::yield_now().await;
        old.backend
            .admin
            .transfer_leader(Some("m1".to_owned()))
            .await
    };
    let (new, heir) = tokio::join!(bench.lead_among(&[1]), transfer);
    assert_eq!((heir.unwrap(), new.n), ("m1".to_owned(), 1));
    let refused = old.backend.admin.transfer_leader(None).await;
    assert!(matches!(refused, Err(AdminError::NotLeader)), "{refused:?}");
}

#[tokio::test]
async fn a_dead_master_is_listed_as_unhealthy() {
    let mut bench = Bench::<Memory>::new().await;
    bench.fixture.stop(1, Stop::Crash).await;
    let admin = bench.fixture.backend(0).unwrap().admin;
    let healthy: Vec<_> = admin
        .members()
        .into_iter()
        .map(|m| (m.id, m.healthy))
        .collect();
    assert_eq!(
        healthy,
        [
            ("m0".to_owned(), Some(true)),
            ("m1".to_owned(), Some(false))
        ]
    );
    assert!(admin.health().ready);
}
