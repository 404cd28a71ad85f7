//! Clients that die in the middle of a submission, which somebody repeats.

use std::time::{Duration, Instant};

use interrex_client::control::ClientError;
use nix::sys::signal::Signal;

use super::in_turn;
use crate::{
    history::{History, Kind, Op},
    live::{
        load::{Hold, OneShot},
        options::LiveError,
        proxy::Rule,
        stage::Stage,
        work::JobKind,
    },
};

/// Where clients die.
pub(in crate::live) const POINTS: [&str; 4] = [
    "client-before-send",
    "client-after-send",
    "client-after-commit",
    "client-after-reply",
];

/// How long it may take until a client is where it is to die.
const POINT_DEADLINE: Duration = Duration::from_secs(20);
/// How long its successor may take.
const RETRY_DEADLINE: Duration = Duration::from_secs(60);
/// So many bytes towards the leader are a request: more than a connection's first words, fewer than any submission.
const REQUEST_BYTES: u64 = 400;
/// How long the leader may stand still for it, far below the time after which another is elected.
const STILL_MAX: Duration = Duration::from_millis(80);

/// Kills clients at one point after the other until the time is over.
pub(in crate::live) async fn retry(stage: &mut Stage<'_>) -> Result<(), LiveError> {
    in_turn(stage, &POINTS, async |stage, point| {
        match stage.settled().await {
            Some(leader) => die_at(stage, point, &leader.node).await,
            None => Ok(()),
        }
    })
    .await
}

/// One client dies at `point`; another one repeats its submission at a standby.
async fn die_at(stage: &mut Stage<'_>, point: &str, leader: &str) -> Result<(), LiveError> {
    stage.tally.ones += 1;
    let number = stage.tally.ones;
    let (id, client) = (format!("retry-{number}"), format!("d{number}"));
    let mut job = JobKind::PLAIN;
    job.at_most_once = number.is_multiple_of(2);
    let mut shot = OneShot {
        client: client.clone(),
        id: id.clone(),
        job,
        hold: Hold::No,
        masters: vec![stage.cluster.places.proxied(leader).to_string()],
    };
    stage.journal.begin(point, &client);
    let there = match point {
        "client-before-send" => {
            shot.hold = Hold::BeforeSend;
            shot.start(stage)?;
            has_noted(stage, &client, Kind::Invoke).await
        }
        "client-after-send" => after_send(stage, &shot, leader).await?,
        "client-after-commit" => after_commit(stage, &shot, leader).await?,
        _after_reply => {
            shot.hold = Hold::AfterReply;
            shot.start(stage)?;
            has_noted(stage, &client, Kind::Ok).await
        }
    };
    let died = stage.kill(&client).await;
    stage.cluster.signal(leader, Signal::SIGCONT);
    stage.cluster.links.set(&client, leader, Rule::default());
    stage.journal.end(point, &client, there && died);
    repeat(stage, &id, job, leader, number).await
}

/// Its request is with the leader, which stands still.
async fn after_send(
    stage: &mut Stage<'_>,
    shot: &OneShot,
    leader: &str,
) -> Result<bool, LiveError> {
    let links = stage.cluster.links.clone();
    links.set(&shot.client, leader, Rule::CUT);
    shot.start(stage)?;
    let dialled = stage
        .wait_until(POINT_DEADLINE, async |_stage| {
            let touched = links.traffic(&shot.client, leader).touched > 0;
            (!touched).then(String::new)
        })
        .await;
    if dialled.is_err() || !stage.cluster.signal(leader, Signal::SIGSTOP) {
        return Ok(false);
    }
    links.set(&shot.client, leader, Rule::default());
    let still = Instant::now();
    while still.elapsed() < STILL_MAX {
        if links.traffic(&shot.client, leader).forth >= REQUEST_BYTES {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(false)
}

/// Its submission is known to the leader, and the answer has not arrived.
async fn after_commit(
    stage: &mut Stage<'_>,
    shot: &OneShot,
    leader: &str,
) -> Result<bool, LiveError> {
    let rule = Rule::NO_ANSWERS;
    stage.cluster.links.set(&shot.client, leader, rule);
    shot.start(stage)?;
    let observer = stage.observer.clone();
    let known = stage
        .wait_until(POINT_DEADLINE, async |_stage| {
            let known = matches!(observer.driver(&shot.id).await, Ok(Some(_)));
            (!known).then(String::new)
        })
        .await;
    Ok(known.is_ok())
}

/// Somebody else repeats the submission, at a master that does not lead; and nobody gets another one under its id.
async fn repeat(
    stage: &mut Stage<'_>,
    id: &str,
    job: JobKind,
    leader: &str,
    number: u32,
) -> Result<(), LiveError> {
    let mut standbys = stage.masters();
    standbys.retain(|master| master != leader);
    let standby = standbys.get(stage.chance.index(standbys.len())).cloned();
    let at = standby.unwrap_or_else(|| leader.to_owned());
    let again = OneShot {
        client: format!("r{number}"),
        id: id.to_owned(),
        job,
        hold: Hold::No,
        masters: vec![stage.cluster.places.proxied(&at).to_string()],
    };
    again.start(stage)?;
    let ended = again.ended(stage, RETRY_DEADLINE).await;
    if ended.as_deref() != Some("exit code 0") {
        let how = ended.unwrap_or_else(|| "nothing".to_owned());
        let what = format!("repeating {id} at {at} ended with {how}");
        stage.journal.broken(&again.client, &what);
        return Ok(());
    }
    let other = JobKind {
        work: job.work + Duration::from_millis(1),
        ..job
    };
    let spec = other.spec(&stage.site, id);
    match stage.observer.control().submit(id, spec).await {
        Err(ClientError::Conflict { .. }) => {}
        Err(error) if error.retryable() => {}
        Err(error) => {
            let what = format!("another submission under the id {id} is answered: {error}");
            stage.journal.broken(leader, &what);
        }
        Ok(answer) => {
            let driver = answer.driver.unwrap_or_default().id;
            let what = format!("another submission under the id {id} was taken, as {driver}");
            stage.journal.broken(leader, &what);
        }
    }
    Ok(())
}

/// Waits until `client` has written down a record of this kind about its submission.
async fn has_noted(stage: &mut Stage<'_>, client: &str, kind: Kind) -> bool {
    let path = stage.cluster.places.client_history(client);
    let noted = stage
        .wait_until(POINT_DEADLINE, async |_stage| {
            let text = std::fs::read(&path).unwrap_or_default();
            let seen = History::read(text.as_slice()).is_ok_and(|history| {
                let mut submits = history.about(Op::Submit);
                submits.any(|record| record.kind == kind)
            });
            (!seen).then(String::new)
        })
        .await;
    noted.is_ok()
}
