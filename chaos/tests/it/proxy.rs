//! The fault proxy: each fault does what it says, to its link and to no other.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use interrex_chaos::live::proxy::{Callers, Flow, Links, Proxy, Rule, STRANGER, Way};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// How long anything that must happen may take: the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long is waited for what must not happen.
const NOTHING: Duration = Duration::from_millis(300);

/// A server that sends back what it gets, behind a proxy; this process is node `c1`.
struct Bench {
    proxy: Proxy,
    links: Links,
}

impl Bench {
    async fn new() -> Self {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = server.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = server.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await.ok();
                });
            }
        });
        Self::before(target).await
    }

    async fn before(target: SocketAddr) -> Self {
        let (links, callers) = (Links::default(), Callers::default());
        callers.set("c1", std::process::id());
        let at = "127.0.0.2:0".parse().unwrap();
        let proxy = Proxy::start(at, "m1", target, &links, &callers)
            .await
            .unwrap();
        Self { proxy, links }
    }

    async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.proxy.address()).await.unwrap()
    }

    fn rule(&self, rule: Rule) {
        self.links.set("c1", "m1", rule);
    }

    /// Waits until the link has done something.
    async fn touched(&self) {
        wait_for(|| self.links.traffic("c1", "m1").touched > 0).await;
    }
}

async fn wait_for(mut condition: impl FnMut() -> bool) {
    let waited = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(DEADLINE, waited).await.unwrap();
}

/// Sends and waits for the same to come back.
async fn echo(stream: &mut TcpStream, words: &[u8]) {
    stream.write_all(words).await.unwrap();
    expect(stream, words).await;
}

async fn expect(stream: &mut TcpStream, words: &[u8]) {
    let mut back = vec![0; words.len()];
    timeout(DEADLINE, stream.read_exact(&mut back))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(back, words);
}

/// Nothing arrives.
async fn silent(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = timeout(NOTHING, stream.read(&mut byte)).await;
    assert!(read.is_err(), "something arrived: {read:?}");
}

#[tokio::test]
async fn bytes_pass_unchanged_and_are_counted_for_the_one_who_dials() {
    let bench = Bench::new().await;
    let mut stream = bench.dial().await;
    let many: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let (mut read, mut write) = stream.split();
    let mut back = vec![0; many.len()];
    let both = async { tokio::join!(write.write_all(&many), read.read_exact(&mut back)) };
    let (written, received) = timeout(DEADLINE, both).await.unwrap();
    written.unwrap();
    received.unwrap();
    assert_eq!(back, many);
    let traffic = bench.links.traffic("c1", "m1");
    assert_eq!((traffic.connections, traffic.touched), (1, 0));
    assert_eq!((traffic.forth, traffic.back), (200_000, 200_000));
    assert_eq!(bench.links.traffic(STRANGER, "m1").connections, 0);
}

#[tokio::test]
async fn the_end_of_a_stream_passes_like_its_bytes() {
    let bench = Bench::new().await;
    let mut stream = bench.dial().await;
    echo(&mut stream, b"last words").await;
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    let read = timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
    assert_eq!(read.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn over_a_cut_link_nothing_arrives_until_it_is_mended() {
    let bench = Bench::new().await;
    let mut stream = bench.dial().await;
    echo(&mut stream, b"before").await;
    bench.rule(Rule::CUT);
    stream.write_all(b"held").await.unwrap();
    silent(&mut stream).await;
    let mut new = bench.dial().await;
    new.write_all(b"new").await.unwrap();
    silent(&mut new).await;
    assert_eq!(bench.links.traffic("c1", "m1").connections, 1);
    bench.rule(Rule::default());
    expect(&mut stream, b"held").await;
    expect(&mut new, b"new").await;
}

#[tokio::test]
async fn a_rule_is_for_its_link_only() {
    let bench = Bench::new().await;
    bench.links.set("w1", "m1", Rule::CUT);
    bench.links.set("c1", "m2", Rule::CUT);
    let mut stream = bench.dial().await;
    echo(&mut stream, b"mine").await;
}

#[tokio::test]
async fn one_way_requests_arrive_and_answers_do_not() {
    let bench = Bench::new().await;
    let mut stream = bench.dial().await;
    bench.rule(Rule::NO_ANSWERS);
    stream.write_all(b"question").await.unwrap();
    wait_for(|| bench.links.traffic("c1", "m1").forth == 8).await;
    silent(&mut stream).await;
    assert_eq!(bench.links.traffic("c1", "m1").back, 0);
    bench.rule(Rule::default());
    expect(&mut stream, b"question").await;
}

#[tokio::test]
async fn a_half_open_connection_stays_silent_for_good_and_a_new_one_works() {
    let bench = Bench::new().await;
    let mut stream = bench.dial().await;
    echo(&mut stream, b"before").await;
    bench.rule(Rule::HALF_OPEN);
    stream.write_all(b"gone").await.unwrap();
    bench.touched().await;
    bench.rule(Rule::default());
    stream.write_all(b"gone too").await.unwrap();
    silent(&mut stream).await;
    let mut new = bench.dial().await;
    echo(&mut new, b"works").await;
}

#[tokio::test]
async fn what_is_late_is_late_by_that_much_and_in_order() {
    let bench = Bench::new().await;
    let mut stream = bench.dial().await;
    echo(&mut stream, b"before").await;
    let late = Duration::from_millis(150);
    bench.rule(Rule::both(Way::late(late)));
    let began = Instant::now();
    stream.write_all(b"one").await.unwrap();
    stream.write_all(b"two").await.unwrap();
    expect(&mut stream, b"onetwo").await;
    assert!(began.elapsed() >= late * 2, "{:?}", began.elapsed());
    bench.touched().await;
}

#[tokio::test]
async fn a_narrow_link_takes_its_time() {
    let bench = Bench::new().await;
    let mut stream = bench.dial().await;
    let narrow = Rule {
        forth: Way::slow(20_000),
        ..Rule::default()
    };
    bench.rule(narrow);
    let began = Instant::now();
    let words = vec![7; 10_000];
    echo(&mut stream, &words).await;
    let least = Duration::from_millis(450);
    assert!(began.elapsed() >= least, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_reset_ends_connections_that_are_open_and_no_later_ones() {
    let bench = Bench::new().await;
    let mut stream = bench.dial().await;
    echo(&mut stream, b"before").await;
    bench.links.reset("c1", "m1");
    let mut byte = [0];
    let read = timeout(DEADLINE, stream.read(&mut byte)).await.unwrap();
    let error = read.expect_err("a reset, not an end in order");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let mut new = bench.dial().await;
    echo(&mut new, b"works").await;
}

#[tokio::test]
async fn a_link_that_refuses_resets_who_dials() {
    let bench = Bench::new().await;
    bench.rule(Rule {
        refuse: true,
        ..Rule::default()
    });
    let mut stream = bench.dial().await;
    let mut byte = [0];
    let read = timeout(DEADLINE, stream.read(&mut byte)).await.unwrap();
    assert!(read.is_err(), "{read:?}");
}

#[tokio::test]
async fn a_server_that_is_gone_looks_gone() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = nobody.local_addr().unwrap();
    drop(nobody);
    let bench = Bench::before(target).await;
    let mut stream = bench.dial().await;
    let mut byte = [0];
    let read = timeout(DEADLINE, stream.read(&mut byte)).await.unwrap();
    assert!(read.is_err(), "{read:?}");
}

#[tokio::test]
async fn a_direction_that_only_holds_keeps_the_other_one_open() {
    let bench = Bench::new().await;
    let mut stream = bench.dial().await;
    echo(&mut stream, b"before").await;
    bench.rule(Rule {
        forth: Way {
            flow: Flow::Hold,
            ..Way::default()
        },
        ..Rule::default()
    });
    stream.write_all(b"held").await.unwrap();
    silent(&mut stream).await;
    bench.rule(Rule::default());
    expect(&mut stream, b"held").await;
}
