//! Spark's own protocol on a master's port: a driver by hand, with the bytes that a real one has sent.

use std::{
    fs,
    sync::atomic::{AtomicU16, Ordering},
};

use bytes::BytesMut;
use futures::{SinkExt, StreamExt};
use interrex_control_plane::{app::RunningMaster, runtime::Role};
use interrex_core::{ids::AppId, state::app::ApplicationState};
use interrex_persistence::memory::MemoryCluster;
use interrex_proto::v1::{self, master_frame, peer_frame};
use interrex_spark_wire::{
    Address, Envelope, Frame, FrameCodec, Value,
    dictionary::built_in,
    java::{Limits, read},
    view::View,
    writer::write,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::codec::{Encoder, Framed};

use crate::support::{
    PATIENCE, Peer, client, has_role, leads, register, sees,
    spark::{self, decode, message},
    start, submit,
};

/// Where the captured driver of Spark 3.5 listened: tests give each its own port.
const CAPTURED_PORT: [u8; 4] = 17_110_u32.to_be_bytes();

/// A driver: its connection to one master.
struct Driver {
    wire: Framed<TcpStream, FrameCodec>,
    port: u16,
}

/// A message that came to the driver.
struct Told {
    class: String,
    envelope: Envelope,
}

/// The bytes of a captured frame, of a driver that listens at `port`.
fn captured(name: &str, port: u16) -> Vec<u8> {
    let bytes = spark::captured(&format!("spark-35/{name}"));
    spark::replaced(&bytes, &CAPTURED_PORT, &u32::from(port).to_be_bytes())
}

/// A port that nobody listens at, and that is used once.
fn dead_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(2);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The same message about another application.
fn about(app: &AppId, name: &str, port: u16) -> Frame {
    let Frame::OneWay { body } = decode(&captured(name, port)) else {
        panic!("{name} comes one-way");
    };
    let mut envelope = message(body);
    let stream = envelope.payload.to_vec();
    // The last thing in the stream is the application's id: a tag, a length, the text.
    let old = stream.iter().rposition(|b| *b == b't').expect("a string");
    let start = (0..=old).rev().find(|at| {
        let length = stream.len() - at;
        length > 3
            && stream[*at] == b't'
            && usize::from(u16::from_be_bytes([stream[at + 1], stream[at + 2]])) == length - 3
    });
    let mut changed = stream[..start.expect("the last string")].to_vec();
    changed.push(b't');
    changed.extend(
        u16::try_from(app.as_str().len())
            .expect("short")
            .to_be_bytes(),
    );
    changed.extend(app.as_str().as_bytes());
    envelope.payload = changed.into();
    Frame::OneWay {
        body: envelope.encode().expect("short"),
    }
}

impl Driver {
    async fn connect(master: &RunningMaster, port: u16) -> Self {
        let socket = TcpStream::connect(master.rpc_addr).await.expect("a master");
        Self::over(socket, port)
    }

    fn over(socket: TcpStream, port: u16) -> Self {
        Self {
            wire: Framed::new(socket, FrameCodec::default()),
            port,
        }
    }

    async fn say(&mut self, name: &str) {
        let frame = decode(&captured(name, self.port));
        self.wire.send(frame).await.expect("the master reads");
    }

    async fn next(&mut self) -> Frame {
        let next = timeout(PATIENCE, self.wire.next())
            .await
            .expect("a frame in time");
        next.expect("an open connection").expect("a frame")
    }

    /// Skips messages until one of this class comes.
    async fn told(&mut self, class: &str) -> Told {
        loop {
            if let Frame::OneWay { body } = self.next().await {
                let envelope = message(body);
                let graph = read(&envelope.payload, &Limits::default()).expect("a stream");
                let found = View::root(&graph).class().expect("an object").to_owned();
                if found.ends_with(&format!("${class}")) {
                    return Told {
                        class: found,
                        envelope,
                    };
                }
            }
        }
    }

    async fn greet(&mut self) {
        self.say("1-app-m17077-c1-f001-CheckExistence").await;
        assert!(matches!(self.next().await, Frame::Response { .. }));
    }

    async fn ask_in(&mut self) {
        self.say("1-app-m17077-c1-f002-RegisterApplication").await;
    }

    /// Registers with a leader.
    async fn registered(&mut self) -> AppId {
        self.ask_in().await;
        self.told("RegisteredApplication").await.app_id()
    }

    /// Until the master closes the connection.
    async fn closed(&mut self) {
        while timeout(PATIENCE, self.wire.next())
            .await
            .expect("closed in time")
            .is_some()
        {}
    }
}

impl Told {
    fn text(&self, field: &'static str) -> String {
        let graph = read(&self.envelope.payload, &Limits::default()).expect("a stream");
        let field = View::root(&graph).field(field).and_then(View::text);
        field
            .unwrap_or_else(|e| panic!("{}: {e}", self.class))
            .to_owned()
    }

    fn app_id(&self) -> AppId {
        AppId::new(self.text("appId"))
    }
}

/// An agent that offers Spark 3.5.
async fn spark_agent(master: &RunningMaster) -> Peer {
    let peer_frame::Body::RegisterWorker(mut registration) = register("w1", vec![]) else {
        panic!("a registration")
    };
    registration
        .spec
        .as_mut()
        .expect("a description")
        .capabilities = vec!["spark-3.5".to_owned()];
    let mut agent = Peer::attach(master, peer_frame::Body::RegisterWorker(registration)).await;
    agent.registered().await;
    agent
}

async fn leader() -> RunningMaster {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    master
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_registers_gets_executors_and_says_goodbye() {
    let master = leader().await;
    let mut agent = spark_agent(&master).await;
    let mut driver = Driver::connect(&master, dead_port()).await;
    driver.greet().await;
    let app = driver.registered().await;
    let added = driver.told("ExecutorAdded").await;
    assert_eq!(added.text("workerId"), "w1");
    // The sender is the address that the driver will know its master by.
    assert_eq!(
        added.envelope.sender.expect("a sender").port,
        master.rpc_addr.port()
    );
    assert_eq!(added.envelope.endpoint, "AppClient");
    let launch = agent
        .wait("launch executor", |_, body| match body {
            master_frame::Body::LaunchExecutor(launch) => Some(launch),
            _ => None,
        })
        .await;
    assert_eq!(launch.app_id, app.as_str());
    let command = launch.command.expect("a command");
    assert_eq!(command.program, "{{JAVA}}");
    assert!(
        command
            .args
            .iter()
            .any(|a| a.ends_with("CoarseGrainedExecutorBackend"))
    );
    let goodbye = about(
        &app,
        "1-app-m17077-c1-f003-UnregisterApplication",
        driver.port,
    );
    driver.wire.send(goodbye).await.expect("the master reads");
    let finished = |view: &interrex_control_plane::runtime::ClusterView| {
        view.app(&app)
            .is_some_and(|a| a.state == ApplicationState::Finished)
    };
    sees(&master.handle, "the application is finished", finished).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_agent_of_its_line_an_application_waits() {
    let master = leader().await;
    let (_agent, _) = Peer::agent(&master, "w1").await;
    let mut driver = Driver::connect(&master, dead_port()).await;
    let app = driver.registered().await;
    let id = app.to_string();
    let explained = client(&master).explain(v1::ExplainRequest { id }).await;
    let summary = explained.expect("known").into_inner().summary;
    assert!(summary.contains("spark-3.5"), "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_that_is_repeated_is_one_application() {
    let master = leader().await;
    let mut driver = Driver::connect(&master, dead_port()).await;
    let first = driver.registered().await;
    assert_eq!(driver.registered().await, first);
    // The answer was lost with the connection.
    let mut again = Driver::connect(&master, driver.port).await;
    assert_eq!(again.registered().await, first);
    let mut other = Driver::connect(&master, dead_port()).await;
    assert_ne!(other.registered().await, first);
    assert_eq!(master.handle.view().apps().count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_driver_started_anew_is_another_application() {
    let master = leader().await;
    let mut driver = Driver::connect(&master, dead_port()).await;
    let first = driver.registered().await;
    let goodbye = about(
        &first,
        "1-app-m17077-c1-f003-UnregisterApplication",
        driver.port,
    );
    driver.wire.send(goodbye).await.expect("the master reads");
    let over = |view: &interrex_control_plane::runtime::ClusterView| {
        view.app(&first).is_some_and(|a| a.state.is_final())
    };
    sees(&master.handle, "the first is over", over).await;
    let mut again = Driver::connect(&master, driver.port).await;
    assert_ne!(again.registered().await, first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_whose_driver_has_gone_ends() {
    let master = leader().await;
    let mut driver = Driver::connect(&master, dead_port()).await;
    let app = driver.registered().await;
    drop(driver);
    let failed = |view: &interrex_control_plane::runtime::ClusterView| {
        view.app(&app)
            .is_some_and(|a| a.state == ApplicationState::Failed)
    };
    let view = sees(&master.handle, "the application has failed", failed).await;
    let message = &view.app(&app).expect("known").message;
    assert!(message.contains("gone without unregistering"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_lost_only_its_connection_is_called() {
    let master = leader().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mut driver = Driver::connect(&master, port).await;
    let app = driver.registered().await;
    drop(driver);
    let (socket, _) = timeout(PATIENCE, listener.accept())
        .await
        .expect("called in time")
        .expect("a call");
    let mut driver = Driver::over(socket, port);
    driver.told("MasterChanged").await;
    let accepted = about(
        &app,
        "2-failoverB-m17078-c3-f001-MasterChangeAcknowledged",
        port,
    );
    driver.wire.send(accepted).await.expect("the master reads");
    // It is attached: what concerns it comes here.
    let kill = v1::KillRequest {
        request_id: "k".to_owned(),
        id: app.to_string(),
    };
    client(&master).kill(kill).await.expect("killed");
    let removed = driver.told("ApplicationRemoved").await;
    assert!(
        removed.text("message").contains("killed"),
        "{}",
        removed.text("message")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_speaks_on_the_connection_that_the_driver_has_to_it() {
    follows(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_follows_hears_of_the_executors_it_got_meanwhile() {
    follows(true).await;
}

/// A driver follows to a new leader and gets an executor there, maybe before it has answered the leader's call.
async fn follows(gets_it_first: bool) {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let port = dead_port();
    let mut to_second = Driver::connect(&second, port).await;
    to_second.greet().await;
    to_second.ask_in().await;
    let mut to_first = Driver::connect(&first, port).await;
    let app = to_first.registered().await;
    cluster.depose();
    leads(&second).await;
    let changed = to_second.told("MasterChanged").await;
    assert_eq!(
        changed.envelope.sender.expect("a sender").port,
        second.rpc_addr.port()
    );
    let mut agent = None;
    if gets_it_first {
        agent = Some(spark_agent(&second).await);
        let has_one = |view: &interrex_control_plane::runtime::ClusterView| {
            view.executors_of(&app).next().is_some()
        };
        sees(&second.handle, "an executor", has_one).await;
    }
    let accepted = about(
        &app,
        "2-failoverB-m17078-c3-f001-MasterChangeAcknowledged",
        port,
    );
    to_second
        .wire
        .send(accepted)
        .await
        .expect("the master reads");
    // It does not expire with those that do not come back, and gets what is new.
    if agent.is_none() {
        agent = Some(spark_agent(&second).await);
    }
    to_second.told("ExecutorAdded").await;
    // That the old leader's connection ends says nothing any more.
    drop(to_first);
    let goodbye = about(
        &app,
        "2-failoverB-m17078-c3-f002-UnregisterApplication",
        port,
    );
    to_second
        .wire
        .send(goodbye)
        .await
        .expect("the master reads");
    let finished = |view: &interrex_control_plane::runtime::ClusterView| {
        view.app(&app)
            .is_some_and(|a| a.state == ApplicationState::Finished)
    };
    sees(&second.handle, "the application is finished", finished).await;
    drop(agent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_dials_a_driver_that_has_no_connection_to_it() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mut to_first = Driver::connect(&first, port).await;
    let app = to_first.registered().await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    cluster.depose();
    leads(&second).await;
    // The old leader may call, too, while it still believes that it leads.
    let accepted = about(
        &app,
        "2-failoverB-m17078-c3-f001-MasterChangeAcknowledged",
        port,
    );
    loop {
        let (socket, _) = timeout(PATIENCE, listener.accept())
            .await
            .expect("called in time")
            .expect("a call");
        let mut driver = Driver::over(socket, port);
        let changed = driver.told("MasterChanged").await;
        if changed.envelope.sender.expect("a sender").port != second.rpc_addr.port() {
            continue;
        }
        driver.wire.send(accepted).await.expect("the master reads");
        let _agent = spark_agent(&second).await;
        driver.told("ExecutorAdded").await;
        return;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_whose_leader_died_before_it_answered_is_told_by_the_next() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let port = dead_port();
    let mut driver = Driver::connect(&second, port).await;
    driver.greet().await;
    driver.ask_in().await;
    driver.greet().await;
    let app = Driver::connect(&first, port).await.registered().await;
    cluster.depose();
    leads(&second).await;
    driver.told("MasterChanged").await;
    // It answers without the id that it has not heard.
    let class = "org.apache.spark.deploy.DeployMessages$MasterChangeAcknowledged";
    let nameless = Value::Object(class, vec![("appId", Value::Null)]);
    let payload = write(&nameless, &built_in()[0]).expect("a known class");
    let sent = Envelope {
        sender: Some(Address::new("127.0.0.1", port)),
        receiver: Some(Address::new("127.0.0.1", 7077)),
        endpoint: "Master".to_owned(),
        payload: payload.into(),
    };
    let body = sent.encode().expect("short");
    let sent = driver.wire.send(Frame::OneWay { body }).await;
    sent.expect("the master reads");
    let registered = driver.told("RegisteredApplication").await;
    assert_eq!(registered.app_id(), app);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_registration_that_no_leader_has_answered_is_taken_up_by_the_next() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let mut driver = Driver::connect(&second, dead_port()).await;
    driver.greet().await;
    driver.ask_in().await;
    // Answered, so the registration before it has been read.
    driver.greet().await;
    cluster.depose();
    leads(&second).await;
    driver.told("RegisteredApplication").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_answered_in_words_or_closed_and_nothing_else_notices() {
    let master = leader().await;
    for name in [
        "spark41-spark.authenticate-first-frame.bin",
        "spark41-network.crypto-first-frame.bin",
    ] {
        let bytes = fs::read(spark::captures().join("auth").join(name)).expect("a capture");
        let mut driver = Driver::connect(&master, 1).await;
        driver
            .wire
            .send(decode(&bytes))
            .await
            .expect("the master reads");
        let Frame::Failure { text, .. } = driver.next().await else {
            panic!("{name} was answered otherwise");
        };
        assert!(text.contains("spark.authenticate"), "{text}");
    }
    // A build that nobody knows: one bit of a serial version UID is another.
    let mut unknown = captured("1-app-m17077-c1-f001-CheckExistence", 1);
    let name = b"$CheckExistence";
    let at = unknown
        .windows(name.len())
        .position(|w| w == name)
        .expect("its name")
        + name.len();
    unknown[at] ^= 1;
    let mut driver = Driver::connect(&master, 1).await;
    driver
        .wire
        .send(decode(&unknown))
        .await
        .expect("the master reads");
    let Frame::Failure { text, .. } = driver.next().await else {
        panic!("an unknown build was welcomed");
    };
    assert!(
        text.contains("not known") && text.contains("3.5, 4.0, 4.1"),
        "{text}"
    );
    // Too long, cut, garbage behind a good length.
    let good = captured("1-app-m17077-c1-f002-RegisterApplication", 1);
    let mut garbage = good.clone();
    garbage[40..].fill(0xff);
    for bytes in [
        &[0, 0, 0, 1, 0, 0, 0, 0][..],
        &garbage,
        &[0, 0, 0, 0, 0, 0, 0, 9, 77],
    ] {
        let mut driver = Driver::connect(&master, 1).await;
        driver.wire.get_mut().write_all(bytes).await.expect("room");
        driver.closed().await;
    }
    // In the middle of a frame.
    let mut socket = TcpStream::connect(master.rpc_addr).await.expect("a master");
    socket.write_all(&good[..100]).await.expect("room");
    drop(socket);
    let mut socket = TcpStream::connect(master.rpc_addr).await.expect("a master");
    socket
        .write_all(b"GET / HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n")
        .await
        .expect("room");
    let mut answer = String::new();
    timeout(PATIENCE, socket.read_to_string(&mut answer))
        .await
        .expect("in time")
        .expect("text");
    assert!(
        answer.starts_with("HTTP/1.1 4") && answer.contains("/v1/submissions/"),
        "{answer}"
    );
    submit(&mut client(&master), "still-here").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_its_own_driver_ends_an_application() {
    let master = leader().await;
    let mut driver = Driver::connect(&master, dead_port()).await;
    let app = driver.registered().await;
    let mut stranger = Driver::connect(&master, dead_port()).await;
    let theirs = stranger.registered().await;
    let goodbye = about(
        &app,
        "1-app-m17077-c1-f003-UnregisterApplication",
        stranger.port,
    );
    stranger.wire.send(goodbye).await.expect("the master reads");
    let own = about(
        &theirs,
        "1-app-m17077-c1-f003-UnregisterApplication",
        stranger.port,
    );
    stranger.wire.send(own).await.expect("the master reads");
    let over = |view: &interrex_control_plane::runtime::ClusterView| {
        view.app(&theirs).is_some_and(|a| a.state.is_final())
    };
    let view = sees(&master.handle, "the stranger's own is over", over).await;
    assert!(view.app(&app).is_some_and(|a| !a.state.is_final()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_whose_driver_died_while_nobody_led_ends() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let mut driver = Driver::connect(&first, dead_port()).await;
    let app = driver.registered().await;
    cluster.depose();
    drop(driver);
    leads(&second).await;
    let failed = |view: &interrex_control_plane::runtime::ClusterView| {
        view.app(&app)
            .is_some_and(|a| a.state == ApplicationState::Failed)
    };
    let view = sees(&second.handle, "the application has failed", failed).await;
    let message = &view.app(&app).expect("known").message;
    assert!(message.contains("without unregistering"), "{message}");
}

/// A text in the answer to a submission client.
fn text_of(answer: Frame, field: &'static str) -> String {
    let Frame::Response { body, .. } = answer else {
        panic!("{answer:?}");
    };
    let graph = read(&body, &Limits::default()).expect("a stream");
    let field = View::root(&graph).field(field).expect("a field");
    match field.option() {
        Ok(Some(inner)) => inner.text().unwrap_or("an object").to_owned(),
        Ok(None) => String::new(),
        Err(_plain) => field.text().expect("a text").to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_in_cluster_mode_is_taken_by_the_leader_alone() {
    let cluster = MemoryCluster::new();
    let master = start(&cluster, "m1");
    leads(&master).await;
    let standby = start(&cluster, "m2");
    has_role(&standby, Role::Standby).await;
    let submit = "4-cluster-m17077-c1-f002-RequestSubmitDriver";
    let mut client = Driver::connect(&standby, 1).await;
    client.greet().await;
    client.say(submit).await;
    let refused = text_of(client.next().await, "message");
    // What Spark's client passes over.
    assert!(
        refused.starts_with("Current state is not alive"),
        "{refused}"
    );
    let mut client = Driver::connect(&master, 1).await;
    client.greet().await;
    client.say(submit).await;
    let id = text_of(client.next().await, "driverId");
    let view = master.handle.view();
    let driver = view.driver(&id.as_str().into()).expect("recorded");
    assert_eq!(driver.spec.name, "org.example.Main");
    assert!(driver.spec.supervise);
    client
        .say("4-cluster-m17077-c1-f003-RequestDriverStatus")
        .await;
    // The captured id is another cluster's.
    let Frame::Response { body, .. } = client.next().await else {
        panic!("no status");
    };
    let graph = read(&body, &Limits::default()).expect("a stream");
    assert_eq!(
        View::root(&graph).field("found").and_then(View::boolean),
        Ok(false)
    );
    client
        .say("4-cluster-m17077-c2-f002-RequestKillDriver")
        .await;
    let unknown = text_of(client.next().await, "message");
    assert!(unknown.contains("driver-"), "{unknown}");
}

#[test]
fn a_frame_of_a_driver_is_changed_in_its_port_alone() {
    let frame = decode(&captured("1-app-m17077-c1-f002-RegisterApplication", 4711));
    let mut bytes = BytesMut::new();
    FrameCodec::default()
        .encode(frame.clone(), &mut bytes)
        .expect("it fits");
    let Frame::OneWay { body } = frame else {
        panic!("it comes one-way");
    };
    assert_eq!(message(body).sender.expect("a sender").port, 4711);
}
