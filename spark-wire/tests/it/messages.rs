//! Captured messages as typed values.

use interrex_spark_wire::{
    Address, Inbound, MessageError,
    java::Graph,
    message::{EndpointRef, ExecutorState},
    value::Value,
    writer::write,
};

use crate::support::{captured, dictionary, envelope, files, frames, graph};

const LINES: [&str; 2] = ["spark-35", "spark-41"];

fn read(graph: &Graph) -> Inbound {
    Inbound::read(graph).expect("understood")
}

#[test]
fn every_message_that_was_captured_is_understood() {
    let mut understood = 0;
    for capture in frames() {
        let message = Inbound::read(&graph(&envelope(&capture.bytes).payload));
        let message = message.unwrap_or_else(|e| panic!("{}: {e}", capture.name));
        understood += 1;
        let name = format!("{message:?}");
        let name = match name.split([' ', '{']).next().expect("a word") {
            "WorkerState" => "WorkerLatestState",
            other => other,
        };
        assert!(capture.name.contains(name), "{}: {name}", capture.name);
    }
    assert!(understood > 50, "only {understood}");
}

#[test]
fn a_message_of_another_class_is_named() {
    let unknown = graph(
        &write(
            &Value::Singleton("org.apache.spark.deploy.DeployMessages$MasterInStandby$"),
            dictionary("3.5"),
        )
        .expect("a known class"),
    );
    let refused = Inbound::read(&unknown).expect_err("it is for workers");
    assert!(matches!(refused, MessageError::Unknown { .. }), "{refused}");
}

#[test]
fn a_worker_says_what_it_offers_and_where_it_listens() {
    for line in LINES {
        let Inbound::RegisterWorker { worker } = read(&captured(line, "RegisterWorker")) else {
            panic!("another message");
        };
        assert!(
            worker.id.starts_with("worker-2026"),
            "{line}: {}",
            worker.id
        );
        assert_eq!(worker.host, "127.0.0.1", "{line}");
        assert_eq!(worker.endpoint.name, "Worker", "{line}");
        let address = worker.endpoint.address.expect("it listens");
        assert_eq!(address.port, worker.port, "{line}");
        assert!(worker.cores > 0 && worker.memory_mib > 0, "{line}");
        assert!(worker.web_url.starts_with("http://"), "{line}");
        assert_eq!(worker.master.expect("us").port, 17_077, "{line}");
        assert!(worker.resources.is_empty(), "{line}");
    }
}

#[test]
fn a_worker_says_what_runs_there() {
    for line in LINES {
        let Inbound::WorkerState {
            executors,
            driver_ids,
            worker_id,
        } = read(&captured(line, "WorkerLatestState"))
        else {
            panic!("another message");
        };
        assert!(worker_id.starts_with("worker-"), "{line}");
        assert_eq!((executors.len(), driver_ids.len()), (0, 0), "{line}");
        let Inbound::Heartbeat { worker_id, worker } = read(&captured(line, "Heartbeat")) else {
            panic!("another message");
        };
        assert!(worker_id.starts_with("worker-"), "{line}");
        assert_eq!(worker.name, "Worker", "{line}");
    }
}

#[test]
fn a_registration_says_what_the_application_needs() {
    for line in LINES {
        let Inbound::RegisterApplication { app, driver } =
            read(&captured(line, "RegisterApplication"))
        else {
            panic!("another message");
        };
        assert_eq!(driver.name, "AppClient");
        assert!(driver.address.is_some_and(|a| a.host == "127.0.0.1"));
        assert_eq!(app.name, "spike-sum", "{line}");
        assert!(
            app.profile.memory_mib().is_some_and(|m| m >= 512),
            "{line}: {:?}",
            app.profile
        );
        assert_eq!(app.profile.id, 0);
        let command = &app.command;
        assert_eq!(
            command.main_class,
            "org.apache.spark.executor.CoarseGrainedExecutorBackend"
        );
        for placeholder in [
            "{{EXECUTOR_ID}}",
            "{{HOSTNAME}}",
            "{{CORES}}",
            "{{APP_ID}}",
            "{{WORKER_URL}}",
        ] {
            assert!(
                command.arguments.iter().any(|a| a == placeholder),
                "{line}: {placeholder}"
            );
        }
        assert!(
            command
                .java_opts
                .iter()
                .any(|o| o.starts_with("-Dspark.driver.port=")),
            "{line}"
        );
        assert!(!command.environment.is_empty(), "{line}");
    }
}

#[test]
fn changes_of_what_is_wanted_name_profiles_and_executors() {
    for line in LINES {
        let Inbound::RequestExecutors { totals, .. } =
            read(&captured(line, "f003-RequestExecutors"))
        else {
            panic!("another message");
        };
        let [(profile, total)] = totals.as_slice() else {
            panic!("{line}: {totals:?}");
        };
        assert_eq!(profile.id, 0, "{line}");
        assert!(*total >= 1, "{line}");
        let Inbound::KillExecutors { executor_ids, .. } = read(&captured(line, "KillExecutors"))
        else {
            panic!("another message");
        };
        assert_eq!(executor_ids, ["0"], "{line}");
    }
}

#[test]
fn a_submitted_driver_says_how_it_is_started() {
    for line in LINES {
        let Inbound::RequestSubmitDriver { driver } = read(&captured(line, "RequestSubmitDriver"))
        else {
            panic!("another message");
        };
        assert!(driver.supervise, "{line}");
        assert_eq!(driver.cores, 1, "{line}");
        assert!(driver.memory_mib >= 512, "{line}");
        assert_eq!(
            driver.command.main_class, "org.apache.spark.deploy.worker.DriverWrapper",
            "{line}"
        );
        assert!(!driver.command.environment.is_empty(), "{line}");
    }
}

#[test]
fn an_executor_that_watches_its_worker_does_not_listen() {
    for line in LINES {
        let captures = files(&format!("captures/{line}"));
        let watcher = captures
            .iter()
            .find(|c| c.bytes.len() == 176)
            .unwrap_or_else(|| panic!("{line}: no watcher"));
        let envelope = envelope(&watcher.bytes);
        assert_eq!(envelope.sender, None);
        assert_eq!(envelope.endpoint, "endpoint-verifier");
        let name = "Worker".to_owned();
        assert_eq!(
            read(&graph(&envelope.payload)),
            Inbound::CheckExistence { name }
        );
    }
}

#[test]
fn the_state_in_a_cyclic_graph_is_found() {
    for line in LINES {
        let mut states = Vec::new();
        for capture in files(&format!("captures/{line}")) {
            if capture.name.contains("ExecutorStateChanged") {
                let message = read(&graph(&envelope(&capture.bytes).payload));
                let Inbound::ExecutorStateChanged { report } = message else {
                    panic!("another message");
                };
                states.push(report.state);
            }
        }
        assert!(
            states.contains(&ExecutorState::Running),
            "{line}: {states:?}"
        );
        assert_eq!(states.len(), 3, "{line}");
    }
}

#[test]
fn a_reference_names_its_endpoint_and_address() {
    for line in LINES {
        let message = read(&captured(line, "f002-RegisterApplication"));
        let Inbound::RegisterApplication { driver, .. } = message else {
            panic!("another message");
        };
        let EndpointRef { name, address } = driver;
        assert_eq!(name, "AppClient");
        assert!(
            matches!(address, Some(Address { port, .. }) if port > 17_000),
            "{line}"
        );
    }
}
