//! The client that makes the load: submissions at a steady rate, some of them killed, all of them asked after.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use super::{ClientPlace, Notes, Requests, Told};
use crate::{
    live::{clock::Clock, work::JobKind},
    sim::chance::Chance,
};

/// Submissions without an answer at the same time; beyond that the load waits.
const OPEN_MAX: usize = 32;
/// The time between two reads.
const READ_EVERY: Duration = Duration::from_millis(150);
/// How many of its newest submissions it asks after.
const ASKED_AFTER: usize = 40;
/// Of a hundred submissions, so many are killed.
const KILLED_PERCENT: f64 = 6.0;

/// What a submitter is given.
#[derive(Debug, Clone)]
pub struct SubmitterOptions {
    /// Where it is.
    pub place: ClientPlace,
    /// Submissions a second.
    pub rate: f64,
    /// Its dice.
    pub seed: u64,
}

/// Submissions that it has been told of, the newest at the end.
type Known = Arc<Mutex<Vec<String>>>;

/// Submits until it is told to stop (SIGTERM), then waits for all answers.
///
/// # Errors
/// Where its part of the history cannot be written.
pub async fn run_submitter(options: SubmitterOptions) -> io::Result<()> {
    let place = &options.place;
    let mut term = signal(SignalKind::terminate())?;
    let notes = Notes::open(&place.name, Clock::began_at(place.began_us), &place.history)?;
    let mut requests = Requests::new(&place.masters, notes, place.site.clone())?;
    if !place.rest.is_empty() {
        requests = requests.over_rest(&place.rest)?;
    }
    let mut chance = Chance::new(options.seed);
    let known = Known::default();
    let mut open: JoinSet<io::Result<()>> = JoinSet::new();
    let reader = tokio::spawn(read(requests.clone(), Arc::clone(&known), chance.seed()));
    let every = Duration::from_secs_f64(1.0 / options.rate.max(0.01));
    let mut next = Instant::now();
    let mut number = 0_u64;
    loop {
        tokio::select! {
            _ = term.recv() => break,
            Some(done) = open.join_next(), if !open.is_empty() => done.map_err(io::Error::other)??,
            () = sleep_until(next), if open.len() < OPEN_MAX => {
                next = (next + every).max(Instant::now());
                number += 1;
                let id = format!("{}-{number}", place.name);
                let job = JobKind::draw(&mut chance);
                let killed = chance
                    .percent(KILLED_PERCENT)
                    .then(|| chance.time(Duration::ZERO, Duration::from_secs(1)));
                open.spawn(submit(requests.clone(), id, job, killed, Arc::clone(&known)));
            }
        }
    }
    reader.abort();
    while let Some(done) = open.join_next().await {
        done.map_err(io::Error::other)??;
    }
    Ok(())
}

async fn submit(
    requests: Requests,
    id: String,
    job: JobKind,
    killed: Option<Duration>,
    known: Known,
) -> io::Result<()> {
    if requests.submit(&id, &job).await? != Told::Ok {
        return Ok(());
    }
    {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.push(id.clone());
        let old = known.len().saturating_sub(ASKED_AFTER);
        known.drain(..old);
    }
    if let Some(after) = killed {
        sleep(after).await;
        requests.kill(&id).await?;
    }
    Ok(())
}

/// Reads, one after the other, what has not been seen to be over.
async fn read(requests: Requests, known: Known, seed: u64) -> io::Result<()> {
    let mut chance = Chance::new(seed);
    let mut over: BTreeSet<String> = BTreeSet::new();
    loop {
        sleep(READ_EVERY).await;
        let candidates: Vec<String> = {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            over.retain(|id| known.contains(id));
            known
                .iter()
                .filter(|id| !over.contains(*id))
                .cloned()
                .collect()
        };
        let Some(id) = candidates.get(chance.index(candidates.len())) else {
            continue;
        };
        let seen = requests.read(id).await?;
        // One more read than needed: what is over must stay so.
        if seen.is_some_and(|driver| is_over(&driver.state)) && chance.percent(70.0) {
            over.insert(id.clone());
        }
    }
}

/// Whether a driver in this state is over.
pub(in crate::live) fn is_over(state: &str) -> bool {
    matches!(state, "FINISHED" | "KILLED" | "FAILED" | "ERROR")
}
