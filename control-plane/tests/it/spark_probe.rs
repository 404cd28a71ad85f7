//! Drivers and clients of builds of Spark that no master knows, which are asked what their classes look like: by hand,
//! with the bytes that real ones have sent, but for the UIDs of Spark's classes.

use std::sync::atomic::{AtomicU16, Ordering};

use futures::{SinkExt, StreamExt};
use interrex_control_plane::{app::RunningMaster, runtime::Role};
use interrex_persistence::{faulty::Faults, memory::MemoryCluster};
use interrex_proto::v1::{master_frame, peer_frame};
use interrex_spark_wire::{
    Frame, FrameCodec,
    java::{Graph, Limits, read},
    view::View,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::codec::Framed;

use crate::support::{
    PATIENCE, Peer, has_role, leads, register,
    spark::{captured, decode, envelope, replaced},
    start_configured,
};

const CHECK: &str = "spark-35/1-app-m17077-c1-f001-CheckExistence";
const REGISTER: &str = "spark-35/1-app-m17077-c1-f002-RegisterApplication";
/// Where the captured driver listened.
const CAPTURED_PORT: [u8; 4] = 17_110_u32.to_be_bytes();
/// What is changed in each UID of the unknown build.
const CHANGED: i64 = 0x55;

/// A peer whose classes have other UIDs than those of any build that is known; it says so when it is asked.
struct Stranger {
    wire: Framed<TcpStream, FrameCodec>,
    port: u16,
    /// How the UIDs of Spark's classes differ from those of the captured build.
    changed: i64,
    /// Classes that it was asked for.
    asked: Vec<String>,
}

fn is_sparks(class: &str) -> bool {
    class.starts_with("org.apache.spark.")
}

/// The port of a driver: nobody listens there, and it is used once.
fn dead_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(600);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn graph(stream: &[u8]) -> Graph {
    read(stream, &Limits::default()).expect("a stream")
}

impl Stranger {
    async fn connect(master: &RunningMaster, port: u16) -> Self {
        let socket = TcpStream::connect(master.rpc_addr).await.expect("a master");
        Self::over(socket, port)
    }

    fn over(socket: TcpStream, port: u16) -> Self {
        Self {
            wire: Framed::new(socket, FrameCodec::default()),
            port,
            changed: CHANGED,
            asked: Vec::new(),
        }
    }

    /// A captured message, as this build would have sent it.
    fn message(&self, name: &str) -> Frame {
        let port = u32::from(self.port).to_be_bytes();
        let mut bytes = replaced(&captured(name), &CAPTURED_PORT, &port);
        let sent = envelope(&decode(&bytes)).expect("a message");
        for class in graph(&sent.payload).classes() {
            if is_sparks(&class.name) {
                let mut old = class.name.as_bytes().to_vec();
                let mut new = old.clone();
                old.extend(class.suid.to_be_bytes());
                new.extend((class.suid ^ self.changed).to_be_bytes());
                bytes = replaced(&bytes, &old, &new);
            }
        }
        decode(&bytes)
    }

    async fn say(&mut self, name: &str) {
        let frame = self.message(name);
        self.wire.send(frame).await.expect("the master reads");
    }

    /// The next frame that is no question, with questions answered by `answer`: class and what its UID is.
    async fn next_but(&mut self, answer: impl Fn(&str, i64) -> String) -> Frame {
        loop {
            let next = timeout(PATIENCE, self.wire.next()).await;
            let frame = next
                .expect("in time")
                .expect("an open connection")
                .expect("a frame");
            let Frame::Request { id, .. } = &frame else {
                return frame;
            };
            let question = graph(&envelope(&frame).expect("a message").payload);
            let class = question.classes().first().expect("a class").name.clone();
            let known = interrex_spark_wire::dictionary::built_in();
            let build = if self.changed == 0 { 2 } else { 0 };
            let suid = known[build].class(&class).expect("a known class").suid;
            let changed = if is_sparks(&class) { self.changed } else { 0 };
            let text = answer(&class, suid ^ changed);
            self.asked.push(class);
            let id = *id;
            let sent = self.wire.send(Frame::Failure { id, text }).await;
            sent.expect("the master reads");
        }
    }

    async fn next(&mut self) -> Frame {
        self.next_but(|class, suid| {
            format!(
                "java.io.InvalidClassException: {class}; local class incompatible: stream classdesc serialVersionUID = \
                 1, local class serialVersionUID = {suid}\n\tat somewhere"
            )
        })
        .await
    }

    /// Skips messages until one of this class comes; its UID is checked.
    async fn told(&mut self, class: &str) -> Graph {
        loop {
            let frame = self.next().await;
            let Some(envelope) = envelope(&frame) else {
                continue;
            };
            let graph = graph(&envelope.payload);
            let name = View::root(&graph).class().expect("an object").to_owned();
            if name.ends_with(&format!("${class}")) {
                let known = &interrex_spark_wire::dictionary::built_in()[0];
                let suid = graph.classes().iter().find(|c| c.name == name);
                let expected = known.class(&name).expect("known").suid ^ self.changed;
                assert_eq!(suid.expect("its class").suid, expected);
                return graph;
            }
        }
    }

    async fn greet(&mut self) -> Frame {
        self.say(CHECK).await;
        self.next().await
    }
}

fn text(graph: &Graph, field: &'static str) -> String {
    let text = View::root(graph).field(field).and_then(View::text);
    text.expect("text").to_owned()
}

fn probing(cluster: &MemoryCluster, id: &str) -> RunningMaster {
    start_configured(cluster, id, &Faults::calm(), |options| {
        options.spark_probe = true;
    })
}

/// An agent that offers these installations by names of their own.
async fn agent(master: &RunningMaster, names: &[&str]) -> Peer {
    let peer_frame::Body::RegisterWorker(mut registration) = register("w1", vec![]) else {
        panic!("a registration")
    };
    let spec = registration.spec.as_mut().expect("a description");
    spec.capabilities = names.iter().map(|name| format!("spark-{name}")).collect();
    Peer::attach(master, peer_frame::Body::RegisterWorker(registration)).await
}

async fn leader_with(names: &[&str]) -> (RunningMaster, Peer) {
    let master = probing(&MemoryCluster::new(), "m1");
    leads(&master).await;
    let mut agent = agent(&master, names).await;
    agent.registered().await;
    (master, agent)
}

fn refusal(frame: Frame) -> String {
    match frame {
        Frame::Failure { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_of_an_unknown_build_is_asked_once_and_runs_where_its_name_is_offered() {
    let (master, mut agent) = leader_with(&["acme"]).await;
    let mut driver = Stranger::connect(&master, dead_port()).await;
    assert!(matches!(driver.greet().await, Frame::Response { .. }));
    driver.say(REGISTER).await;
    let registered = driver.told("RegisteredApplication").await;
    assert_eq!(driver.asked.len(), 7, "{:?}", driver.asked);
    driver.told("ExecutorAdded").await;
    let launch = agent
        .wait("launch executor", |_, body| match body {
            master_frame::Body::LaunchExecutor(launch) => Some(launch),
            _ => None,
        })
        .await;
    assert_eq!(launch.app_id, text(&registered, "appId"));
    let home = &launch.command.expect("a command").env["SPARK_HOME"];
    assert_eq!(home, "{{SPARK_HOME:acme}}");
    // The next one of the same build is known.
    let mut second = Stranger::connect(&master, dead_port()).await;
    assert!(matches!(second.greet().await, Frame::Response { .. }));
    second.say(REGISTER).await;
    second.told("RegisteredApplication").await;
    assert_eq!(second.asked, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_asks_for_itself_on_the_connection_that_the_driver_has_to_it() {
    let cluster = MemoryCluster::new();
    let first = probing(&cluster, "m1");
    leads(&first).await;
    let second = probing(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let mut at_first = agent(&first, &["acme"]).await;
    at_first.registered().await;
    let mut at_second = agent(&second, &["acme"]).await;
    at_second
        .wait("standby", |_, body| match body {
            master_frame::Body::Standby(_) => Some(()),
            _ => None,
        })
        .await;
    let port = dead_port();
    let mut to_second = Stranger::connect(&second, port).await;
    assert!(matches!(to_second.greet().await, Frame::Response { .. }));
    to_second.say(REGISTER).await;
    // Answered, so the registration before it has been read; and nothing was asked.
    assert!(matches!(to_second.greet().await, Frame::Response { .. }));
    assert_eq!(to_second.asked, Vec::<String>::new());
    let mut to_first = Stranger::connect(&first, port).await;
    to_first.say(REGISTER).await;
    to_first.told("RegisteredApplication").await;
    cluster.depose();
    leads(&second).await;
    to_second.told("MasterChanged").await;
    assert_eq!(to_second.asked.len(), 7, "{:?}", to_second.asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_that_has_to_dial_a_driver_of_an_unknown_build_asks_it_first() {
    let cluster = MemoryCluster::new();
    let first = probing(&cluster, "m1");
    leads(&first).await;
    let mut at_first = agent(&first, &["acme"]).await;
    at_first.registered().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mut to_first = Stranger::connect(&first, port).await;
    to_first.say(REGISTER).await;
    to_first.told("RegisteredApplication").await;
    let second = probing(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    cluster.depose();
    leads(&second).await;
    // The old leader may call, too, while it still believes that it leads; it knows the build.
    loop {
        let accepted = timeout(PATIENCE, listener.accept()).await;
        let (socket, _) = accepted.expect("called in time").expect("a call");
        let mut driver = Stranger::over(socket, port);
        driver.told("MasterChanged").await;
        if !driver.asked.is_empty() {
            assert!(driver.asked.len() <= 16, "{:?}", driver.asked);
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_could_run_nowhere_is_refused_unasked() {
    let (master, _agent) = leader_with(&["3.5", "3.4.4+2.12.1a2b3c4d"]).await;
    let mut driver = Stranger::connect(&master, dead_port()).await;
    let text = refusal(driver.greet().await);
    assert!(text.contains("--spark-home NAME=DIR"), "{text}");
    assert_eq!(driver.asked, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_could_run_on_two_installations_has_to_say_which() {
    let (master, _agent) = leader_with(&["acme", "other"]).await;
    let mut driver = Stranger::connect(&master, dead_port()).await;
    driver.say(REGISTER).await;
    let removed = driver.told("ApplicationRemoved").await;
    let text = text(&removed, "message");
    assert!(
        text.contains("INTERREX_SPARK_LINE") && text.contains("acme, other"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_that_answers_something_else_is_asked_no_more() {
    let (master, _agent) = leader_with(&["acme"]).await;
    let mut driver = Stranger::connect(&master, dead_port()).await;
    driver.say(REGISTER).await;
    driver.say(CHECK).await;
    let nonsense = |_: &str, _| "java.lang.OutOfMemoryError: Java heap space".to_owned();
    driver.next_but(nonsense).await;
    driver.say(CHECK).await;
    let text = loop {
        // The first may have been read before the answer.
        driver.say(CHECK).await;
        if let Frame::Failure { text, .. } = driver.next_but(nonsense).await {
            break text;
        }
    };
    assert!(text.contains("in vain") && text.contains("heap"), "{text}");
    driver.say(REGISTER).await;
    driver.greet().await;
    assert_eq!(driver.asked.len(), 1, "{:?}", driver.asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_could_be_of_two_lines_is_asked_one_question() {
    let (master, _agent) = leader_with(&["4.1"]).await;
    let mut client = Stranger::connect(&master, 1).await;
    client.changed = 0;
    client
        .say("spark-41/4-cluster-m17077-c3-f002-RequestSubmitDriver")
        .await;
    let Frame::Response { body, .. } = client.next().await else {
        panic!("no answer");
    };
    assert_eq!(client.asked, ["org.apache.spark.rpc.RpcEndpointRef"]);
    let response = graph(&body);
    let reference = response.classes().iter();
    let mut reference = reference.filter(|c| c.name == client.asked[0]);
    let known = &interrex_spark_wire::dictionary::built_in()[2];
    assert_eq!(
        reference.next().expect("its class").suid,
        known.class(&client.asked[0]).expect("known").suid
    );
    assert_eq!(master.handle.view().drivers().count(), 1);
}
