//! A cluster whose masters were given tokens.

use std::path::{Path, PathBuf};

use crate::support::{Cluster, expect_code, expect_refusal, run, text, wait_for};

const MASTERS: &str = "masters-0123456789abcdef";
const ANN: &str = "ann-0123456789abcdef";

struct Tokens {
    all: PathBuf,
    masters: PathBuf,
    ann: PathBuf,
    _dir: tempfile::TempDir,
}

fn tokens() -> Tokens {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    Tokens {
        all: write("all", &format!("masters {MASTERS}\nann {ANN}\n")),
        masters: write("masters", MASTERS),
        ann: write("ann", &format!("{ANN}\n")),
        _dir: dir,
    }
}

/// What the masters wrote down about callers.
fn audit(cluster: &Cluster) -> String {
    let data = cluster.dir().join("data");
    let logs = ["m1", "m2", "m3"].map(|id| data.join("logs").join(format!("{id}.log")));
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let all: String = logs.iter().map(read).collect();
    all.lines()
        .filter(|line| line.contains("interrex::audit"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn with_token(cluster: &Cluster, file: &Path, args: &[&str]) -> std::process::Command {
    let mut command = cluster.command(args);
    command.env("INTERREX_TOKEN_FILE", file);
    command
}

#[test]
fn a_guarded_cluster_runs_work_for_callers_with_a_token_and_writes_down_who_changed_what() {
    let tokens = tokens();
    let cluster = Cluster::start_where(
        &[],
        &[
            ("INTERREX_MASTER_TOKENS", &tokens.all),
            ("INTERREX_TOKEN_FILE", &tokens.masters),
        ],
    );
    let submit = ["submit", "--name", "guarded", "--wait", "--", "true"];
    expect_refusal(
        &cluster.run(&submit),
        4,
        &["refused", "token", "INTERREX_TOKEN"],
    );
    expect_code(&run(&mut with_token(&cluster, &tokens.ann, &submit)), 0);
    // The next leader knows the same tokens.
    let (leader, _) = cluster.leader();
    expect_code(
        &run(&mut with_token(
            &cluster,
            &tokens.ann,
            &["cluster", "transfer-leader"],
        )),
        0,
    );
    wait_for("another leader", || {
        (cluster.leader().0 != leader).then_some(())
    });
    expect_refusal(&cluster.run(&submit), 4, &["token"]);
    expect_code(&run(&mut with_token(&cluster, &tokens.ann, &submit)), 0);
    let written = wait_for("the audit", || {
        let written = audit(&cluster);
        let is_whole = written.contains("transfer leadership") && written.contains("denied");
        is_whole.then_some(written)
    });
    assert!(
        written.contains("caller=ann") && written.contains("guarded"),
        "{written}"
    );
    assert!(
        !written.contains(ANN) && !written.contains(MASTERS),
        "{written}"
    );
}

#[test]
fn a_token_file_that_cannot_be_used_is_a_usage_error() {
    let mut command = crate::support::interrex();
    command.args(["list", "drivers", "--token-file", "nowhere/token"]);
    let output = run(&mut command);
    expect_code(&output, 2);
    assert!(text(&output).contains("nowhere/token"), "{}", text(&output));
}
