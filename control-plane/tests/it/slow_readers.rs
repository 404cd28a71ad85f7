//! Whoever scrapes and does not read costs neither commits nor other scrapers anything.

use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use crate::rest_support::{Cluster, command_body, create, leads, patient};
use interrex_control_plane::app::RunningMaster;

/// Readers that ask and do not read.
const READERS: usize = 200;
/// What each of them asks for at once: far more than sockets hold.
const ASKED: usize = 30;
/// Submissions in one row.
const ROW: usize = 40;

#[tokio::test]
async fn two_hundred_readers_that_do_not_read_slow_no_commit_down() {
    // Not installed: only what is put into it here is shown, and that is a lot.
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        for number in 0..2_000 {
            metrics::counter!("series_of_a_large_cluster_total", "number" => number.to_string())
                .increment(1);
        }
    });
    let cluster = Cluster::default();
    let master = cluster.start_measured("m1", patient(), Some(recorder.handle()));
    leads(&master.handle).await;
    row(&master, "warm").await;

    let mut readers = Vec::new();
    let mut quiet = row(&master, "quiet").await;
    for _ in 0..READERS {
        readers.push(a_reader_that_does_not_read(&master).await);
    }
    let (scraped, took) = scrape(&master).await;
    assert!(scraped.len() > 50_000, "{} bytes", scraped.len());
    assert!(
        took < Duration::from_secs(10),
        "a good reader waited for {took:?}"
    );
    let mut slow = row(&master, "slow").await;
    // Once more in turns, so that what else the machine does meets both.
    drop(std::mem::take(&mut readers));
    quiet.extend(row(&master, "quiet-again").await);
    for _ in 0..READERS {
        readers.push(a_reader_that_does_not_read(&master).await);
    }
    slow.extend(row(&master, "slow-again").await);

    let (quiet, slow) = (median(quiet), median(slow));
    let bound = quiet * 3 + Duration::from_millis(5);
    assert!(
        slow <= bound,
        "a submission takes {slow:?} instead of {quiet:?}"
    );
}

/// Times of some submissions, one after the other; each is a commit.
async fn row(master: &RunningMaster, name: &str) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 0..ROW {
        let began = Instant::now();
        let answer = create(master, &format!("{name}-{number}"), &command_body()).await;
        times.push(began.elapsed());
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    times
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn a_reader_that_does_not_read(master: &RunningMaster) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(master.web_addr).await.expect("a connection");
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(ASKED);
    stream.write_all(request.as_bytes()).await.expect("asked");
    stream
}

async fn scrape(master: &RunningMaster) -> (String, Duration) {
    let began = Instant::now();
    let mut stream = TcpStream::connect(master.web_addr)
        .await
        .expect("a connection");
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    (answer, began.elapsed())
}
