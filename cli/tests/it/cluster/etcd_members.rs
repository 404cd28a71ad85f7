//! Masters on an etcd of several members, each a process that the test starts: what becomes of them when members die or
//! the addresses of etcd change.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::place::{Place, Process};
use crate::support::{AtTheEnd, wait_for};

/// The members of one etcd cluster, by their numbers.
pub(super) struct EtcdMembers {
    dir: PathBuf,
    /// Where clients and other members find each of them.
    clients: Vec<String>,
    peers: Vec<String>,
    running: Vec<Option<Process>>,
}

// === impl EtcdMembers ===

impl EtcdMembers {
    /// So many new members, all of which answer; `None`, and a line that says so, where there is no etcd.
    pub(super) fn start(dir: &Path, count: usize) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|dir| dir.join("etcd").is_file()) {
            eprintln!("skipped: no `etcd` on PATH (Debian: apt-get install etcd-server)");
            return None;
        }
        let held: Vec<TcpListener> = (0..2 * count)
            .map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        let address = |l: &TcpListener| l.local_addr().expect("bound").to_string();
        let mut clients: Vec<String> = held.iter().map(address).collect();
        drop(held);
        let peers = clients.split_off(count);
        let mut members = Self {
            dir: dir.to_owned(),
            clients,
            peers,
            running: (0..count).map(|_| None).collect(),
        };
        (0..count).for_each(|n| members.up(n));
        (0..count).for_each(|n| members.wait_ready(n));
        Some(members)
    }

    /// Starts member `n`, with what it has stored.
    fn up(&mut self, n: usize) {
        let (client, peer) = (self.client_url(n), self.peer_url(n));
        let all: Vec<String> = (0..self.peers.len())
            .map(|n| format!("e{n}={}", self.peer_url(n)))
            .collect();
        let mut command = Command::new("etcd");
        command
            .arg("--data-dir")
            .arg(self.dir.join(format!("e{n}")));
        for (option, value) in [
            ("--name", format!("e{n}").as_str()),
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &all.join(",")),
            ("--log-level", "warn"),
        ] {
            command.args([option, value]);
        }
        let log = self.dir.join(format!("e{n}.log"));
        self.running[n] = Some(Process::start(command, log));
    }

    fn wait_ready(&self, n: usize) {
        wait_for(&format!("member e{n} knows a leader"), || {
            self.status(n)?["leader"].as_str().map(drop)
        });
    }

    fn client_url(&self, n: usize) -> String {
        format!("http://{}", self.clients[n])
    }

    fn peer_url(&self, n: usize) -> String {
        format!("http://{}", self.peers[n])
    }

    /// What masters are told of these members.
    pub(super) fn endpoints(&self, which: &[usize]) -> String {
        let endpoints: Vec<&str> = which.iter().map(|n| self.clients[*n].as_str()).collect();
        endpoints.join(",")
    }

    /// What member `n` says of itself, by etcd's JSON gateway; `None` while it does not answer.
    fn status(&self, n: usize) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.clients[n]).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        write!(
            stream,
            "POST /v3/maintenance/status HTTP/1.0\r\nHost: e\r\nContent-Length: 2\r\n\r\n{{}}"
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    /// The member that leads etcd.
    fn leader(&self) -> usize {
        wait_for("a leader of etcd", || {
            (0..self.clients.len()).find(|n| {
                let status = self.running[*n].as_ref().and_then(|_| self.status(*n));
                status.is_some_and(|s| s["leader"] == s["header"]["member_id"])
            })
        })
    }

    fn kill(&mut self, n: usize) {
        drop(self.running[n].take());
    }
}

/// Submissions one after the other, as fast as they are acknowledged.
#[derive(Default)]
struct Flow {
    acknowledged: AtomicUsize,
    stop: AtomicBool,
}

// === impl Flow ===

impl Flow {
    /// Submits until told to stop; the ids, and the longest that an answer has taken.
    fn run(&self, place: &Place) -> (Vec<String>, Duration) {
        let (mut ids, mut longest) = (Vec::new(), Duration::ZERO);
        while !self.stop.load(Ordering::Relaxed) {
            let id = format!("flow-{}", ids.len());
            let began = Instant::now();
            // Perhaps repeated by the command itself, which is told then that the first try had got through.
            place.submit(&id, &place.ledger_job(&id));
            longest = longest.max(began.elapsed());
            ids.push(id);
            self.acknowledged.store(ids.len(), Ordering::Relaxed);
        }
        (ids, longest)
    }

    /// Waits for so many more acknowledgements.
    fn wait_more(&self, count: usize) {
        let enough = self.acknowledged.load(Ordering::Relaxed) + count;
        wait_for("submissions go on", || {
            (self.acknowledged.load(Ordering::Relaxed) >= enough).then_some(())
        });
    }
}

/// Each of three members dies while submissions flow, the one that leads etcd first. Who leads our masters before and
/// after; `None` where there is no etcd.
fn members_die(lease: &str) -> Option<[(usize, u64); 2]> {
    let place = Place::new();
    let mut etcd = EtcdMembers::start(place.dir(), 3)?;
    let endpoints = etcd.endpoints(&[0, 1, 2]);
    let options = ["--engine", "etcd", "--etcd-endpoints", &endpoints];
    let options = [&options[..], &["--etcd-lease", lease]].concat();
    let masters = place.masters_with("m", 2, &options);
    let agent = place.agent();
    place.wait_alive();
    let before = place.leader();
    let flow = Flow::default();
    let (ids, longest) = std::thread::scope(|scope| {
        let _stop = AtTheEnd(&flow.stop);
        let submitting = scope.spawn(|| flow.run(&place));
        flow.wait_more(3);
        let first = etcd.leader();
        for n in [first, (first + 1) % 3, (first + 2) % 3] {
            etcd.kill(n);
            flow.wait_more(5);
            etcd.up(n);
            etcd.wait_ready(n);
        }
        flow.stop.store(true, Ordering::Relaxed);
        submitting.join().expect("every submission is acknowledged")
    });
    let after = place.leader();
    place.expect_each_once(&ids);
    eprintln!(
        "lease {lease}: {} submissions, the longest took {longest:?}; led {before:?}, then {after:?}",
        ids.len()
    );
    agent.stop();
    masters.stop();
    Some([before, after])
}

#[test]
fn a_member_of_etcd_that_dies_costs_no_leader_that_has_a_lease_long_enough() {
    // Longer than etcd takes to elect, however busy the machine is: so no change of our leader is excused.
    if let Some([before, after]) = members_die("10s") {
        assert_eq!(after, before, "the same leader in the same epoch");
    }
}

#[test]
fn a_member_of_etcd_that_dies_costs_no_submission_even_where_it_costs_a_leader() {
    if let Some([before, after]) = members_die("2s") {
        assert!(after.1 >= before.1, "epochs rise");
    }
}

#[test]
fn masters_go_over_to_other_addresses_of_etcd_one_by_one_and_jobs_run_on() {
    let place = Place::new();
    let Some(mut etcd) = EtcdMembers::start(place.dir(), 3) else {
        return;
    };
    let before = etcd.endpoints(&[0]);
    let options = ["--engine", "etcd", "--etcd-endpoints", before.as_str()];
    let mut masters = place.masters_with("m", 2, &options);
    let agent = place.agent();
    place.wait_alive();
    assert!(!place.submit("long", "sleep 1000"));
    place.wait_state("long", "RUNNING");
    let after = etcd.endpoints(&[1, 2]);
    masters.set_option("--etcd-endpoints", &after);
    for n in 0..2 {
        masters.stop_one(n);
        masters.start(n);
        let health = wait_for("the master is ready", || {
            let (code, said) = crate::support::get(place.web(n), "/readyz");
            (code == 200).then_some(said)
        });
        assert!(!health.is_empty());
    }
    // Nobody needs the old address any more.
    etcd.kill(0);
    place.wait_adopted("long");
    assert!(place.submit("long", "sleep 1000"), "it is known");
    place.submit("later", &place.ledger_job("later"));
    place.expect_each_once(&["later".to_owned()]);
    agent.stop();
    masters.stop();
}
