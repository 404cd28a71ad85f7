//! A client that follows the event log: page after page, from whichever master answers, over failovers too.

use std::time::Duration;

use serde_json::json;

use super::{
    clock::At,
    env::{CallId, Env, Request, Response},
    net::Node,
};
use crate::history::{Kind, Op};

/// How often it asks for more.
const EVERY: Duration = Duration::from_millis(400);
/// How long it waits for an answer before it asks another master.
const PATIENCE: Duration = Duration::from_secs(2);

/// A place in the event log, and who is asked for what follows.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    place: Option<u64>,
    call: Option<CallId>,
    again_at: At,
    master: usize,
}

// === impl Follow ===

impl Follow {
    /// Asks, if it is time to.
    pub(crate) fn work(&mut self, client: usize, env: &mut Env) {
        if env.now < self.again_at {
            return;
        }
        if self.call.is_some() {
            // No answer; one that still comes is not looked at.
            self.master += 1;
        }
        self.again_at = env.now.plus(PATIENCE);
        let master = self.master % env.plan.masters;
        let after = self.place;
        self.call = Some(env.call(client, master, Request::Events { after }));
    }

    /// Takes an answer, if it is one to this.
    pub(crate) fn on_answer(
        &mut self,
        call: CallId,
        me: Node,
        response: &Response,
        env: &mut Env,
    ) -> bool {
        if self.call != Some(call) {
            return matches!(response, Response::Events(_));
        }
        self.call = None;
        self.again_at = env.now.plus(EVERY);
        match response {
            Response::Events(Some(page)) => {
                for (sequence, digest) in page {
                    env.note(me, Kind::Info, Op::Event, "").value =
                        json!({"sequence": sequence, "digest": digest});
                    self.place = Some(*sequence);
                }
            }
            Response::Events(None) => {
                self.place = None;
                env.note(me, Kind::Info, Op::Event, "").value = json!({"relist": true});
            }
            Response::Done(_) | Response::Refused(_) | Response::NotLeader | Response::Unknown => {
                self.master += 1
            }
        }
        true
    }
}
