//! Spark's own workers on a master's port: a worker by hand, with the bytes that a real one has sent.

use std::collections::VecDeque;

use futures::{SinkExt, StreamExt};
use interrex_control_plane::{
    app::RunningMaster,
    runtime::{ClusterView, Role},
};
use interrex_core::{
    ids::AppId,
    state::{driver::DriverState, executor::ExecutorState, worker::WorkerState},
};
use interrex_persistence::memory::MemoryCluster;
use interrex_proto::v1;
use interrex_spark_wire::{
    Address, Dictionary, Envelope, Frame, FrameCodec,
    dictionary::built_in,
    java::{Graph, Limits, read},
    value::Value,
    view::View,
    writer::write,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_util::codec::Framed;

use crate::support::{
    PATIENCE, client, driver, has_role, leads, sees,
    spark::{self, decode, envelope},
    start, status,
};

const MESSAGES: &str = "org.apache.spark.deploy.DeployMessages$";
/// Where the captured worker listened.
const WORKER_PORT: u16 = 17_000;
/// States of drivers, as Spark numbers them.
const FINISHED: i32 = 2;
const KILLED: i32 = 5;

/// One connection of a peer of Spark to a master.
struct Wire {
    frames: Framed<TcpStream, FrameCodec>,
    /// What came while an answer was waited for.
    kept: VecDeque<Frame>,
}

fn dictionary() -> &'static Dictionary {
    built_in().first().expect("Spark 3.5")
}

/// A frame that a real worker or driver of Spark 3.5 has sent.
fn captured(name: &str) -> Frame {
    decode(&spark::captured(&format!("spark-35/{name}")))
}

/// What a captured message says in this field.
fn captured_text(name: &str, field: &'static str) -> String {
    let envelope = envelope(&captured(name)).expect("a message");
    let graph = read(&envelope.payload, &Limits::default()).expect("a stream");
    let text = View::root(&graph).field(field).and_then(View::text);
    text.expect("text").to_owned()
}

fn worker_id() -> String {
    captured_text("5-worker-m17077-c1-f002-RegisterWorker", "id")
}

fn is_alive(view: &ClusterView) -> bool {
    let worker = view.worker(&worker_id().as_str().into());
    worker.is_some_and(|w| w.state == WorkerState::Alive)
}

fn driver_is(id: &str, state: DriverState) -> impl Fn(&ClusterView) -> bool {
    let id = id.into();
    move |view| view.driver(&id).is_some_and(|d| d.state == state)
}

impl Wire {
    async fn connect(master: &RunningMaster) -> Self {
        let socket = TcpStream::connect(master.rpc_addr).await.expect("a master");
        Self {
            frames: Framed::new(socket, FrameCodec::default()),
            kept: VecDeque::new(),
        }
    }

    async fn say(&mut self, name: &str) {
        self.frames.send(captured(name)).await.expect("read");
    }

    /// A message to the master; with an id it wants an answer.
    async fn send(&mut self, id: Option<i64>, message: &Value<'_>) {
        let stream = write(message, dictionary()).expect("known classes");
        let envelope = Envelope {
            sender: Some(Address::new("127.0.0.1", WORKER_PORT)),
            receiver: Some(Address::new("127.0.0.1", 7077)),
            endpoint: "Master".to_owned(),
            payload: stream.into(),
        };
        let body = envelope.encode().expect("short");
        let frame = match id {
            Some(id) => Frame::Request { id, body },
            None => Frame::OneWay { body },
        };
        self.frames.send(frame).await.expect("the master reads");
    }

    async fn next(&mut self) -> Frame {
        let next = timeout(PATIENCE, self.frames.next()).await;
        next.expect("in time")
            .expect("an open connection")
            .expect("a frame")
    }

    /// Skips until a message of this class comes; answers what the master asks meanwhile.
    async fn told(&mut self, class: &str) -> Graph {
        // The master's questions come for ever.
        let told = timeout(PATIENCE, self.skip_to(class)).await;
        told.unwrap_or_else(|_| panic!("no {class} in time"))
    }

    async fn skip_to(&mut self, class: &str) -> Graph {
        loop {
            let frame = match self.kept.pop_front() {
                Some(frame) => frame,
                None => self.next().await,
            };
            let Some(envelope) = envelope(&frame) else {
                continue;
            };
            let graph = read(&envelope.payload, &Limits::default()).expect("a stream");
            if let Frame::Request { id, .. } = frame {
                self.answer(id).await;
                continue;
            }
            let root = View::root(&graph);
            let found = root
                .singleton()
                .or_else(|| root.class())
                .expect("an object");
            if found == format!("{MESSAGES}{class}") {
                return graph;
            }
        }
    }

    async fn answer(&mut self, id: i64) {
        let yes = write(&Value::boxed_bool(true), dictionary()).expect("known classes");
        let body = yes.into();
        let sent = self.frames.send(Frame::Response { id, body }).await;
        sent.expect("the master reads");
    }

    /// The answer to a request of ours.
    async fn answered(&mut self, wanted: i64) -> bool {
        loop {
            match self.next().await {
                Frame::Response { id, body } if id == wanted => {
                    let graph = read(&body, &Limits::default()).expect("a stream");
                    return View::root(&graph).boolean().expect("a boolean");
                }
                Frame::Request { id, .. } => self.answer(id).await,
                Frame::Failure { text, .. } => panic!("{text}"),
                Frame::Response { .. } => {}
                frame @ Frame::OneWay { .. } => self.kept.push_back(frame),
            }
        }
    }

    /// A worker that has registered and said that it runs nothing.
    async fn worker(master: &RunningMaster) -> Self {
        let mut worker = Self::connect(master).await;
        worker.say("5-worker-m17077-c1-f001-CheckExistence").await;
        worker.say("5-worker-m17077-c1-f002-RegisterWorker").await;
        worker.told("RegisteredWorker").await;
        worker
            .say("5-worker-m17077-c1-f003-WorkerLatestState")
            .await;
        sees(&master.handle, "the worker is alive", is_alive).await;
        worker
    }

    /// A driver's application.
    async fn app(master: &RunningMaster) -> (Self, AppId) {
        let mut driver = Self::connect(master).await;
        driver.say("1-app-m17077-c1-f001-CheckExistence").await;
        driver.say("1-app-m17077-c1-f002-RegisterApplication").await;
        let graph = driver.told("RegisteredApplication").await;
        let id = text(&graph, "appId");
        (driver, AppId::new(id))
    }

    async fn executor_changed(&mut self, app: &AppId, executor: i32, state: i32) {
        let request = i64::from(executor) * 10 + i64::from(state) + 1000;
        let class = "org.apache.spark.deploy.DeployMessages$ExecutorStateChanged";
        let message = Value::Object(
            class,
            vec![
                ("appId", Value::text(app.as_str())),
                ("execId", Value::Int(executor)),
                ("state", executor_state(state)),
                ("message", Value::option(None)),
                ("exitStatus", Value::option(None)),
            ],
        );
        self.send(Some(request), &message).await;
        assert!(self.answered(request).await);
    }
}

fn text(graph: &Graph, field: &'static str) -> String {
    let text = View::root(graph).field(field).and_then(View::text);
    text.expect("text").to_owned()
}

fn int(graph: &Graph, field: &'static str) -> i32 {
    let int = View::root(graph).field(field).and_then(View::int);
    int.expect("a number")
}

fn executor_state(number: i32) -> Value<'static> {
    Value::Enumeration("org.apache.spark.deploy.ExecutorState$", number)
}

/// What a worker says that follows a new leader, and runs this executor.
fn scheduler_state(app: &AppId, executor: i32) -> Value<'static> {
    let description = Value::Object(
        "org.apache.spark.deploy.ExecutorDescription",
        vec![
            ("appId", Value::text(app.as_str())),
            ("execId", Value::Int(executor)),
            ("cores", Value::Int(1)),
            ("memoryMb", Value::Int(512)),
            ("state", executor_state(1)),
        ],
    );
    let response = Value::Object(
        "org.apache.spark.deploy.DeployMessages$WorkerExecutorStateResponse",
        vec![("desc", description), ("resources", Value::Map(Vec::new()))],
    );
    Value::Object(
        "org.apache.spark.deploy.DeployMessages$WorkerSchedulerStateResponse",
        vec![
            ("id", Value::text(worker_id())),
            ("execResponses", Value::Seq(vec![response])),
            ("driverResponses", Value::Seq(Vec::new())),
        ],
    )
}

/// A driver that is a class in a jar.
fn jar(at_most_once: bool) -> v1::DriverSpec {
    v1::DriverSpec {
        command: None,
        spark: Some(v1::SparkSubmission {
            app_resource: "file:/pi.jar".to_owned(),
            main_class: "org.example.Pi".to_owned(),
            client_spark_version: "3.5.9".to_owned(),
            ..v1::SparkSubmission::default()
        }),
        at_most_once,
        ..driver("pi")
    }
}

fn submit(id: &str, spec: v1::DriverSpec) -> v1::SubmitRequest {
    v1::SubmitRequest {
        request_id: id.to_owned(),
        spec: Some(spec),
    }
}

/// What a worker says of the first attempt of a driver.
fn driver_changed(id: &str, state: i32) -> Value<'static> {
    let state = Value::Enumeration("org.apache.spark.deploy.master.DriverState$", state);
    Value::Object(
        "org.apache.spark.deploy.DeployMessages$DriverStateChanged",
        vec![
            ("driverId", Value::text(format!("{id}.1"))),
            ("state", state),
            ("exception", Value::option(None)),
        ],
    )
}

async fn leader() -> RunningMaster {
    let master = start(&MemoryCluster::new(), "m1");
    leads(&master).await;
    master
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_spark_registers_and_runs_executors() {
    let master = leader().await;
    let mut worker = Wire::worker(&master).await;
    let (_driver, app) = Wire::app(&master).await;
    let launch = worker.told("LaunchExecutor").await;
    assert_eq!(text(&launch, "appId"), app.as_str());
    // The worker compares it with the leader that it follows.
    let url = format!("spark://127.0.0.1:{}", master.rpc_addr.port());
    assert_eq!(text(&launch, "masterUrl"), url);
    let described = View::root(&launch).field("appDesc").expect("a description");
    let command = described.field("command").expect("a command");
    let words = |field| {
        let words = command
            .field(field)
            .and_then(View::seq)
            .expect("a sequence");
        let words = words
            .into_iter()
            .map(|w| w.text().expect("text").to_owned());
        words.collect::<Vec<_>>()
    };
    assert!(words("arguments").contains(&"{{EXECUTOR_ID}}".to_owned()));
    assert!(words("arguments").contains(&"{{WORKER_URL}}".to_owned()));
    assert!(
        words("javaOpts")
            .iter()
            .any(|o| o.starts_with("-Dspark.driver.port="))
    );
    let executor = int(&launch, "execId");
    worker.executor_changed(&app, executor, 1).await;
    let runs = |view: &ClusterView| {
        view.executors_of(&app)
            .any(|e| e.state == ExecutorState::Running)
    };
    sees(&master.handle, "the executor runs", runs).await;
    // It ends, and another one takes its place.
    worker.executor_changed(&app, executor, 5).await;
    let next = worker.told("LaunchExecutor").await;
    assert!(int(&next, "execId") > executor);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_keeps_what_a_worker_of_spark_runs() {
    let cluster = MemoryCluster::new();
    let first = start(&cluster, "m1");
    leads(&first).await;
    let second = start(&cluster, "m2");
    has_role(&second, Role::Standby).await;
    let mut to_second = Wire::connect(&second).await;
    to_second
        .say("5-worker-m17077-c1-f002-RegisterWorker")
        .await;
    to_second.told("MasterInStandby$").await;
    let mut to_first = Wire::worker(&first).await;
    let (_driver, app) = Wire::app(&first).await;
    let executor = int(&to_first.told("LaunchExecutor").await, "execId");
    to_first.executor_changed(&app, executor, 1).await;
    cluster.depose();
    leads(&second).await;
    to_second.told("MasterChanged").await;
    to_second.send(None, &scheduler_state(&app, executor)).await;
    let kept = |view: &ClusterView| {
        let worker = view.worker(&worker_id().as_str().into());
        worker.is_some_and(|w| w.state == WorkerState::Alive)
            && view
                .executors_of(&app)
                .any(|e| e.state == ExecutorState::Running)
    };
    sees(&second.handle, "the executor is kept", kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_program_and_what_may_run_once_never_go_to_a_worker_of_spark() {
    let master = leader().await;
    let mut worker = Wire::worker(&master).await;
    let mut control = client(&master);
    for (id, spec) in [("plain", driver("plain")), ("once", jar(true))] {
        let answer = control.submit(submit(id, spec)).await.expect("accepted");
        let id = answer.into_inner().driver.expect("a driver").id;
        let explained = control.explain(v1::ExplainRequest { id }).await;
        let summary = explained.expect("known").into_inner().summary;
        assert!(summary.contains("Spark's own workers"), "{summary}");
    }
    let answer = control
        .submit(submit("jar", jar(false)))
        .await
        .expect("accepted");
    let id = answer.into_inner().driver.expect("a driver").id;
    let launch = worker.told("LaunchDriver").await;
    assert_eq!(text(&launch, "driverId"), format!("{id}.1"));
    let runs = driver_is(&id, DriverState::Running);
    sees(&master.handle, "the driver runs", runs).await;
    worker.send(None, &driver_changed(&id, FINISHED)).await;
    let over = driver_is(&id, DriverState::Finished);
    sees(&master.handle, "the driver has finished", over).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_leaves_gets_no_more_work() {
    let master = leader().await;
    let mut worker = Wire::worker(&master).await;
    let leaving = Value::Object(
        "org.apache.spark.deploy.DeployMessages$WorkerDecommissioning",
        vec![("id", Value::text(worker_id()))],
    );
    worker.send(None, &leaving).await;
    let drained = |view: &ClusterView| {
        let worker = view.worker(&worker_id().as_str().into());
        worker.is_some_and(|w| w.drain.is_some())
    };
    sees(&master.handle, "the worker is drained", drained).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_on_a_worker_of_spark_is_killed_there_and_has_its_logs_there() {
    let master = leader().await;
    let mut worker = Wire::worker(&master).await;
    let mut control = client(&master);
    let answer = control.submit(submit("jar", jar(false))).await;
    let driver = answer.expect("accepted").into_inner().driver;
    let id = driver.expect("a driver").id;
    worker.told("LaunchDriver").await;
    let runs = driver_is(&id, DriverState::Running);
    sees(&master.handle, "the driver runs", runs).await;
    let known = status(&mut control, &id).await.expect("known").driver;
    let page = known.expect("a driver").log_page;
    let expected = format!("/logPage/?driverId={id}.1&logType=");
    assert!(
        page.starts_with("http://127.0.0.1:") && page.ends_with(&expected),
        "{page}"
    );
    let kill = v1::KillRequest {
        request_id: "k".to_owned(),
        id: id.clone(),
    };
    control.kill(kill).await.expect("taken");
    let killed = worker.told("KillDriver").await;
    assert_eq!(text(&killed, "driverId"), format!("{id}.1"));
    worker.send(None, &driver_changed(&id, KILLED)).await;
    let over = driver_is(&id, DriverState::Killed);
    sees(&master.handle, "the driver is killed", over).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_heartbeat_comes_first_is_asked_to_register() {
    let master = leader().await;
    let mut worker = Wire::connect(&master).await;
    worker.say("5-worker-Heartbeat").await;
    let asked = worker.told("ReconnectWorker").await;
    let url = format!("spark://127.0.0.1:{}", master.rpc_addr.port());
    assert_eq!(text(&asked, "masterUrl"), url);
    worker.say("5-worker-m17077-c1-f002-RegisterWorker").await;
    worker.told("RegisteredWorker").await;
    worker
        .say("5-worker-m17077-c1-f003-WorkerLatestState")
        .await;
    sees(&master.handle, "the worker is alive", is_alive).await;
}
