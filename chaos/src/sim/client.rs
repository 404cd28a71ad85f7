//! Somebody who submits, kills and asks: repeats a request under the same id until it has an answer, at one master
//! after the other, and calls it unknown when it gives up.

use std::{collections::BTreeMap, time::Duration};

use serde_json::json;

use super::{
    clock::At,
    env::{CallId, Env, Happening, Request, Response, Seen},
    follow::Follow,
    net::Node,
    plan::Job,
};
use crate::history::{Kind, Op};

/// How long an answer is waited for before the request is repeated.
const ANSWER_DEADLINE: Duration = Duration::from_millis(1_500);
/// The pause before a request that was turned away is repeated.
const PAUSE: Duration = Duration::from_millis(80);
/// When a client stops repeating.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// The time between two reads of one client.
const READ_EVERY: Duration = Duration::from_millis(900);

/// Reads that do not begin at the master that answered last.
const ELSEWHERE_PERCENT: f64 = 30.0;

/// A request that has no answer yet.
#[derive(Debug)]
struct Open {
    request: Request,
    began: At,
    again_at: At,
    call: Option<CallId>,
    master: usize,
    /// It may have been carried out without our knowing.
    doubtful: bool,
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    index: usize,
    open: BTreeMap<String, Open>,
    acknowledged: Vec<String>,
    next_read: At,
    reads: u64,
    drains: u64,
    leader: usize,
    follow: Follow,
}

// === impl Client ===

impl Client {
    /// A client that has nothing to do yet.
    #[must_use]
    pub(crate) fn new(index: usize) -> Self {
        Self {
            index,
            open: BTreeMap::new(),
            acknowledged: Vec::new(),
            next_read: At::default(),
            reads: 0,
            drains: 0,
            leader: index,
            follow: Follow::default(),
        }
    }

    /// Its name in the world.
    #[must_use]
    pub(crate) fn node(&self) -> Node {
        Node::Client(self.index)
    }

    /// Whether every request has been answered or given up, reads aside: these never end.
    #[must_use]
    pub(crate) fn is_idle_or_reading(&self) -> bool {
        self.open.keys().all(|open| open.starts_with("read-"))
    }

    /// It submits.
    pub(crate) fn submit(&mut self, submission: &str, job: Job, env: &mut Env) {
        env.note(self.node(), Kind::Invoke, Op::Submit, submission)
            .value = json!({
            "supervise": job.supervise, "at_most_once": job.at_most_once
        });
        let request = submission.to_owned();
        self.begin(submission.to_owned(), Request::Submit { request, job }, env);
    }

    /// It kills.
    pub(crate) fn kill(&mut self, submission: &str, env: &mut Env) {
        env.note(self.node(), Kind::Invoke, Op::Kill, submission);
        let name = format!("kill-{submission}");
        let request = Request::Kill {
            request: name.clone(),
            submission: submission.to_owned(),
        };
        self.begin(name, request, env);
    }

    /// It drains a worker, or takes that back.
    pub(crate) fn drain(&mut self, worker: &str, undo: bool, env: &mut Env) {
        self.drains += 1;
        env.note(self.node(), Kind::Invoke, Op::Drain, worker);
        let name = format!("drain-{}-{}", self.index, self.drains);
        let request = Request::Drain {
            request: name.clone(),
            worker: worker.to_owned(),
            undo,
        };
        self.begin(name, request, env);
    }

    /// Whether a drain of this worker, or its end, has no answer yet.
    pub(crate) fn has_open_drain(&self, of: &str) -> bool {
        self.open
            .values()
            .any(|open| matches!(&open.request, Request::Drain { worker, .. } if worker == of))
    }

    fn begin(&mut self, name: String, request: Request, env: &mut Env) {
        let open = Open {
            request,
            began: env.now,
            again_at: env.now,
            call: None,
            master: self.leader % env.plan.masters,
            doubtful: false,
        };
        self.open.insert(name, open);
        self.work(env);
    }

    /// Its timer: repeats, gives up, reads, follows.
    pub(crate) fn on_timer(&mut self, env: &mut Env) {
        self.follow.work(self.index, env);
        env.after(PAUSE, Happening::Timer(self.node(), 1, 0));
        if env.now >= self.next_read && !self.acknowledged.is_empty() {
            self.next_read = env.now.plus(READ_EVERY);
            self.reads += 1;
            let which = env.chance.index(self.acknowledged.len());
            let submission = self.acknowledged[which].clone();
            let name = format!("read-{}-{submission}", self.reads);
            let busy = self
                .open
                .keys()
                .any(|open| open.starts_with("read-") && open.ends_with(&format!("-{submission}")));
            if !busy {
                env.note(self.node(), Kind::Invoke, Op::Status, &submission);
                let usual = self.leader;
                if env.chance.percent(ELSEWHERE_PERCENT) {
                    // As somebody who has not followed the leader: a deposed one may still believe.
                    self.leader = env.chance.index(env.plan.masters);
                }
                self.begin(name, Request::Status { submission }, env);
                self.leader = usual;
            }
        }
        self.work(env);
    }

    fn work(&mut self, env: &mut Env) {
        let mut given_up = Vec::new();
        for (name, open) in &mut self.open {
            if env.now.since(open.began) > GIVE_UP_AFTER {
                given_up.push(name.clone());
            } else if open.again_at <= env.now {
                if open.call.is_some() {
                    // No answer: it may have been carried out.
                    open.doubtful = true;
                    open.master = (open.master + 1) % env.plan.masters;
                }
                open.call = Some(env.call(self.index, open.master, open.request.clone()));
                open.again_at = env.now.plus(ANSWER_DEADLINE);
            }
        }
        for name in given_up {
            if let Some(open) = self.open.remove(&name) {
                let (op, id) = named(&open.request);
                let kind = if open.doubtful || open.call.is_some() {
                    Kind::Unknown
                } else {
                    Kind::Fail
                };
                env.note(self.node(), kind, op, &id);
            }
        }
    }

    /// An answer has arrived; one of an older try counts as well.
    pub(crate) fn on_answer(&mut self, call: CallId, response: Response, env: &mut Env) {
        if self.follow.on_answer(call, self.node(), &response, env) {
            return;
        }
        let Some((name, open)) = self
            .open
            .iter_mut()
            .find(|(_, open)| open.call == Some(call))
        else {
            return;
        };
        let name = name.clone();
        match response {
            Response::Done(seen) => self.finish(&name, seen, env),
            Response::Refused(reason) => {
                if let Some(open) = self.open.remove(&name) {
                    let (op, id) = named(&open.request);
                    env.note(self.node(), Kind::Fail, op, &id).value = json!({"reason": reason});
                }
            }
            Response::NotLeader | Response::Unknown | Response::Events(_) => {
                open.doubtful |= response == Response::Unknown;
                open.call = None;
                open.master = (open.master + 1) % env.plan.masters;
                open.again_at = env.now.plus(PAUSE);
            }
        }
    }

    fn finish(&mut self, name: &str, seen: Seen, env: &mut Env) {
        let Some(open) = self.open.remove(name) else {
            return;
        };
        self.leader = open.master;
        let (op, id) = named(&open.request);
        let record = env.note(self.node(), Kind::Ok, op, &id);
        record.attempt = Some(seen.attempt);
        record.value = json!({"driver": seen.driver, "state": seen.state});
        if op == Op::Submit {
            self.acknowledged.push(id);
        }
    }
}

fn named(request: &Request) -> (Op, String) {
    match request {
        Request::Submit { request, .. } => (Op::Submit, request.clone()),
        Request::Kill { submission, .. } => (Op::Kill, submission.clone()),
        Request::Status { submission } => (Op::Status, submission.clone()),
        Request::Drain { worker, .. } => (Op::Drain, worker.clone()),
        // Whoever follows keeps no open request.
        Request::Events { .. } => (Op::Event, String::new()),
    }
}
