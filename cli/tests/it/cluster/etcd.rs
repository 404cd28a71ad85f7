//! Clusters whose masters keep their records in an etcd that `interrex dev` starts.

use nix::sys::signal::Signal;

use crate::support::{
    Cluster, expect_code, expect_refusal, interrex, processes_of, run, signal, wait_for,
};

const ETCD: [&str; 4] = ["--engine", "etcd", "--respawn", "--agents"];

fn start(agents: &str) -> Cluster {
    Cluster::start(&[&ETCD[..], &[agents]].concat())
}

fn etcd_pid(cluster: &Cluster) -> Option<u32> {
    let pid = cluster.manifest()["etcd"]["pid"].as_u64();
    pid.and_then(|pid| u32::try_from(pid).ok())
}

#[test]
fn one_flag_puts_a_cluster_on_etcd_and_nothing_is_lost_when_its_leader_dies() {
    let mut cluster = start("1");
    assert!(
        cluster.greeting.contains("etcd store"),
        "{}",
        cluster.greeting
    );
    let before = cluster.submit(&["--", "sleep", "1000"]);
    cluster.wait_driver(&before, "RUNNING");
    let (old, epoch) = cluster.leader();
    cluster.signal(&old, Signal::SIGKILL);
    let during = cluster.submit(&["--", "true"]);
    // Perhaps the same master: once it is started again, it need not wait for the lease of its earlier life.
    let (new, later) = cluster.leader();
    assert!(later > epoch, "{new} leads in {later}, not after {epoch}");
    cluster.wait_driver(&during, "FINISHED");
    let status = cluster.json(&["status", &before]);
    assert_eq!(status["driver"]["state"], "RUNNING");
    assert_eq!(status["driver"]["attempt"], 1);
    let handed = cluster.run(&["cluster", "transfer-leader"]);
    expect_code(&handed, 0);
    expect_code(&cluster.run(&["kill", &before]), 0);
    let refused = cluster.run(&["cluster", "remove", "m1"]);
    expect_refusal(&refused, 4, &["no fixed list of masters"]);

    signal(cluster.dev_pid(), Signal::SIGINT);
    assert!(cluster.wait_dev().success(), "{}", cluster.dev_said());
    wait_for("every process is gone, etcd too", || {
        processes_of(cluster.dir()).is_empty().then_some(())
    });
    cluster.start_again(&[&ETCD[..], &["1"]].concat());
    let status = cluster.json(&["status", &during]);
    assert_eq!(
        status["driver"]["state"], "FINISHED",
        "records stay in etcd"
    );
}

#[test]
fn masters_outlive_their_etcd_and_go_on_when_it_is_back() {
    let cluster = start("1");
    let running = cluster.submit(&["--", "sleep", "1000"]);
    cluster.wait_driver(&running, "RUNNING");
    let masters: Vec<_> = ["m1", "m2", "m3"].map(|id| cluster.pid(id)).to_vec();
    let old = etcd_pid(&cluster).expect("it runs");
    signal(old, Signal::SIGKILL);
    // Asked while it is away, answered when it is back.
    let during = cluster.submit(&["--", "true"]);
    wait_for("dev starts it again", || {
        etcd_pid(&cluster).filter(|pid| *pid != old)
    });
    cluster.wait_driver(&during, "FINISHED");
    // Longer than a lease: nobody leads meanwhile, and nobody ends.
    let etcd = etcd_pid(&cluster).expect("it runs");
    let (_, epoch) = cluster.leader();
    signal(etcd, Signal::SIGSTOP);
    for web in cluster.addresses("web") {
        wait_for("every master says why it is not ready", || {
            let (code, said) = get(&web, "/readyz")?;
            (code == 503 && said.contains("etcd does not answer")).then_some(())
        });
    }
    signal(etcd, Signal::SIGCONT);
    let after = cluster.submit(&["--", "true"]);
    cluster.wait_driver(&after, "FINISHED");
    assert!(cluster.leader().1 > epoch, "a leadership that was given up");
    assert_eq!(
        masters,
        ["m1", "m2", "m3"].map(|id| cluster.pid(id)).to_vec()
    );
    let status = cluster.json(&["status", &running]);
    assert_eq!(status["driver"]["state"], "RUNNING");
    assert_eq!(status["driver"]["attempt"], 1);
}

#[test]
fn a_killed_dev_takes_its_etcd_along() {
    let mut cluster = start("0");
    assert!(etcd_pid(&cluster).is_some());
    signal(cluster.dev_pid(), Signal::SIGKILL);
    cluster.wait_dev();
    wait_for("every process is gone, etcd too", || {
        processes_of(cluster.dir()).is_empty().then_some(())
    });
}

#[test]
fn bad_options_of_etcd_are_refused_before_anything_starts() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("m1");
    let dir = dir.to_str().expect("UTF-8");
    let master = |options: &[&str]| {
        let own = ["master", "--id", "m1", "--data-dir", dir];
        run(interrex().args(own).args(options))
    };
    for (options, words) in [
        (
            &["--engine", "etcd", "--etcd-endpoints", "etcd"][..],
            &["etcd.endpoints", "`etcd`", "HOST:PORT"][..],
        ),
        (
            &["--engine", "etcd", "--etcd-lease", "1500ms"],
            &["etcd.lease", "1.5s", "whole seconds"],
        ),
        (
            &[
                "--engine",
                "etcd",
                "--etcd-endpoints",
                "https://e:1",
                "--etcd-ca",
                "/nonexistent",
            ],
            &["--etcd-ca", "/nonexistent"],
        ),
        (
            &["--etcd-endpoints", "127.0.0.1:2379"],
            &["--etcd-endpoints", "--engine etcd", "raft"],
        ),
    ] {
        expect_refusal(&master(options), 2, words);
    }
    assert!(!std::path::Path::new(dir).exists(), "nothing was touched");
}

/// Status and body of a plain GET.
fn get(address: &str, path: &str) -> Option<(u16, String)> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let code = answer.split(' ').nth(1)?.parse().ok()?;
    Some((code, answer))
}
