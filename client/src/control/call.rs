//! One call with all its attempts: find the leader, bound every wait, try again where that is safe.
//!
//! A master that does not answer delays a call by `hedge` only: then the next one is asked as well, and the
//! first answer wins. That is done with calls that may be repeated (reads, and mutations with a request id); others
//! are tried at one master after the other, and never after an attempt whose outcome is unknown.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use interrex_proto::{
    channel,
    credentials::MasterChannel,
    limits,
    trace::{self, TARGET},
    v1::control_client::ControlClient as GrpcClient,
};
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Request, Response, Status};
use tracing::{Instrument, Span};

use super::{
    book::Book,
    error::{ClientError, Tried},
    options::{ClientOptions, OptionsError},
    verdict::Verdict,
};
use crate::{
    backoff::{Backoff, Jitter},
    masters, metrics,
};

/// Longest total deadline: clocks end, and a deadline beyond that would be none.
const TOTAL_DEADLINE_MAX: Duration = Duration::from_hours(24 * 365);
/// Most hints followed in one call between two waits.
const REDIRECTS_MAX: u32 = 4;
/// Most channels kept; beyond that (masters learnt from hints) all are dialled anew.
const CHANNELS_MAX: usize = 2 * masters::MASTERS_MAX;

/// Makes calls. Shared by the clones of a client.
#[derive(Debug)]
pub(super) struct Caller {
    options: ClientOptions,
    backoff: Backoff,
    state: Mutex<State>,
}

/// What may be done with a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// Repeating it has no second effect.
    pub(super) repeatable: bool,
    /// It changes something: an unknown outcome matters.
    pub(super) mutates: bool,
    /// Any master answers it, not the leader only.
    pub(super) any_master: bool,
    /// How long to wait for an answer before another master is asked as well, where that is safe.
    pub(super) hedge: Duration,
    /// How long one attempt may take.
    pub(super) attempt: Duration,
    /// How long all of it may take.
    pub(super) total: Duration,
}

#[derive(Debug)]
struct State {
    book: Book,
    jitter: Jitter,
    channels: BTreeMap<String, MasterChannel>,
}

/// The course of one call: whom to ask next and when, and what was said so far.
struct Course {
    queue: VecDeque<String>,
    in_flight: BTreeMap<String, Instant>,
    asked: BTreeSet<String>,
    redirects: u32,
    round: u32,
    next_at: Instant,
    tried: BTreeMap<String, String>,
    busy: Option<String>,
    outcome_unknown: bool,
}

// === impl Caller ===

impl Caller {
    pub(super) fn new(mut options: ClientOptions) -> Result<Self, OptionsError> {
        options.total_deadline = options.total_deadline.min(TOTAL_DEADLINE_MAX);
        let (masters, backoff) = options.validate()?;
        let state = State {
            book: Book::new(masters, options.suspect_for),
            jitter: Jitter::from_seed(options.seed),
            channels: BTreeMap::new(),
        };
        Ok(Self {
            options,
            backoff,
            state: Mutex::new(state),
        })
    }

    pub(super) fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Makes the call until it has an answer, a final refusal, or no time left.
    ///
    /// # Cancel safety
    /// A dropped call may have been carried out.
    pub(super) async fn call<T, R, F, Fut>(
        &self,
        message: T,
        policy: Policy,
        method: F,
    ) -> Result<R, ClientError>
    where
        T: Clone + prost::Message,
        F: Fn(GrpcClient<MasterChannel>, Request<T>) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        // The transport would end the stream instead of naming the bound.
        let size = message.encoded_len();
        if size > limits::MESSAGE_BYTES_MAX {
            let max = limits::MESSAGE_BYTES_MAX;
            let message = format!("the request has {size} bytes, at most {max} can be sent");
            return Err(ClientError::Invalid { message });
        }
        let began = Instant::now();
        let deadline = began + policy.total;
        // An attempt cut off by the deadline would make a plain "no leader" an unknown outcome.
        let start_by = deadline - policy.hedge.min(policy.total / 4);
        let mut course = Course::new(self.order(began), began);
        let mut attempts = FuturesUnordered::new();
        loop {
            let idle = attempts.is_empty();
            let may_start = idle || (policy.repeatable && course.next_at < start_by);
            tokio::select! {
                biased;
                Some(attempt) = attempts.next(), if !attempts.is_empty() => {
                    let (master, result): (String, Result<R, Verdict>) = attempt;
                    course.in_flight.remove(&master);
                    if let Some(result) = self.judge(&mut course, &master, result, policy) {
                        return result;
                    }
                    self.plan_next(&mut course);
                }
                () = until(course.next_at.min(start_by)), if may_start => {
                    if course.next_at >= start_by {
                        return Err(course.into_error(began, policy));
                    }
                    if let Some(master) = self.next_master(&mut course, policy.hedge) {
                        let limit = policy.attempt.min(deadline - Instant::now());
                        attempts.push(self.attempt(master, message.clone(), limit, &method));
                    }
                }
                () = sleep_until(deadline) => return Err(course.into_error(began, policy)),
            }
        }
    }

    /// Every master that is known.
    pub(super) fn masters(&self) -> Vec<String> {
        self.order(Instant::now())
    }

    /// The cluster says who its masters are.
    pub(super) fn learn(&self, named: impl Iterator<Item = String>) {
        self.state().book.learn(named);
    }

    /// One attempt at one master, for a call that chooses its master itself.
    pub(super) async fn attempt<T, R, F, Fut>(
        &self,
        master: String,
        message: T,
        limit: Duration,
        method: &F,
    ) -> (String, Result<R, Verdict>)
    where
        F: Fn(GrpcClient<MasterChannel>, Request<T>) -> Fut,
        Fut: Future<Output = Result<Response<R>, Status>>,
    {
        let client = match self.client(&master) {
            Ok(client) => client,
            Err(error) => {
                return (
                    master,
                    Err(Verdict::Unreachable {
                        said: error.to_string(),
                    }),
                );
            }
        };
        let mut request = Request::new(message);
        request.set_timeout(limit);
        let span = span(&master);
        trace::inject(&span, request.metadata_mut());
        let result = match timeout(limit, method(client, request).instrument(span)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Verdict::of(&status)),
            Err(_) => Err(Verdict::Unknown {
                said: format!("no answer within {limit:?}"),
            }),
        };
        (master, result)
    }

    /// Takes in what came of an attempt; `Some` ends the call.
    fn judge<R>(
        &self,
        course: &mut Course,
        master: &str,
        result: Result<R, Verdict>,
        policy: Policy,
    ) -> Option<Result<R, ClientError>> {
        let now = Instant::now();
        let mut state = self.state();
        let said = match result {
            Ok(answer) => {
                metrics::call_attempt("ok");
                state.book.answered(master, !policy.any_master);
                let slow = now.checked_sub(policy.hedge);
                for (other, since) in &course.in_flight {
                    if slow.is_some_and(|slow| *since <= slow) {
                        state.book.suspect(other, now);
                    }
                }
                return Some(Ok(answer));
            }
            Err(Verdict::Final(error)) => {
                metrics::call_attempt("refused");
                state.book.answered(master, !policy.any_master);
                return Some(Err(error));
            }
            Err(Verdict::Redirect { hint, said }) => {
                state.book.not_leader(master);
                let usable =
                    masters::is_address(&hint.rpc) && !state.book.is_suspect(&hint.rpc, now);
                if usable && course.redirect(&hint.rpc) {
                    metrics::redirect_followed();
                }
                said
            }
            Err(Verdict::NotServed { said }) => {
                state.book.not_leader(master);
                said
            }
            Err(Verdict::Busy { said }) => {
                course.busy = Some(said.clone());
                said
            }
            Err(Verdict::Unreachable { said }) => {
                state.book.suspect(master, now);
                said
            }
            Err(Verdict::Unknown { said }) => {
                state.book.suspect(master, now);
                state.channels.remove(master);
                course.outcome_unknown |= policy.mutates;
                said
            }
        };
        metrics::call_attempt("retried");
        course.tried.insert(master.to_owned(), said);
        // Without a request id nobody may try again what has perhaps been done.
        (course.outcome_unknown && !policy.repeatable).then(|| {
            Err(ClientError::Timeout {
                waited: policy.attempt,
                outcome_unknown: true,
            })
        })
    }

    /// After a refusal the next master is asked at once; when all have been asked, after a back-off.
    fn plan_next(&self, course: &mut Course) {
        let now = Instant::now();
        let wait = if course.queue.is_empty() {
            self.pause(course.round)
        } else {
            Duration::ZERO
        };
        course.next_at = course.next_at.min(now + wait);
        if course.queue.is_empty() {
            // A wait that is over already would turn refusals into a busy loop.
            course.next_at = course.next_at.max(now + self.options.backoff_min / 2);
        }
    }

    /// The next master to ask now. Also says when the one after it is due.
    fn next_master(&self, course: &mut Course, hedge: Duration) -> Option<String> {
        let now = Instant::now();
        if course.queue.is_empty() {
            course.round = course.round.saturating_add(1);
            course.redirects = 0;
            course.asked.clear();
            course.queue = self.order(now).into();
        }
        let in_flight = &course.in_flight;
        course
            .queue
            .retain(|master| !in_flight.contains_key(master));
        let master = course.queue.pop_front();
        if let Some(master) = &master {
            course.asked.insert(master.clone());
            course.in_flight.insert(master.clone(), now);
        }
        let pause = if course.queue.is_empty() {
            self.pause(course.round)
        } else {
            Duration::ZERO
        };
        course.next_at = now + hedge.max(pause);
        master
    }

    fn pause(&self, round: u32) -> Duration {
        self.backoff.delay(round, &mut self.state().jitter)
    }

    fn order(&self, now: Instant) -> Vec<String> {
        self.state().book.order(now)
    }

    /// A client on the cached channel to `master`.
    fn client(&self, master: &str) -> Result<GrpcClient<MasterChannel>, channel::AddressError> {
        let mut state = self.state();
        let channel = match state.channels.get(master) {
            Some(channel) => channel.clone(),
            None => {
                if state.channels.len() >= CHANNELS_MAX {
                    state.channels.clear();
                }
                let channel = channel::dial(master, &self.options.channel)?;
                state.channels.insert(master.to_owned(), channel.clone());
                channel
            }
        };
        Ok(GrpcClient::new(channel)
            .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(limits::MESSAGE_BYTES_MAX))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What is in there is a cache: after a panic elsewhere it is as good as before.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The span of one attempt, where the whole call is in one.
fn span(master: &str) -> Span {
    if trace::here().is_none() {
        return Span::none();
    }
    tracing::trace_span!(
        target: TARGET,
        "attempt",
        otel.kind = "client",
        rpc.system = "grpc",
        server.address = master,
    )
}

/// Waits until `moment`; a moment that has come costs nothing (a timer would round it up to a millisecond).
async fn until(moment: Instant) {
    if moment > Instant::now() {
        sleep_until(moment).await;
    }
}

// === impl Course ===

impl Course {
    fn new(order: Vec<String>, now: Instant) -> Self {
        Self {
            queue: order.into(),
            in_flight: BTreeMap::new(),
            asked: BTreeSet::new(),
            redirects: 0,
            round: 0,
            next_at: now,
            tried: BTreeMap::new(),
            busy: None,
            outcome_unknown: false,
        }
    }

    /// Puts a hinted leader in front, unless it has been asked in this round.
    fn redirect(&mut self, leader: &str) -> bool {
        let fresh = !self.asked.contains(leader) && self.redirects < REDIRECTS_MAX;
        if fresh {
            self.redirects += 1;
            self.queue.retain(|master| master != leader);
            self.queue.push_front(leader.to_owned());
        }
        fresh
    }

    fn into_error(self, began: Instant, policy: Policy) -> ClientError {
        if self.outcome_unknown || (policy.mutates && !self.in_flight.is_empty()) {
            return ClientError::Timeout {
                waited: began.elapsed(),
                outcome_unknown: true,
            };
        }
        if let Some(message) = self.busy {
            return ClientError::Busy { message };
        }
        let unanswered = self
            .in_flight
            .into_keys()
            .map(|m| (m, "no answer".to_owned()));
        let mut tried = self.tried;
        tried.extend(unanswered);
        let tried = tried
            .into_iter()
            .map(|(master, said)| Tried { master, said })
            .collect();
        ClientError::NoLeader { tried }
    }
}
