//! What is written equals, byte for byte, what real classes of Spark have read.

use interrex_spark_wire::{
    Address, Outbound,
    java::Graph,
    message::{DriverState, DriverStatus, EndpointRef, ExecutorChange, ExecutorState, ToWorker},
    value::Value,
    view::View,
    writer::write,
};

use crate::support::{captured, dictionary, files, folder, graph};

const LINES: [(&str, &str); 2] = [("3.5", "spark-35"), ("4.1", "spark-41")];

fn golden(folder_name: &str, number: &str) -> Vec<u8> {
    let files = files(&format!("captures/generated/{folder_name}"));
    let found = files.into_iter().find(|c| c.name.starts_with(number));
    found.unwrap_or_else(|| panic!("no {number}")).bytes
}

fn assert_golden(number: &str, message: &Outbound) {
    for (line, name) in LINES {
        let written = message.write(dictionary(line)).expect("known classes");
        let wanted = golden(name, number);
        assert_eq!(written, wanted, "{number} {line}: {:?}", graph(&wanted));
    }
}

fn master() -> EndpointRef {
    EndpointRef::new("Master", Address::new("h1", 7077))
}

#[test]
fn messages_to_drivers() {
    let app_id = "app-1".to_owned();
    assert_golden(
        "01",
        &Outbound::RegisteredApplication {
            app_id,
            master: master(),
        },
    );
    assert_golden(
        "02",
        &Outbound::ExecutorAdded {
            id: 3,
            worker_id: "w".to_owned(),
            host_port: "h:1".to_owned(),
            cores: 2,
            memory_mib: 1024,
        },
    );
    let running = ExecutorChange {
        id: 3,
        state: ExecutorState::Running,
        message: None,
        exit_status: None,
        worker_host: None,
    };
    assert_golden("03", &Outbound::ExecutorUpdated(running.clone()));
    let exited = ExecutorChange {
        state: ExecutorState::Exited,
        message: Some("bye".to_owned()),
        exit_status: Some(1),
        worker_host: Some("h".to_owned()),
        ..running
    };
    assert_golden("04", &Outbound::ExecutorUpdated(exited));
    assert_golden(
        "07",
        &Outbound::WorkerRemoved {
            id: "w".to_owned(),
            host: "h".to_owned(),
            message: "gone".to_owned(),
        },
    );
    let message = "KILLED".to_owned();
    assert_golden("08", &Outbound::ApplicationRemoved { message });
    let web_url = "http://x".to_owned();
    assert_golden(
        "09",
        &Outbound::MasterChanged {
            master: master(),
            web_url,
        },
    );
    assert_golden("18", &Outbound::Boolean(true));
}

#[test]
fn messages_to_submission_clients() {
    assert_golden(
        "10",
        &Outbound::SubmitDriverResponse {
            master: master(),
            success: true,
            driver_id: Some("driver-1".to_owned()),
            message: "ok".to_owned(),
        },
    );
    assert_golden(
        "11",
        &Outbound::KillDriverResponse {
            master: master(),
            driver_id: "driver-1".to_owned(),
            success: false,
            message: "no".to_owned(),
        },
    );
    let states = [
        DriverState::Submitted,
        DriverState::Running,
        DriverState::Finished,
        DriverState::Relaunching,
        DriverState::Unknown,
        DriverState::Killed,
        DriverState::Failed,
        DriverState::Error,
    ];
    for state in states {
        let status = DriverStatus {
            found: true,
            state: Some(state),
            worker_id: Some("w".to_owned()),
            worker_host_port: Some("h:1".to_owned()),
            exception: None,
        };
        let number = format!("12-DriverStatusResponse-{}", state.number());
        assert_golden(&number, &Outbound::DriverStatusResponse(status));
    }
    let exception = Some("boom".to_owned());
    let status = DriverStatus {
        exception,
        ..DriverStatus::default()
    };
    assert_golden("13", &Outbound::DriverStatusResponse(status));
}

#[test]
fn a_singleton_is_written_as_its_line_does() {
    let standby = Value::Singleton("org.apache.spark.deploy.DeployMessages$MasterInStandby$");
    for (line, name) in LINES {
        let written = write(&standby, dictionary(line)).expect("known classes");
        assert_eq!(written, golden(name, "15"), "{line}");
    }
}

#[test]
fn a_boxed_number_is_javas() {
    for (line, name) in LINES {
        let wanted = golden(name, "19");
        let number = View::root(&graph(&wanted)).int().expect("an int");
        let written = write(&Value::boxed_int(number), dictionary(line)).expect("known classes");
        assert_eq!(written, wanted, "{line}");
    }
}

#[test]
fn a_failure_as_an_object_is_written_too() {
    for (line, name) in LINES {
        let exception = Value::Object(
            "java.lang.IllegalStateException",
            vec![("detailMessage", Value::text("nope"))],
        );
        let failure = Value::Object(
            "org.apache.spark.rpc.netty.RpcFailure",
            vec![("e", exception)],
        );
        let written = write(&failure, dictionary(line)).expect("known classes");
        assert_eq!(written, golden(name, "20"), "{line}");
    }
}

#[test]
fn messages_to_workers() {
    let app_id = "a".to_owned();
    let master_url = "m".to_owned();
    let kill = ToWorker::KillExecutor {
        master_url,
        app_id,
        id: 1,
    };
    assert_golden("17", &Outbound::ToWorker(kill));
    let master_url = "spark://h:1".to_owned();
    assert_golden(
        "16",
        &Outbound::ToWorker(ToWorker::ReconnectWorker { master_url }),
    );
    assert_golden("15", &Outbound::ToWorker(ToWorker::MasterInStandby));
}

#[test]
fn a_worker_that_is_let_in_hears_what_it_has_called_its_master() {
    for (line, name) in LINES {
        let wanted = graph(&golden(name, "14"));
        let root = View::root(&wanted);
        let text =
            |view: View<'_>, field| view.field(field).and_then(View::text).map(str::to_owned);
        let address = root.field("masterAddress").expect("a field");
        let port = address.field("port").and_then(View::int).expect("a port");
        let message = Outbound::ToWorker(ToWorker::RegisteredWorker {
            master: master(),
            web_url: text(root, "masterWebUiUrl").expect("text"),
            master_address: Address::new(
                text(address, "host").expect("text"),
                u16::try_from(port).expect("a port"),
            ),
            duplicate: root
                .field("duplicate")
                .and_then(View::boolean)
                .expect("a boolean"),
        });
        let written = message.write(dictionary(line)).expect("known classes");
        let written = graph(&written);
        let view = View::root(&written);
        assert_eq!(view.class(), root.class(), "{line}");
        let back = view.field("masterAddress").expect("a field");
        same(address, back, &["host"]);
        same(root, view, &["masterWebUiUrl"]);
    }
}

/// Two parts of messages that hold the same, whatever they share.
fn same(left: View<'_>, right: View<'_>, what: &[&'static str]) {
    for field in what {
        let get = |v: View<'_>| v.field(field).and_then(View::text).map(str::to_owned);
        assert_eq!(get(left), get(right), "{field}");
    }
}

#[test]
fn part_of_a_message_is_passed_on_with_its_own_descriptors() {
    for (line, name) in LINES {
        let registration: Graph = captured(name, "RegisterApplication");
        let app = View::root(&registration)
            .field("appDescription")
            .expect("a field");
        let launch = Value::Object(
            "org.apache.spark.deploy.DeployMessages$LaunchExecutor",
            vec![
                ("appDesc", Value::Parsed(&registration, app.datum())),
                (
                    "resources",
                    Value::Singleton("scala.collection.immutable.Map$EmptyMap$"),
                ),
            ],
        );
        let written = graph(&write(&launch, dictionary(line)).expect("known classes"));
        let passed_on = View::root(&written).field("appDesc").expect("a field");
        same(app, passed_on, &["name", "user", "appUiUrl"]);
        let wanted = graph(&golden(name, "21"));
        let wanted = View::root(&wanted).field("appDesc").expect("a field");
        let command = |v: View<'_>| {
            let command = v.field("command").expect("a field");
            let texts = |f| command.field(f).and_then(View::seq).expect("a sequence");
            let own = |v: Vec<View<'_>>| {
                v.iter()
                    .map(|t| t.text().expect("text").to_owned())
                    .collect::<Vec<_>>()
            };
            (own(texts("arguments")).len(), own(texts("javaOpts")).len())
        };
        assert_eq!(command(passed_on), command(wanted), "{line}");
    }
    assert!(folder("captures/generated").is_dir());
}
