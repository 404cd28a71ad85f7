//! The pages in a real Chromium. Switched on by `make test-ui`, which has what they need.

mod ending;
mod failover;
mod keyboard;
mod leaving;
mod many;
mod pages;
mod webdriver;

use std::path::{Path, PathBuf};

use self::webdriver::{Browser, Screen};
use crate::support::{Cluster, Running, start, wait_for};

/// What [`populate`] has started.
struct Populated {
    /// A driver that runs, and writes.
    driver: String,
    /// An application that runs.
    app: String,
    /// Its program.
    runner: Running,
}

/// Where pictures are kept: in the documentation when asked for, else where they are in nobody's way.
fn pictures() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a workspace");
    match std::env::var_os("INTERREX_UI_PICTURES") {
        Some(_) => root.join("docs/screenshots"),
        None => root.join("target/ui/screenshots"),
    }
}

/// The pages' address of a master.
fn web_of(cluster: &Cluster, id: &str) -> String {
    let manifest = cluster.manifest();
    let masters = manifest["masters"].as_array().expect("masters");
    let master = masters
        .iter()
        .find(|master| master["id"] == id)
        .expect("known");
    format!("http://{}", master["web"].as_str().expect("an address"))
}

/// The pages' address of an agent.
fn agent_web(cluster: &Cluster) -> String {
    let manifest = cluster.manifest();
    format!(
        "http://{}",
        manifest["agents"][0]["web"].as_str().expect("an address")
    )
}

/// Something of every kind that runs, has ended, has failed, or waits.
fn populate(cluster: &Cluster) -> Populated {
    let driver = cluster.submit(&[
        "--submission-id",
        "nightly-2026-11-29",
        "--name",
        "nightly report",
        "--memory",
        "256MiB",
        "--",
        "sh",
        "-c",
        "for i in $(seq 1 100000); do echo \"line $i: counted $((i * 17)) orders\"; sleep 0.2; done",
    ]);
    let done = cluster.submit(&["--name", "hello", "--", "sh", "-c", "echo hello"]);
    let failed = cluster.submit(&[
        "--name",
        "import of orders",
        "--",
        "sh",
        "-c",
        "echo broken >&2; exit 3",
    ]);
    let runner = start(&mut cluster.command(&[
        "run",
        "--executors",
        "3",
        "--cores-per-executor",
        "1",
        "--memory",
        "256MiB",
        "--name",
        "training",
        "--",
        "sh",
        "-c",
        "echo executor $INTERREX_EXECUTOR_ID; sleep 1000",
    ]));
    cluster.wait_driver(&driver, "RUNNING");
    cluster.wait_driver(&done, "FINISHED");
    cluster.wait_driver(&failed, "FAILED");
    let app = wait_for("the application runs", || {
        let apps = cluster.json(&["list", "apps"]);
        let app = apps["applications"]
            .as_array()?
            .iter()
            .find(|app| app["state"] == "RUNNING")?;
        app["id"].as_str().map(str::to_owned)
    });
    Populated {
        driver,
        app,
        runner,
    }
}

/// Nothing is wrong with the page in the browser. In the dark only its colours are looked at: all else is as in the light.
async fn is_sound(browser: &Browser, what: &str, screen: Screen) {
    let faults = match screen.dark {
        true => browser.faults_of_colours().await,
        false => browser.faults().await,
    };
    assert_eq!(faults, Vec::<String>::new(), "{what}: by WCAG AA");
    assert_eq!(
        browser.complaints().await,
        Vec::<String>::new(),
        "{what}: in the console"
    );
}
