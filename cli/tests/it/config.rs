//! The configuration file, through the binary.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::support::{expect_code, expect_refusal, interrex, run};

fn file(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("interrex.toml");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

#[test]
fn an_unknown_key_names_key_file_and_the_nearest() {
    let (_dir, path) = file("[agent]\ncorse = 4\n");
    let name = path.to_str().unwrap();
    let refused = run(interrex().args(["--config", name, "list", "drivers"]));
    expect_refusal(&refused, 2, &["interrex.toml", "agent.corse", "`cores`"]);
    expect_refusal(
        &run(interrex().args(["config", "check", name])),
        2,
        &["agent.corse"],
    );
}

#[test]
fn a_bad_value_or_syntax_is_found_by_check() {
    let (_dir, path) = file("[agent]\nmemory = \"lots\"\n");
    let check = run(interrex().args(["config", "check"]).arg(&path));
    expect_refusal(&check, 2, &["interrex.toml", "lots"]);
    let (_dir, path) = file("[agent\n");
    expect_refusal(
        &run(interrex().args(["config", "check"]).arg(&path)),
        2,
        &["interrex.toml"],
    );
    let missing = run(interrex().args(["config", "check", "no-such-file.toml"]));
    expect_refusal(&missing, 2, &["no-such-file.toml"]);
}

#[test]
fn flag_is_above_environment_above_file_above_default() {
    let (_dir, path) = file("[agent]\ncores = 3\nmemory = \"3GiB\"\n[client]\nmasters = \"f:1\"\n");
    let show = run(interrex()
        .env("INTERREX_AGENT_CORES", "5")
        .args(["config", "show", "-o", "json", "--config"])
        .arg(&path));
    expect_code(&show, 0);
    let shown: serde_json::Value = serde_json::from_slice(&show.stdout).unwrap();
    let origin = |section: &str, key: &str| {
        let setting = &shown[section][key];
        (
            setting["value"].as_str().unwrap_or("").to_owned(),
            setting["origin"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(origin("agent", "cores"), ("5".into(), "env".into()));
    assert_eq!(origin("agent", "memory"), ("3GiB".into(), "file".into()));
    assert_eq!(
        origin("agent", "kill-grace"),
        ("10s".into(), "default".into())
    );
    assert_eq!(origin("client", "masters"), ("f:1".into(), "file".into()));
    assert_eq!(origin("master", "id").1, "unset");
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(interrex().args(["completions", shell]));
        expect_code(&script, 0);
        assert!(String::from_utf8_lossy(&script.stdout).contains("transfer-leader"));
    }
}
