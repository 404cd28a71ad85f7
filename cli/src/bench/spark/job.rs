//! One job of unmodified Spark, watched line by line: when its driver and its script say what.

use std::{
    collections::VecDeque,
    fs,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{sys::signal::Signal, unistd::Pid};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout},
    time::timeout,
};

use super::{WARM_STEPS, program::Program};
use crate::exit::{Exit, Failure};

/// How long anything of a job may take. Spark's own failover takes up to two minutes.
const DEADLINE: Duration = Duration::from_secs(300);
/// What Spark's driver logs when an executor has come to it.
const REGISTERED: &str = "Registered executor ";
/// The class that an executor's process runs.
const EXECUTOR: &str = "CoarseGrainedExecutorBackend";
/// Lines shown when a job ends as it should not.
const TAIL_LINES: usize = 30;

/// A running job; dropping it kills it.
#[derive(Debug)]
pub(super) struct Job {
    /// When it was started.
    pub(super) began: Instant,
    child: Child,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
    stderr: Option<Lines<BufReader<ChildStderr>>>,
    app: Option<String>,
    step: u32,
    tail: VecDeque<String>,
}

/// What a job says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// An executor has come to its driver.
    Executor,
    /// It has done this step, from 0.
    Step(u32),
    /// Something else.
    Other,
}

// === impl Job ===

impl Job {
    /// Starts so many steps of so many tasks.
    ///
    /// # Errors
    /// When `spark-submit` cannot be started.
    pub(super) fn start(
        program: &Program,
        masters: &str,
        [steps, tasks]: [u32; 2],
        task: Duration,
    ) -> Result<Self, Failure> {
        let mut command = program.submit();
        command.args(["--master", masters]);
        for setting in [
            "spark.executor.memory=512m",
            "spark.cores.max=1",
            "spark.ui.enabled=false",
        ] {
            command.args(["--conf", setting]);
        }
        command
            .arg(program.script())
            .args([steps.to_string(), tasks.to_string()])
            .arg(task.as_secs_f64().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|e| Failure::io("starting spark-submit", &e))?;
        Ok(Self {
            began,
            stdout: child.stdout.take().map(|pipe| BufReader::new(pipe).lines()),
            stderr: child.stderr.take().map(|pipe| BufReader::new(pipe).lines()),
            child,
            app: None,
            step: 0,
            tail: VecDeque::new(),
        })
    }

    /// Waits until it says something, and returns when it did.
    ///
    /// # Errors
    /// It ends before, or the deadline passes: with the last lines of what it said.
    pub(super) async fn until(
        &mut self,
        wanted: impl Fn(&Said) -> bool,
        what: &str,
    ) -> Result<Instant, Failure> {
        let waited = timeout(DEADLINE, async {
            while let Some(said) = self.next().await {
                if wanted(&said) {
                    return Some(Instant::now());
                }
            }
            None
        });
        match waited.await {
            Ok(Some(at)) => Ok(at),
            Ok(None) => Err(self.failure(Exit::Failed, &format!("a job ended before {what}"))),
            Err(_elapsed) => {
                let words = format!("a job without {what} after {DEADLINE:?}");
                Err(self.failure(Exit::Timeout, &words))
            }
        }
    }

    /// Waits for its good end, and returns when that was.
    ///
    /// # Errors
    /// It fails, or goes on beyond the deadline.
    pub(super) async fn end(&mut self) -> Result<Instant, Failure> {
        let ended = timeout(DEADLINE, async {
            while self.next().await.is_some() {}
            self.child.wait().await
        });
        match ended.await {
            Ok(Ok(status)) if status.success() => Ok(Instant::now()),
            Ok(Ok(status)) => Err(self.failure(Exit::Failed, &words(status))),
            Ok(Err(error)) => Err(Failure::io("waiting for spark-submit", &error)),
            Err(_elapsed) => Err(self.failure(Exit::Timeout, "a job does not end")),
        }
    }

    /// Kills its executor, and what else `also` kills, and waits until it has done another step. Returns how long that
    /// took.
    ///
    /// # Errors
    /// It has no executor, or does not go on.
    pub(super) async fn without_executor(
        &mut self,
        also: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Duration, Failure> {
        let warm = self.step + WARM_STEPS;
        self.until(|said| said.is_step(warm), "some steps").await?;
        let executors = executors_of(self.app.as_deref().unwrap_or_default());
        if executors.is_empty() {
            return Err(self.failure(Exit::Failed, "a job that works has no executor"));
        }
        also()?;
        for executor in executors {
            // It may end at this very moment.
            nix::sys::signal::kill(executor, Signal::SIGKILL).unwrap_or_default();
        }
        let killed = Instant::now();
        // A step may have been over already, and be told now: the one behind it shows that work goes on.
        let next = self.step + 2;
        let on = self
            .until(|said| said.is_step(next), "another step")
            .await?;
        Ok(on.duration_since(killed))
    }

    /// Ends it at once.
    pub(super) async fn kill(mut self) {
        // It may have ended by itself.
        self.child.kill().await.unwrap_or_default();
    }

    /// The next line; `None`: it has closed both outputs.
    async fn next(&mut self) -> Option<Said> {
        loop {
            let line = tokio::select! {
                line = next_line(&mut self.stdout), if self.stdout.is_some() => line,
                line = next_line(&mut self.stderr), if self.stderr.is_some() => line,
                else => return None,
            };
            if let Some(line) = line {
                return Some(self.heard(line));
            }
        }
    }

    fn heard(&mut self, line: String) -> Said {
        let said = match line.split_once(' ') {
            Some(("application", id)) => {
                self.app = Some(id.to_owned());
                Said::Other
            }
            Some(("step", number)) => number.parse().map_or(Said::Other, Said::Step),
            _ if line.contains(REGISTERED) => Said::Executor,
            Some(_) | None => Said::Other,
        };
        if let Said::Step(step) = said {
            self.step = step;
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
        said
    }

    fn failure(&self, exit: Exit, what: &str) -> Failure {
        let tail: Vec<&str> = self.tail.iter().map(String::as_str).collect();
        Failure::new(exit, format!("{what}; it said last:\n{}", tail.join("\n")))
    }
}

/// The next line of one output; at its end the output is given up.
async fn next_line<R: tokio::io::AsyncRead + Unpin>(
    lines: &mut Option<Lines<BufReader<R>>>,
) -> Option<String> {
    let next = match lines {
        Some(open) => open.next_line().await.ok().flatten(),
        None => None,
    };
    if next.is_none() {
        *lines = None;
    }
    next
}

fn words(status: ExitStatus) -> String {
    format!("a job ended with {status}")
}

/// The processes of an application's executors.
fn executors_of(app: &str) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let executors = processes.filter_map(|entry| {
        let pid = entry.file_name().to_string_lossy().parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split('\0');
        let is_java = words
            .next()
            .is_some_and(|program| program.ends_with("java"));
        let is_executor = is_java && line.contains(EXECUTOR) && words.any(|word| word == app);
        is_executor.then(|| Pid::from_raw(pid))
    });
    executors.collect()
}

// === impl Said ===

impl Said {
    pub(super) fn is_executor(&self) -> bool {
        *self == Self::Executor
    }

    /// This step or a later one.
    pub(super) fn is_step(&self, number: u32) -> bool {
        match self {
            Self::Step(step) => *step >= number,
            Self::Executor | Self::Other => false,
        }
    }
}
