//! What is written is read back by a real JVM, with the classes of real installations of Spark.
//!
//! Needs `INTERREX_SPARK_HOMES`, installations separated by colons, and a JDK; says so and passes where one is missing.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use interrex_spark_wire::{
    Address, Dictionary, Outbound,
    learn::learn,
    message::{
        AppDescription, Command as JavaCommand, DriverDescription, DriverState, DriverStatus,
        EndpointRef, ExecutorChange, ExecutorLaunch, ExecutorState, ResourceProfile, ToWorker,
    },
};

use crate::learned::HOMES;

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

fn master() -> EndpointRef {
    EndpointRef::new("Master", Address::new("h1", 7077))
}

const REFERENCE: &str = "NettyRpcEndpointRef(spark://Master@h1:7077)";

/// A message, and what the JVM has to say of it: all of these.
type Sample = (Outbound, Vec<String>);

fn sample(message: Outbound, said: impl Into<String>) -> Sample {
    (message, vec![said.into()])
}

fn to_drivers() -> Vec<Sample> {
    let app_id = "app-1".to_owned();
    let change = |state, message: Option<&str>, exit_status| {
        Outbound::ExecutorUpdated(ExecutorChange {
            id: 3,
            state,
            message: message.map(str::to_owned),
            exit_status,
            worker_host: None,
        })
    };
    vec![
        sample(Outbound::Boolean(true), "true"),
        sample(
            Outbound::RegisteredApplication {
                app_id,
                master: master(),
            },
            format!("RegisteredApplication(app-1,{REFERENCE})"),
        ),
        sample(
            Outbound::ExecutorAdded {
                id: 3,
                worker_id: "w1".to_owned(),
                host_port: "h1:1".to_owned(),
                cores: 2,
                memory_mib: 1024,
            },
            "ExecutorAdded(3,w1,h1:1,2,1024)",
        ),
        sample(
            change(ExecutorState::Exited, Some("ü"), Some(1)),
            "ExecutorUpdated(3,EXITED,Some(ü),Some(1),None)",
        ),
        sample(
            change(ExecutorState::Decommissioned, None, None),
            "ExecutorUpdated(3,DECOMMISSIONED,None,None,None)",
        ),
        sample(
            Outbound::WorkerRemoved {
                id: "w1".to_owned(),
                host: "h1".to_owned(),
                message: "gone".to_owned(),
            },
            "WorkerRemoved(w1,h1,gone)",
        ),
        sample(
            Outbound::ApplicationRemoved {
                message: "why".to_owned(),
            },
            "ApplicationRemoved(why)",
        ),
        sample(
            Outbound::MasterChanged {
                master: master(),
                web_url: "http://h1:8080".to_owned(),
            },
            format!("MasterChanged({REFERENCE},http://h1:8080)"),
        ),
    ]
}

fn to_clients() -> Vec<Sample> {
    vec![
        sample(
            Outbound::SubmitDriverResponse {
                master: master(),
                success: true,
                driver_id: Some("driver-1".to_owned()),
                message: "ok".to_owned(),
            },
            format!("SubmitDriverResponse({REFERENCE},true,Some(driver-1),ok)"),
        ),
        sample(
            Outbound::KillDriverResponse {
                master: master(),
                driver_id: "driver-1".to_owned(),
                success: false,
                message: "no".to_owned(),
            },
            format!("KillDriverResponse({REFERENCE},driver-1,false,no)"),
        ),
        sample(
            Outbound::DriverStatusResponse(DriverStatus {
                found: true,
                state: Some(DriverState::Relaunching),
                worker_id: Some("w1".to_owned()),
                worker_host_port: None,
                exception: Some("boom".to_owned()),
            }),
            "DriverStatusResponse(true,Some(RELAUNCHING),Some(w1),None,Some(java.lang.Exception: boom))",
        ),
    ]
}

fn command() -> JavaCommand {
    JavaCommand {
        main_class: "org.example.Main".to_owned(),
        arguments: strings(&["--cores", "{{CORES}}"]),
        environment: BTreeMap::from([("NAME".to_owned(), "value".to_owned())]),
        class_path: strings(&["/a.jar"]),
        library_path: Vec::new(),
        java_opts: strings(&["-Da=b"]),
    }
}

const COMMAND: &str = "Command(org.example.Main,List(--cores, {{CORES}}),Map(NAME -> value),List(/a.jar),List(),List(-Da=b))";

/// More than any small collection of Scala holds.
fn many() -> BTreeMap<String, String> {
    (0..40)
        .map(|n| (format!("k{n}"), format!("v{n}")))
        .collect()
}

fn launch() -> ExecutorLaunch {
    ExecutorLaunch {
        master_url: "spark://h1:7077".to_owned(),
        app_id: "app-1".to_owned(),
        id: 7,
        profile: 0,
        app: AppDescription {
            name: "sum".to_owned(),
            user: "ann".to_owned(),
            cores_max: Some(4),
            command: command(),
            ui_url: "http://d1:4040".to_owned(),
            executor_limit: None,
            profile: ResourceProfile {
                id: 0,
                executor: BTreeMap::from([("memory".to_owned(), 512)]),
            },
        },
        cores: 2,
        memory_mib: 512,
        resources: BTreeMap::from([("gpu".to_owned(), strings(&["0", "1"]))]),
    }
}

fn launches() -> Vec<Sample> {
    let mut plain = launch();
    plain.resources.clear();
    plain.app.command.environment = many();
    let driver = DriverDescription {
        jar_url: "file:/pi.jar".to_owned(),
        memory_mib: 512,
        cores: 1,
        supervise: false,
        command: command(),
    };
    let executor = |launch: ExecutorLaunch| ToWorker::LaunchExecutor(Box::new(launch));
    vec![
        (
            Outbound::ToWorker(executor(launch())),
            vec![
                "LaunchExecutor(spark://h1:7077,app-1,7,0,ApplicationDescription(sum),2,512,Map(gpu -> [name: gpu, addresses: 0,1]))".to_owned(),
                format!("command: {COMMAND}"),
                "memory -> name: memory, amount: 512".to_owned(),
                "cpus -> name: cpus, amount: 1.0".to_owned(),
            ],
        ),
        (
            Outbound::ToWorker(executor(plain)),
            many().iter().map(|(k, v)| format!("{k} -> {v}")).chain(["512,Map())".to_owned()]).collect(),
        ),
        (
            Outbound::ToWorker(ToWorker::LaunchDriver {
                id: "driver-1.2".to_owned(),
                driver: Box::new(driver),
                resources: BTreeMap::new(),
            }),
            vec![
                "LaunchDriver(driver-1.2,DriverDescription (org.example.Main),Map())".to_owned(),
                format!("command: {COMMAND}"),
            ],
        ),
    ]
}

fn to_workers() -> Vec<Sample> {
    let of = |message, said: &str| sample(Outbound::ToWorker(message), said);
    let (app_id, url) = ("app-1".to_owned(), "spark://h1:7077".to_owned());
    vec![
        of(
            ToWorker::CheckExistence {
                name: "Worker".to_owned(),
            },
            "CheckExistence(Worker)",
        ),
        of(
            ToWorker::RegisteredWorker {
                master: master(),
                web_url: "http://h1:8080".to_owned(),
                master_address: Address::new("h1", 7077),
                duplicate: true,
            },
            &format!("RegisteredWorker({REFERENCE},http://h1:8080,h1:7077,true)"),
        ),
        of(
            ToWorker::RegisterWorkerFailed {
                message: "no".to_owned(),
            },
            "RegisterWorkerFailed(no)",
        ),
        of(ToWorker::MasterInStandby, "MasterInStandby"),
        of(
            ToWorker::ReconnectWorker {
                master_url: url.clone(),
            },
            "ReconnectWorker(spark://h1:7077)",
        ),
        of(
            ToWorker::KillExecutor {
                master_url: url,
                app_id: app_id.clone(),
                id: 7,
            },
            "KillExecutor(spark://h1:7077,app-1,7)",
        ),
        of(
            ToWorker::KillDriver {
                id: "driver-1.2".to_owned(),
            },
            "KillDriver(driver-1.2)",
        ),
        of(
            ToWorker::ApplicationFinished { app_id },
            "ApplicationFinished(app-1)",
        ),
    ]
}

/// What the JVM says of each message, by the name of its file.
fn read_back(home: &Path, dictionary: &Dictionary, samples: &[Sample]) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (message, _)) in samples.iter().enumerate() {
        let written = message.write(dictionary);
        let written = written.unwrap_or_else(|e| panic!("{}: {e}", message.name()));
        fs::write(folder.path().join(name(number, message)), written).expect("a file");
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/Read.java");
    let said = Command::new("java")
        .arg("-Dfile.encoding=UTF-8")
        .arg("-Dstdout.encoding=UTF-8")
        .arg("-cp")
        .arg(home.join("jars/*"))
        .arg(program)
        .arg(folder.path())
        .output()
        .expect("a JVM");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{}: {errors}", home.display());
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines
        .map(|(name, words)| (name.to_owned(), words.to_owned()))
        .collect()
}

fn name(number: usize, message: &Outbound) -> String {
    format!("{number:02}-{}", message.name())
}

#[test]
fn a_jvm_reads_what_is_written() {
    let homes = std::env::var(HOMES).unwrap_or_default();
    if homes.is_empty() {
        println!("skipped: {HOMES} names no installations of Spark");
        return;
    }
    if Command::new("javac").arg("-version").output().is_err() {
        println!("skipped: there is no JDK here");
        return;
    }
    let mut samples = to_drivers();
    samples.extend(to_clients());
    samples.extend(to_workers());
    samples.extend(launches());
    for home in homes.split(':').map(PathBuf::from) {
        let dictionary = learn(&home).expect("an installation");
        let said = read_back(&home, &dictionary, &samples);
        for (number, (message, wanted)) in samples.iter().enumerate() {
            let name = name(number, message);
            let words = said
                .get(&name)
                .unwrap_or_else(|| panic!("nothing of {name}"));
            assert!(
                !words.contains("!!!"),
                "{} {name}: {words}",
                dictionary.line
            );
            for part in wanted {
                assert!(
                    words.contains(part),
                    "{} {name}: {words}\nlacks {part}",
                    dictionary.line
                );
            }
        }
        println!(
            "Spark {}: a JVM has read {} messages",
            dictionary.line,
            samples.len()
        );
    }
}
