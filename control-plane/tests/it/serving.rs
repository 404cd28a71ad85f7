//! Everything else that a master serves, and how it stops.

use std::time::Duration;

use interrex_persistence::memory::MemoryCluster;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::support::{PATIENCE, Peer, leads, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_leadership_and_rest_answer() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let get = |address: std::net::SocketAddr, path: &str| {
        let request = reqwest::get(format!("http://{address}{path}"));
        async { request.await.expect("an answer") }
    };
    for path in ["/livez", "/readyz", "/leader"] {
        let answer = get(master.web_addr, path).await;
        assert_eq!(answer.status(), 200, "{path}");
    }
    let rest = master.rest_addr.expect("REST is on");
    assert_eq!(get(rest, "/v1/submissions/readyz").await.status(), 200);

    let address = format!("http://{}", master.rpc_addr);
    let channel = tonic::transport::Endpoint::from_shared(address)
        .unwrap()
        .connect_lazy();
    let mut health = HealthClient::new(channel);
    let answer = health
        .check(HealthCheckRequest::default())
        .await
        .expect("an answer");
    assert_eq!(answer.into_inner().status, 1);
    master.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_does_not_wait_for_an_idle_peer() {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let (mut agent, _) = Peer::agent(&master, "w1").await;
    let web = master.web_addr;
    let began = tokio::time::Instant::now();
    tokio::time::timeout(PATIENCE, master.shutdown())
        .await
        .expect("stops in time");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    while agent.next().await.is_some() {}
    let gone = tokio::net::TcpStream::connect(web);
    let mut refused = gone.await.is_err();
    while !refused {
        // The admin thread ends by itself, a moment later.
        tokio::task::yield_now().await;
        assert!(began.elapsed() < PATIENCE);
        refused = tokio::net::TcpStream::connect(web).await.is_err();
    }
}
