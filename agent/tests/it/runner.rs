//! The process runner with real processes.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use interrex_agent::process::{
    EndCause, Lease, ProcessEvent, ProcessRunner, WorkKey, proc,
    protocol::{Notice, ProgramSpec},
    record::{self, AttemptRecord},
};
use interrex_proto::v1::{CommandLine, Exit};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    owned::Owned,
    support::{Bench, PATIENCE, alive, eventually, launch, pid_in, sh, soon, supervisor},
};

fn key() -> WorkKey {
    WorkKey::driver("d1", 1)
}

fn code(code: i32) -> Option<Exit> {
    Some(Exit {
        code: Some(code),
        signal: None,
    })
}

fn signal(signal: Signal) -> Option<Exit> {
    Some(Exit {
        code: None,
        signal: Some(signal as i32),
    })
}

fn ended(exit: Option<Exit>, cause: EndCause) -> ProcessEvent {
    ProcessEvent::Ended {
        key: key(),
        exit,
        cause,
    }
}

#[tokio::test]
async fn exit_code_and_output_are_the_programs_own() {
    let mut bench = Bench::new();
    bench
        .runner
        .start(launch(key(), sh("echo out; echo err >&2; exit 7")));
    bench.started().await;
    assert_eq!(bench.next().await, ended(code(7), EndCause::Itself));
    assert_eq!(bench.read("d1/stdout"), "out\n");
    assert_eq!(bench.read("d1/stderr"), "err\n");
}

#[tokio::test]
async fn output_of_a_later_attempt_is_appended() {
    let mut bench = Bench::new();
    for attempt in 1..=2 {
        let key = WorkKey::driver("d1", attempt);
        bench
            .runner
            .start(launch(key.clone(), sh("echo $INTERREX_ATTEMPT")));
        bench.started().await;
        let expected = ProcessEvent::Ended {
            key,
            exit: code(0),
            cause: EndCause::Itself,
        };
        assert_eq!(bench.next().await, expected);
    }
    assert_eq!(bench.read("d1/stdout"), "1\n2\n");
}

#[tokio::test]
async fn a_signal_is_told_as_a_signal() {
    let mut bench = Bench::new();
    bench.runner.start(launch(key(), sh("kill -SEGV $$")));
    bench.started().await;
    assert_eq!(
        bench.next().await,
        ended(signal(Signal::SIGSEGV), EndCause::Itself)
    );
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let mut bench = Bench::new();
    let program = "no-such-program-here".to_owned();
    bench.runner.start(launch(
        key(),
        CommandLine {
            program,
            ..CommandLine::default()
        },
    ));
    let ProcessEvent::NotStarted { message, .. } = bench.next().await else {
        panic!("it started")
    };
    assert!(message.contains("no-such-program-here"), "{message}");
    assert!(message.contains("No such file"), "{message}");
}

#[tokio::test]
async fn an_argument_with_a_nul_byte_is_an_error_and_nothing_more() {
    let mut bench = Bench::new();
    bench.runner.start(launch(key(), sh("echo a\0b")));
    let event = bench.next().await;
    assert!(
        matches!(&event, ProcessEvent::NotStarted { message, .. } if message.contains("nul")),
        "{event:?}"
    );
}

#[tokio::test]
async fn programs_get_their_placeholders_directory_and_a_small_environment() {
    let mut bench = Bench::new();
    let key = WorkKey::executor("app-1", 3);
    let mut command = sh("echo {{APP_ID}} {{EXECUTOR_ID}} {{CORES}} {{MASTERS}} $WHERE; pwd; env");
    command
        .env
        .insert("WHERE".to_owned(), "{{HOSTNAME}}@{{EPOCH}}".to_owned());
    bench.runner.start(launch(key, command));
    bench.started().await;
    bench.next().await;
    let output = bench.read("app-1/3/stdout");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "app-1 3 2 127.0.0.1:7077 h1@5");
    let directory = bench.path("app-1/3").canonicalize().unwrap();
    assert_eq!(lines[1], directory.to_str().unwrap());
    assert!(lines.contains(&"INTERREX_EXECUTOR_ID=3"));
    assert!(
        !output.contains("CARGO_"),
        "the agent's own environment leaked: {output}"
    );
}

#[tokio::test]
async fn a_kill_leaves_time_for_an_orderly_end() {
    let mut bench = Bench::new();
    bench.runner.start(launch(
        key(),
        sh("trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.05; done"),
    ));
    bench.started().await;
    eventually("the trap", || {
        (bench.read("d1/stdout") == "up\n").then_some(())
    })
    .await;
    bench.runner.kill(&key(), PATIENCE);
    assert_eq!(bench.next().await, ended(code(9), EndCause::Order));
    assert_eq!(bench.read("d1/stdout"), "up\nbye\n");
}

#[tokio::test]
async fn a_kill_ends_what_ignores_sigterm_when_the_grace_is_over() {
    let mut bench = Bench::new();
    // The grandchild leaves its group and session, and ignores SIGTERM too.
    let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >inner; while :; do sleep 0.05; done' & \
                  while :; do sleep 0.05; done";
    bench.runner.start(launch(key(), sh(script)));
    let main = bench.started().await;
    let inner = pid_in(&bench.path("d1/inner")).await;
    let began = Instant::now();
    bench.runner.kill(&key(), Duration::from_millis(300));
    assert_eq!(
        bench.next().await,
        ended(signal(Signal::SIGKILL), EndCause::Order)
    );
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert!(!alive(main) && !alive(inner));
}

#[tokio::test]
async fn nothing_outlives_a_program_that_ends_by_itself() {
    let mut bench = Bench::new();
    let script = "setsid sh -c 'trap \"\" TERM; echo $$ >daemon; sleep 1000' & \
                  (trap '' TERM; sh -c 'echo $$ >child; sleep 1000') & \
                  while ! [ -s daemon ] || ! [ -s child ]; do sleep 0.01; done; exit 4";
    bench.runner.start(launch(key(), sh(script)));
    bench.started().await;
    assert_eq!(bench.next().await, ended(code(4), EndCause::Itself));
    let (daemon, child) = (
        pid_in(&bench.path("d1/daemon")).await,
        pid_in(&bench.path("d1/child")).await,
    );
    assert!(!alive(daemon) && !alive(child));
}

#[tokio::test]
async fn a_stopped_program_is_ended_too() {
    let mut bench = Bench::new();
    bench.runner.start(launch(key(), sh("kill -STOP $$")));
    let main = bench.started().await;
    eventually("the stop", || {
        (proc::stat(main)?.state == 'T').then_some(())
    })
    .await;
    bench.runner.kill(&key(), Duration::from_millis(100));
    assert_eq!(
        bench.next().await,
        ended(signal(Signal::SIGKILL), EndCause::Order)
    );
}

#[tokio::test]
async fn a_kill_right_after_the_start_is_obeyed() {
    let mut bench = Bench::new();
    bench.runner.start(launch(key(), sh("sleep 1000")));
    bench.runner.kill(&key(), PATIENCE);
    let last = match bench.next().await {
        ProcessEvent::Started { .. } => bench.next().await,
        other => other,
    };
    assert!(
        matches!(
            last,
            ProcessEvent::Ended {
                cause: EndCause::Order,
                ..
            }
        ),
        "{last:?}"
    );
}

#[tokio::test]
async fn the_agent_ends_the_tree_of_a_killed_supervisor() {
    let mut bench = Bench::new();
    let script =
        "setsid sh -c 'echo $$ >daemon; sleep 1000' & sh -c 'echo $$ >child; exec sleep 1000'";
    bench.runner.start(launch(key(), sh(script)));
    let main = bench.started().await;
    let (daemon, child) = (
        pid_in(&bench.path("d1/daemon")).await,
        pid_in(&bench.path("d1/child")).await,
    );
    let supervisor = proc::stat(main).unwrap().parent;
    kill(Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
    // Not as if it had never run: then it might be started again.
    let killed = signal(Signal::SIGKILL);
    assert_eq!(bench.next().await, ended(killed, EndCause::SupervisorLost));
    assert!(!alive(main) && !alive(daemon) && !alive(child));
}

#[tokio::test]
async fn a_stranger_with_the_recorded_pid_is_never_signalled() {
    let mut stranger = Owned::spawn(Command::new("sleep").arg("1000").process_group(0));
    let pid = i32::try_from(stranger.id()).unwrap();
    let start_ticks = proc::stat(pid).unwrap().start_ticks;
    let main = |start_ticks| interrex_agent::process::protocol::MainProcess { pid, start_ticks };
    assert_eq!(
        proc::sweep("some-token", Some(main(start_ticks + 1))).unwrap(),
        0
    );
    assert!(alive(pid));
    assert_eq!(
        proc::sweep("some-token", Some(main(start_ticks))).unwrap(),
        1
    );
    stranger.wait().unwrap();
}

/// A supervisor as an agent would have it, held by a shell that stands for the agent.
pub(crate) struct Orphans {
    pub(crate) bench: Bench,
    holder: Owned,
    token: String,
}

/// Starts `script` under a supervisor whose stdin is held by a process that is not this one.
fn under_a_holder(script: &str) -> Orphans {
    under_a_holder_with(script, 200)
}

fn under_a_holder_with(script: &str, grace_ms: u64) -> Orphans {
    under_a_holder_for(script, grace_ms, None)
}

pub(crate) fn under_a_holder_for(script: &str, grace_ms: u64, lease: Option<Lease>) -> Orphans {
    let bench = Bench::new();
    // Of its own: other tests sweep at the same time.
    let token = uuid::Uuid::new_v4().to_string();
    let record = AttemptRecord {
        key: key(),
        token: token.clone(),
        cores: 1,
        memory_mib: 1,
        started_at_ms: 1,
        resources: Default::default(),
    };
    let path = bench.record(&key());
    record::write(&path, &record).unwrap();
    std::fs::create_dir(bench.path("d1")).unwrap();
    let spec = ProgramSpec {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: vec![
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            (proc::TOKEN_VARIABLE.to_owned(), token.clone()),
        ],
        directory: bench.path("d1"),
        stdout: bench.path("d1/stdout"),
        stderr: bench.path("d1/stderr"),
        grace_ms,
        lease,
    };
    let mut line = serde_json::to_vec(&spec).unwrap();
    line.push(b'\n');
    std::fs::write(bench.path("spec"), line).unwrap();
    // The holder opens the pipe for writing, starts the supervisor on it, and waits to be killed.
    let script =
        "mkfifo pipe; \"$0\" \"$1\" <pipe >notices & exec 3>pipe; cat spec >&3; exec sleep 1000";
    let mut holder = Command::new("sh");
    holder
        .arg("-c")
        .arg(script)
        .arg(&supervisor()[0])
        .arg(&path)
        .current_dir(bench.directory.path())
        .stdin(Stdio::null())
        .process_group(0);
    let holder = Owned::spawn(&mut holder);
    Orphans {
        bench,
        holder,
        token,
    }
}

impl Orphans {
    fn notices(&self) -> Vec<Notice> {
        let text = std::fs::read_to_string(self.bench.path("notices")).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    pub(crate) fn kill_holder(&mut self) {
        self.holder.kill().unwrap();
        self.holder.wait().unwrap();
    }

    /// What the next life of the agent hears of the attempt.
    pub(crate) async fn next_life(&mut self) -> ProcessEvent {
        let records = record::list(&self.bench.path(".running")).unwrap();
        let [(path, record)] = <[_; 1]>::try_from(records).unwrap();
        self.bench.runner.resume(path, record);
        self.bench.next().await
    }
}

#[tokio::test]
async fn the_tree_dies_with_an_agent_that_is_killed() {
    let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >daemon; sleep 1000' & \
                  echo $$ >main; while :; do sleep 0.05; done";
    let mut orphans = under_a_holder(script);
    let main = pid_in(&orphans.bench.path("d1/main")).await;
    let daemon = pid_in(&orphans.bench.path("d1/daemon")).await;
    orphans.kill_holder();
    // The next life hears of it only when it is over.
    let event = orphans.next_life().await;
    assert_eq!(event, ended(signal(Signal::SIGKILL), EndCause::AgentGone));
    assert!(!alive(main) && !alive(daemon));
}

#[tokio::test]
async fn a_stopped_supervisor_of_a_former_life_is_ended_in_the_end() {
    let script = "trap '' TERM; echo $$ >main; while :; do sleep 0.05; done";
    let mut orphans = under_a_holder_with(script, 600_000);
    let main = pid_in(&orphans.bench.path("d1/main")).await;
    let supervisor = Pid::from_raw(proc::stat(main).unwrap().parent);
    orphans.kill_holder();
    // Not before: the kernel lets a stopped group go on when it loses its last link to a terminal's session.
    kill(supervisor, Signal::SIGSTOP).unwrap();
    let event = orphans.next_life().await;
    assert_eq!(event, ended(None, EndCause::AgentGone));
    assert!(!alive(main) && !alive(supervisor.as_raw()));
}

#[tokio::test]
async fn the_next_life_learns_the_true_exit_of_a_program_that_ended_by_itself() {
    let mut orphans = under_a_holder("exit 6");
    eventually("the end", || {
        orphans
            .notices()
            .iter()
            .any(|notice| matches!(notice, Notice::Ended(_)))
            .then_some(())
    })
    .await;
    orphans.kill_holder();
    assert_eq!(orphans.next_life().await, ended(code(6), EndCause::Itself));
    // A life that dies before it has reported this hears the same again.
    assert_eq!(orphans.next_life().await, ended(code(6), EndCause::Itself));
    let path = orphans.bench.record(&key());
    record::remove(&path).unwrap();
    assert_eq!(record::list(&orphans.bench.path(".running")).unwrap(), []);
}

#[tokio::test]
async fn the_next_life_ends_a_tree_whose_agent_and_supervisor_were_both_killed() {
    let mut orphans =
        under_a_holder("setsid sh -c 'echo $$ >daemon; sleep 1000' & echo $$ >main; sleep 1000");
    let main = pid_in(&orphans.bench.path("d1/main")).await;
    let daemon = pid_in(&orphans.bench.path("d1/daemon")).await;
    let supervisor = proc::stat(main).unwrap().parent;
    kill(Pid::from_raw(supervisor), Signal::SIGKILL).unwrap();
    orphans.kill_holder();
    assert!(alive(main) && alive(daemon));
    assert_eq!(orphans.next_life().await, ended(None, EndCause::AgentGone));
    assert!(!alive(main) && !alive(daemon));
    assert_eq!(proc::sweep(&orphans.token, None).unwrap(), 0);
}

#[tokio::test]
async fn a_supervisor_that_comes_too_late_for_its_record_starts_nothing() {
    let bench = Bench::new();
    let mut child = Command::new(&supervisor()[0])
        .arg(bench.record(&key()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may be gone before it is written to.
    drop(stdin.write_all(b"{}\n"));
    let output = soon(
        "its end",
        tokio::task::spawn_blocking(|| child.wait_with_output()),
    )
    .await;
    let output = output.unwrap().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        matches!(serde_json::from_str(&text), Ok(Notice::NotStarted { .. })),
        "{text}"
    );
}
