//! `interrex debug bundle`, on a cluster with and without a quorum.

use std::{path::Path, process::Command};

use nix::sys::signal::Signal;

use crate::support::{Cluster, expect_code, expect_refusal};

/// Some of what a bundle of a whole cluster holds.
const FILES: [&str; 9] = [
    "bundle.json",
    "cluster.json",
    "drivers.json",
    "workers.json",
    "events.json",
    "masters/m1/metrics.txt",
    "masters/m3/readyz.txt",
    "agents/w1/processes.json",
    "logs/m2.log",
];

/// What a bundle holds, by path, as the system's tar reads it.
fn unpacked(bundle: &Path, to: &Path) -> String {
    let status = Command::new("tar")
        .arg("-xf")
        .arg(bundle)
        .arg("-C")
        .arg(to)
        .status();
    assert!(status.expect("tar").success());
    let listed = Command::new("tar")
        .arg("-tf")
        .arg(bundle)
        .output()
        .expect("tar");
    String::from_utf8(listed.stdout).expect("names")
}

#[test]
fn a_bundle_has_everything_but_secrets_and_comes_without_a_quorum_too() {
    let cluster = Cluster::start(&[]);
    cluster.submit(&["--env", "PASSWORD=hunter2", "--", "sleep", "1000"]);
    let logs = cluster.dir().join("data/logs");
    let make = |name: &str| {
        let file = cluster.dir().join(name);
        let (file_text, logs) = (file.to_str().expect("UTF-8"), logs.to_str().expect("UTF-8"));
        let output = cluster.run(&[
            "debug",
            "bundle",
            "--file",
            file_text,
            "--logs",
            logs,
            "--deadline",
            "3s",
        ]);
        (file, output)
    };
    let (whole, output) = make("whole.tar");
    expect_code(&output, 0);
    let to = cluster.dir().join("unpacked");
    std::fs::create_dir(&to).expect("a directory");
    let names = unpacked(&whole, &to);
    for name in FILES {
        assert!(
            names
                .lines()
                .any(|line| line == format!("interrex-debug/{name}")),
            "{name} in\n{names}"
        );
    }
    let drivers = std::fs::read_to_string(to.join("interrex-debug/drivers.json")).expect("a file");
    assert!(drivers.contains("driver-"), "{drivers}");
    let found = Command::new("grep")
        .args(["-r", "-l", "hunter2"])
        .arg(&to)
        .output()
        .expect("grep");
    assert_eq!(
        String::from_utf8_lossy(&found.stdout),
        "",
        "the secret is in there"
    );

    expect_refusal(&make("whole.tar").1, 1, &["whole.tar"]);

    for master in ["m1", "m2"] {
        cluster.signal(master, Signal::SIGKILL);
    }
    let (part, output) = make("part.tar");
    expect_code(&output, 0);
    let to = cluster.dir().join("unpacked-part");
    std::fs::create_dir(&to).expect("a directory");
    let names = unpacked(&part, &to);
    assert!(
        names.contains("logs/m1.log") && names.contains("bundle.json"),
        "{names}"
    );
    let about = std::fs::read_to_string(to.join("interrex-debug/bundle.json")).expect("a file");
    assert!(
        about.contains("missing") && about.contains("events.json"),
        "{about}"
    );
}
