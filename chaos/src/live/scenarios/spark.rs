//! A job of unmodified Spark that goes on while leaders die: every result must be right, and no executor lost by it.

use std::{ffi::OsString, fs, path::PathBuf, time::Duration};

use serde::Deserialize;

use super::leaders;
use crate::live::{
    options::{LiveError, LiveOptions},
    stage::Stage,
};

/// What must have happened: a kill of a leader, and a result after one.
pub(in crate::live) const PROOFS: [&str; 2] = ["leader-kill", "spark-result"];
/// The driver.
const DRIVER: &str = "spark";
/// Its program.
const SCRIPT: &str = include_str!("spark_job.py");
/// A virtual machine, or two, on a machine that is busy with other things.
const START_DEADLINE: Duration = Duration::from_secs(300);
/// A result after a kill.
const RESULT_DEADLINE: Duration = Duration::from_secs(120);
/// How long the driver may take to end when it is told that it is enough.
const END_DEADLINE: Duration = Duration::from_secs(120);
/// Between two kills.
const CALM: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(3));
/// The sum of what the first job adds up; the next one's is larger by [`STEP`].
const FIRST_SUM: u64 = 499_500;
const STEP: u64 = 1_000;

/// One line of what the driver has told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Told {
    /// A result.
    Result {
        step: u64,
        sum: u64,
        executors: Vec<String>,
    },
    /// It has ended its application in order.
    Stopped { stopped: bool },
}

/// What the driver has told so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Words {
    results: u64,
    /// Results that are wrong, in words.
    wrong: Vec<String>,
    /// Executors of the first result that had all of them, and those that came later in the place of others.
    replaced: Vec<String>,
    stopped: bool,
}

/// Runs the job, kills leaders under it, and ends it.
pub(in crate::live) async fn job(
    stage: &mut Stage<'_>,
    options: &LiveOptions,
) -> Result<(), LiveError> {
    let folder = stage.cluster.places.data(DRIVER);
    start(stage, options, &folder)?;
    if let Err(why) = results(stage, &folder, 2, START_DEADLINE).await {
        stage.journal.broken(DRIVER, &why);
        return Ok(());
    }
    stage.until = std::time::Instant::now() + Duration::from_secs(options.seconds);
    while stage.goes_on() {
        let Some(leader) = stage.settled().await else {
            break;
        };
        stage.pause_between(CALM.0, CALM.1).await;
        let before = read(&folder).results;
        leaders::kill_leader(stage, &leader).await?;
        // The first of them may have been under way when the leader died.
        let went_on = results(stage, &folder, before + 2, RESULT_DEADLINE).await;
        stage.journal.end(PROOFS[1], DRIVER, went_on.is_ok());
        if let Err(why) = went_on {
            stage.journal.broken(DRIVER, &why);
        }
    }
    end(stage, &folder).await
}

fn start(
    stage: &mut Stage<'_>,
    options: &LiveOptions,
    folder: &std::path::Path,
) -> Result<(), LiveError> {
    let io = |e: std::io::Error| LiveError::io(folder.display().to_string())(e);
    fs::create_dir_all(folder).map_err(io)?;
    let script = folder.join("job.py");
    fs::write(&script, SCRIPT).map_err(io)?;
    let home = options.spark_home.clone().unwrap_or_default();
    let masters = stage.cluster.places.masters_list().join(",");
    let parent = std::process::id().to_string();
    let mut args: Vec<OsString> = ["tied-program", &parent, "env"].map(Into::into).to_vec();
    let mut home_set = OsString::from("SPARK_HOME=");
    home_set.push(&home);
    args.extend([home_set, "SPARK_LOCAL_IP=127.0.0.1".into()]);
    if let Some(python) = python_of(&home) {
        let mut python_set = OsString::from("PYSPARK_PYTHON=");
        python_set.push(python);
        args.push(python_set);
    }
    args.push(home.join("bin/spark-submit").into());
    args.extend(["--master".into(), format!("spark://{masters}").into()]);
    for setting in [
        "spark.app.name=chaos-spark",
        "spark.driver.memory=512m",
        "spark.executor.memory=512m",
        "spark.executor.cores=1",
        "spark.cores.max=2",
        "spark.ui.enabled=false",
    ] {
        args.extend(["--conf".into(), setting.into()]);
    }
    args.extend([script.into(), folder.into()]);
    stage.start_with(DRIVER, args)
}

/// The interpreter that pip installed Spark for, which is that of executors too: `VENV/lib/pythonX/site-packages/pyspark`.
fn python_of(home: &std::path::Path) -> Option<PathBuf> {
    let python = home.ancestors().nth(4)?.join("bin/python");
    python.is_file().then_some(python)
}

/// Waits until there are so many results; what there was instead, and what is wrong with one of them.
async fn results(
    stage: &mut Stage<'_>,
    folder: &std::path::Path,
    count: u64,
    limit: Duration,
) -> Result<(), String> {
    let mut words = Words::default();
    let waited = stage
        .wait_until(limit, async |_stage| {
            words = read(folder);
            (words.results < count).then(|| format!("{} results", words.results))
        })
        .await;
    if let Err(there) = waited {
        let seconds = limit.as_secs();
        return Err(format!("no result for {seconds} s: {there}, not {count}"));
    }
    Ok(())
}

/// Says that it is enough, and judges all that was told.
async fn end(stage: &mut Stage<'_>, folder: &std::path::Path) -> Result<(), LiveError> {
    let enough = folder.join("enough");
    fs::write(&enough, "").map_err(LiveError::io(enough.display().to_string()))?;
    let ended = stage.ended(DRIVER, END_DEADLINE).await;
    let words = read(folder);
    stage.say(&format!("spark: {} results", words.results));
    if ended.as_deref() != Some("exit code 0") || !words.stopped {
        let how = ended.unwrap_or_else(|| "no end".to_owned());
        let what = format!("was to stop its application, and has {how}");
        stage.journal.broken(DRIVER, &what);
    }
    for wrong in &words.wrong {
        stage.journal.broken(DRIVER, wrong);
    }
    if !words.replaced.is_empty() {
        let what = format!(
            "executors were lost, though only leaders died: {:?} came later",
            words.replaced
        );
        stage.journal.broken(DRIVER, &what);
    }
    Ok(())
}

fn read(folder: &std::path::Path) -> Words {
    // Not there yet, or a line that is being written.
    Words::of(&fs::read_to_string(folder.join("steps.jsonl")).unwrap_or_default())
}

// === impl Words ===

impl Words {
    fn of(text: &str) -> Self {
        let mut words = Self::default();
        let mut known: Vec<String> = Vec::new();
        for told in text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
        {
            match told {
                Told::Stopped { stopped } => words.stopped = stopped,
                Told::Result {
                    step,
                    sum,
                    executors,
                } => {
                    let expected = FIRST_SUM + STEP * step;
                    if sum != expected || step != words.results {
                        let number = words.results;
                        words.wrong.push(format!(
                            "result {number} is {sum} of step {step}, not {expected}"
                        ));
                    }
                    words.results += 1;
                    // They come one by one at first; from two on any other one takes the place of one that was lost.
                    for executor in executors {
                        if known.len() >= 2 && !known.contains(&executor) {
                            words.replaced.push(executor.clone());
                        }
                        if !known.contains(&executor) {
                            known.push(executor);
                        }
                    }
                }
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted_and_judged_and_lost_executors_are_seen() {
        let text = concat!(
            r#"{"step": 0, "sum": 499500, "executors": ["0"]}"#,
            "\n",
            r#"{"step": 1, "sum": 500500, "executors": ["0", "1"]}"#,
            "\n",
            r#"{"stopped": true}"#,
            "\n",
            r#"{"step": 2, "su"#
        );
        let words = Words::of(text);
        assert_eq!((words.results, words.stopped), (2, true));
        assert_eq!((words.wrong.len(), words.replaced.len()), (0, 0));
        let wrong = Words::of(&text.replace("500500", "500499"));
        assert!(
            wrong.wrong[0].contains("500499 of step 1, not 500500"),
            "{wrong:?}"
        );
        let lost = format!(
            "{}\n{}",
            r#"{"step":0,"sum":499500,"executors":["0","1"]}"#,
            r#"{"step":1,"sum":500500,"executors":["1","2"]}"#
        );
        assert_eq!(Words::of(&lost).replaced, ["2"]);
        assert_eq!(Words::of(""), Words::default());
    }

    #[test]
    fn the_interpreter_is_the_one_that_spark_was_installed_for() {
        let venv = tempfile::tempdir().unwrap();
        let home = venv.path().join("lib/python3.11/site-packages/pyspark");
        assert_eq!(python_of(&home), None);
        fs::create_dir_all(venv.path().join("bin")).unwrap();
        fs::write(venv.path().join("bin/python"), "").unwrap();
        assert_eq!(python_of(&home), Some(venv.path().join("bin/python")));
    }
}
