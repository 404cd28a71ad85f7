//! The driver: an application with executors, and the server that they get their pieces from.

use std::{
    collections::BTreeSet,
    io::Write,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use interrex_client::{
    app::{AppClient, AppEnd, AppEvent, AppEvents, AppHandle, AppOptions, UnregisterError},
    masters,
};
use interrex_proto::v1::{ApplicationSpec, CommandLine};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use crate::{
    DriverArgs,
    count::{self, Counts},
    frame::{self, Order, Report},
    shards::Shards,
    text,
};

/// How long the end may take to be confirmed.
const UNREGISTER_DEADLINE: Duration = Duration::from_secs(60);
/// Memory of each executor, in MiB.
const EXECUTOR_MEMORY_MIB: u64 = 256;
/// Words that are printed.
const TOP: usize = 10;

/// What the server's connections share.
#[derive(Debug)]
struct Board {
    shards: Mutex<Shards>,
    /// A piece was counted or given back.
    changed: Notify,
    delay: Duration,
}

/// What happened to the executors.
#[derive(Debug, Default)]
struct Executors {
    seen: BTreeSet<u32>,
    failovers: u32,
}

/// Runs the driver to its end.
pub(crate) async fn run(args: DriverArgs) -> Result<()> {
    let masters = args
        .masters
        .as_deref()
        .context("no masters: set INTERREX_MASTERS")?;
    let masters = masters::parse([masters])?;
    let text = text::load(&args.text)?;
    let shards = Shards::cut(&text, args.shards);
    say(&format!("{} bytes in {} pieces", text.len(), shards.len()));
    let board = Arc::new(Board {
        shards: Mutex::new(shards),
        changed: Notify::new(),
        delay: args.shard_delay(),
    });
    let listener = TcpListener::bind(&args.listen)
        .await
        .context("listening for executors")?;
    let address = listener.local_addr()?;
    let options = AppOptions::new(masters, spec(args.executors, &address.to_string())?);
    let (app, events) = AppClient::start_with_events(options)?;
    tokio::spawn(serve(listener, Arc::clone(&board)));
    let executors = watch(&app, events, &board).await?;
    match app
        .unregister(false, "all words are counted", UNREGISTER_DEADLINE)
        .await
    {
        // All executors had completed, so the cluster had ended the application by itself.
        Ok(()) | Err(UnregisterError::Over(AppEnd::Finished { .. })) => {}
        Err(error) => return Err(error.into()),
    }
    finish(&args, &text, &board, &executors)
}

/// Follows the application until every piece is counted.
async fn watch(app: &AppHandle, mut events: AppEvents, board: &Board) -> Result<Executors> {
    let mut executors = Executors::default();
    let mut said = 0;
    loop {
        let changed = board.changed.notified();
        let done = board.with(|shards| {
            let done = shards.done() * 10 / shards.len().max(1);
            if done > said {
                said = done;
                say(&format!("{} of {} pieces", shards.done(), shards.len()));
            }
            shards.complete()
        });
        if done {
            return Ok(executors);
        }
        tokio::select! {
            () = changed => {}
            event = events.recv() => match event {
                Some(event) => executors.note(&event),
                None => bail!("the application ended early: {:?}", app.wait().await),
            },
        }
    }
}

/// Gives every executor that connects its pieces.
#[expect(clippy::infinite_loop, reason = "serves until the program ends")]
async fn serve(listener: TcpListener, board: Arc<Board>) {
    // Most failures of `accept` concern one connection only; the pause keeps the others from a busy loop.
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let board = Arc::clone(&board);
                tokio::spawn(async move {
                    if let Err(error) = board.attend(stream).await {
                        say(&format!("an executor's connection: {error:#}"));
                    }
                });
            }
            Err(error) => {
                say(&format!("accepting an executor: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn finish(args: &DriverArgs, text: &str, board: &Board, executors: &Executors) -> Result<()> {
    let (total, again) = board.with(|s| (s.total().clone(), s.handed_out_again()));
    let mut lines = String::new();
    for (word, count) in count::top(&total, TOP) {
        lines.push_str(&format!("{count:>9}  {word}\n"));
    }
    lines.push_str(&format!(
        "total {} words, {} different\n",
        total.values().sum::<u64>(),
        total.len()
    ));
    lines.push_str(&format!(
        "executor restarts {}, pieces handed out again {again}, leaders lost {}\n",
        executors.restarts(args.executors),
        executors.failovers
    ));
    if args.verify {
        verify(&total, text)?;
        lines.push_str("verified: equal to a direct count\n");
    }
    std::io::stdout().lock().write_all(lines.as_bytes())?;
    Ok(())
}

fn verify(total: &Counts, text: &str) -> Result<()> {
    let direct = count::words(text);
    let (ours, right) = (total.values().sum::<u64>(), direct.values().sum::<u64>());
    ensure!(
        *total == direct,
        "the executors counted {ours} words, a direct count {right}"
    );
    Ok(())
}

fn spec(executors: u32, address: &str) -> Result<ApplicationSpec> {
    let program = std::env::current_exe().context("finding this program")?;
    let program = program
        .to_str()
        .context("the path of this program is not UTF-8")?
        .to_owned();
    let args = ["executor", "--driver", address]
        .map(str::to_owned)
        .to_vec();
    Ok(ApplicationSpec {
        name: "wordcount".to_owned(),
        user: std::env::var("USER").unwrap_or_default(),
        command: Some(CommandLine {
            program,
            args,
            ..CommandLine::default()
        }),
        cores_max: Some(executors),
        cores_per_executor: Some(1),
        memory_mib_per_executor: EXECUTOR_MEMORY_MIB,
        executor_limit: Some(executors),
        completes: true,
        ..ApplicationSpec::default()
    })
}

/// Talk goes to stderr; the result goes to stdout.
pub(crate) fn say(words: &str) {
    // Without a stderr nobody is left to be told.
    drop(writeln!(std::io::stderr().lock(), "{words}"));
}

// === impl Board ===

impl Board {
    fn with<T>(&self, work: impl FnOnce(&mut Shards) -> T) -> T {
        work(&mut self.shards.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves one executor until all is done, or it is gone: then its piece goes back.
    async fn attend(&self, mut stream: TcpStream) -> Result<()> {
        let Some(Report::Hello { executor }) = frame::read(&mut stream).await? else {
            bail!("it did not say who it is");
        };
        say(&format!("executor {executor} is here"));
        loop {
            let changed = self.changed.notified();
            let Some((shard, text)) = self.with(Shards::take) else {
                if self.with(|shards| shards.complete()) {
                    return frame::write(&mut stream, &Order::Done).await;
                }
                // The last pieces are with others, who may yet give them back.
                changed.await;
                continue;
            };
            let delay_ms = u64::try_from(self.delay.as_millis())?;
            let counted = count_at(&mut stream, shard, text, delay_ms).await;
            let lost = match counted {
                Ok(counts) => {
                    self.with(|shards| shards.counted(shard, counts));
                    None
                }
                Err(error) => {
                    self.with(|shards| shards.give_back(shard));
                    Some(error)
                }
            };
            self.changed.notify_waiters();
            if let Some(error) = lost {
                return Err(error.context(format!("executor {executor} is lost")));
            }
        }
    }
}

async fn count_at(
    stream: &mut TcpStream,
    shard: u32,
    text: String,
    delay_ms: u64,
) -> Result<Counts> {
    frame::write(
        stream,
        &Order::Count {
            shard,
            text,
            delay_ms,
        },
    )
    .await?;
    match frame::read(stream).await? {
        Some(Report::Counted {
            shard: answered,
            counts,
        }) if answered == shard => Ok(counts),
        Some(Report::Counted { .. } | Report::Hello { .. }) => bail!("an unexpected answer"),
        None => bail!("the connection was closed"),
    }
}

// === impl Executors ===

impl Executors {
    fn note(&mut self, event: &AppEvent) {
        match event {
            AppEvent::Connected { app_id } => say(&format!("application {app_id}")),
            AppEvent::Disconnected => {
                self.failovers += 1;
                say("the leader is gone; counting goes on");
            }
            AppEvent::ExecutorAdded(e) => {
                self.seen.insert(e.executor_id);
            }
            AppEvent::ExecutorUpdated(_) => {}
            AppEvent::ExecutorRemoved(e) => {
                say(&format!(
                    "executor {} is over: {} {}",
                    e.executor_id, e.state, e.message
                ));
            }
            AppEvent::WorkerRemoved(w) => say(&format!("worker {} is lost", w.worker_id)),
            AppEvent::Dead { reason } => say(&format!("the application is dead: {reason}")),
            AppEvent::Finished { .. } => {}
        }
    }

    /// Executors beyond those that were asked for stand in for one that failed.
    fn restarts(&self, wanted: u32) -> u32 {
        u32::try_from(self.seen.len())
            .unwrap_or(u32::MAX)
            .saturating_sub(wanted)
    }
}
