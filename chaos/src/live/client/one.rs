//! The client that makes one submission, to be killed at a chosen point of it.

use std::{future::pending, io};

use super::{ClientPlace, Notes, Requests};
use crate::live::{clock::Clock, work::JobKind};

/// Where it waits to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It has said what it is about to do, and has sent nothing.
    BeforeSend,
    /// It has its answer.
    AfterReply,
    /// Nowhere: it ends by itself.
    No,
}

/// What it submits.
#[derive(Debug, Clone)]
pub struct OneRequest {
    /// Under which id.
    pub id: String,
    /// What.
    pub job: JobKind,
    /// Where to wait.
    pub hold: Hold,
}

/// Submits once (with all the repeating that takes), and ends or waits.
///
/// # Errors
/// Where its part of the history cannot be written.
pub async fn run_one(place: &ClientPlace, request: &OneRequest) -> io::Result<()> {
    let clock = Clock::began_at(place.began_us);
    let notes = Notes::open(&place.name, clock, &place.history)?;
    let requests = Requests::new(&place.masters, notes, place.site.clone())?;
    requests.begin_submit(&request.id, &request.job)?;
    if request.hold == Hold::BeforeSend {
        pending::<()>().await;
    }
    requests.submit_begun(&request.id, &request.job).await?;
    if request.hold == Hold::AfterReply {
        pending::<()>().await;
    }
    Ok(())
}
