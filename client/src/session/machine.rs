//! The decisions of a session: which masters to dial, where to register, whom to obey. Pure: time is an
//! argument, jitter comes from a seed, nothing is sent from here. The pump or the simulator feeds it.
//!
//! Rules that must never break:
//! 1. `seen`, the largest epoch ever observed, never falls.
//! 2. A frame of a smaller epoch never reaches the role; its sender is told `StaleEpoch`.
//! 3. The session is never attached to an epoch smaller than `seen`.
//! 4. It never gives up: as long as one live leader can be reached, it will be attached to it.
//!
//! Only a master that says of *itself* that it leads raises `seen`. Hearsay (a standby's hint) and refusals do
//! not, so a master of a foreign cluster in the list cannot lock this peer out of its own.

mod frames;

use std::collections::BTreeSet;

use interrex_proto::v1::{PeerFrame, peer_frame};

use super::{
    event::{Input, Moment, Observation, Output, SessionEvent, StreamId},
    link::{Link, LinkState, Registration},
    options::{LEARNT_FAILURES_MAX, SessionError, SessionTimings},
};
use crate::{
    backoff::{Backoff, Jitter},
    masters,
};

/// Registers with every master and follows the leader. See the module's rules.
#[derive(Debug)]
pub struct SessionMachine {
    timings: SessionTimings,
    backoff: Backoff,
    jitter: Jitter,
    links: Vec<Link>,
    /// Addresses in the newest list that a leader gave: not forgotten, however long they do not answer.
    listed: BTreeSet<String>,
    attachment: Option<Attachment>,
    seen: u64,
    next_stream: u64,
}

/// The adopted leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// The stream it was adopted on.
    pub stream: StreamId,
    /// The epoch it leads in.
    pub epoch: u64,
}

// === impl SessionMachine ===

impl SessionMachine {
    /// A machine that will dial every one of `masters` at its first timer.
    ///
    /// # Errors
    /// [`SessionError`] when the list of masters or a timing is bad.
    pub fn new<S: AsRef<str>>(
        masters: &[S],
        seen: u64,
        seed: u64,
        timings: SessionTimings,
    ) -> Result<Self, SessionError> {
        timings.validate()?;
        let links = masters::parse(masters)?
            .into_iter()
            .map(|address| Link::new(address, false, Moment::START))
            .collect();
        Ok(Self {
            backoff: Backoff::new(timings.redial_min, timings.redial_max)?,
            timings,
            jitter: Jitter::from_seed(seed),
            links,
            listed: BTreeSet::new(),
            attachment: None,
            seen,
            next_stream: 0,
        })
    }

    /// The same, which also dials what a leader named in an earlier life.
    #[must_use]
    pub fn with_learnt(mut self, addresses: &[String]) -> Self {
        for address in addresses {
            if self.learn(address, Moment::START) {
                self.listed.insert(address.clone());
            }
        }
        self
    }

    /// The largest epoch ever observed.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The adopted leader, if there is one.
    #[must_use]
    pub fn attachment(&self) -> Option<Attachment> {
        self.attachment
    }

    /// When to feed [`Input::Timer`] next; `None`: only a frame or a loss can change anything.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Moment> {
        let attached = self.attachment.is_some();
        self.links
            .iter()
            .filter_map(|link| link.wakeup(attached))
            .min()
    }

    /// Takes one input in and says what has to be done, in order.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Opened { stream } => self.on_opened(stream, &mut out),
            Input::Frame { stream, frame } => self.on_frame(now, stream, frame, &mut out),
            Input::Disconnected { stream, reason } => {
                self.on_lost(now, stream, &reason, &mut out);
            }
            Input::RegistrationReady { stream, body } => {
                self.on_registration(now, stream, body, &mut out);
            }
            Input::Send { body } => out.push(match self.attachment {
                Some(leader) => self.frame(leader.stream, body),
                None => Output::NotAttached,
            }),
            Input::Timer => self.on_timer(now, &mut out),
        }
        out
    }

    fn on_opened(&mut self, stream: StreamId, out: &mut Vec<Output>) {
        let seen = self.seen;
        if let Some(link) = self.link_mut(stream)
            && matches!(link.state, LinkState::Dialling { .. })
        {
            want_registration(link, stream, seen, out);
        }
    }

    fn on_registration(
        &mut self,
        now: Moment,
        stream: StreamId,
        body: peer_frame::Body,
        out: &mut Vec<Output>,
    ) {
        let deadline = now.after(self.timings.registration_timeout);
        if let Some(link) = self.link_mut(stream)
            && matches!(link.state, LinkState::Open { .. })
        {
            let registration = Registration::Sent { deadline };
            link.state = LinkState::Open {
                stream,
                registration,
            };
            out.push(self.frame(stream, body));
        }
    }

    /// The stream is gone: dial again after a back-off.
    fn on_lost(&mut self, now: Moment, stream: StreamId, reason: &str, out: &mut Vec<Output>) {
        let Some(failures) = self.link_mut(stream).map(|link| link.failures) else {
            return;
        };
        let until = now.after(self.backoff.delay(failures, &mut self.jitter));
        if let Some(link) = self.link_mut(stream) {
            link.failures = failures.saturating_add(1);
            link.state = LinkState::Waiting { until };
        }
        self.lift_aliases(now, stream);
        self.links.retain(|link| {
            !link.learnt
                || link.failures < LEARNT_FAILURES_MAX
                || self.listed.contains(&link.address)
        });
        if self
            .attachment
            .is_some_and(|leader| leader.stream == stream)
        {
            self.detach(now, reason, out);
        }
    }

    fn on_timer(&mut self, now: Moment, out: &mut Vec<Output>) {
        let seen = self.seen;
        let attached = self.attachment.is_some();
        let mut given_up = Vec::new();
        for link in &mut self.links {
            if link.wakeup(attached).is_none_or(|due| due > now) {
                continue;
            }
            match link.state {
                LinkState::Waiting { .. } => {
                    let stream = StreamId::new(self.next_stream);
                    self.next_stream += 1;
                    let deadline = now.after(self.timings.open_timeout);
                    link.state = LinkState::Dialling { stream, deadline };
                    out.push(Output::Connect {
                        stream,
                        address: link.address.clone(),
                    });
                }
                LinkState::Dialling { stream, .. } => given_up.push((stream, "no connection")),
                LinkState::Open {
                    stream,
                    registration,
                } => match registration {
                    Registration::Sent { .. } => given_up.push((stream, "no answer")),
                    Registration::Refused { .. } | Registration::Standby { .. } => {
                        want_registration(link, stream, seen, out);
                    }
                    Registration::Wanted | Registration::Accepted => {}
                },
                LinkState::Alias { .. } => {}
            }
        }
        for (stream, reason) in given_up {
            out.push(Output::Close { stream });
            self.on_lost(now, stream, reason, out);
        }
    }

    /// Asks the role for a registration on `stream`, unless it is being asked already.
    fn register_again(&mut self, stream: StreamId, out: &mut Vec<Output>) {
        let seen = self.seen;
        if let Some(link) = self.link_mut(stream)
            && let LinkState::Open { registration, .. } = link.state
            && registration != Registration::Wanted
        {
            want_registration(link, stream, seen, out);
        }
    }

    fn raise_seen(&mut self, now: Moment, epoch: u64, out: &mut Vec<Output>) {
        if epoch <= self.seen {
            return;
        }
        if self.seen > 0 {
            out.push(Output::Observe(Observation::FailoverSeen { epoch }));
        }
        self.seen = epoch;
        if self.attachment.is_some_and(|leader| leader.epoch < epoch) {
            self.detach(now, "a newer leader has announced itself", out);
        }
    }

    fn detach(&mut self, now: Moment, reason: &str, out: &mut Vec<Output>) {
        if self.attachment.take().is_none() {
            return;
        }
        // From now on the standbys are asked again, in case no announcement comes.
        for index in 0..self.links.len() {
            let again = self.next_registration(now);
            if let Some(Link {
                state: LinkState::Open { registration, .. },
                ..
            }) = self.links.get_mut(index)
                && matches!(
                    registration,
                    Registration::Standby { .. } | Registration::Accepted
                )
            {
                *registration = Registration::Standby { again };
            }
        }
        out.push(Output::Notify(SessionEvent::Detached {
            reason: reason.to_owned(),
        }));
    }

    /// The stream that stood for several addresses is gone: each is dialled on its own again.
    fn lift_aliases(&mut self, now: Moment, stream: StreamId) {
        for link in &mut self.links {
            if link.state == (LinkState::Alias { of: stream }) {
                link.state = LinkState::Waiting { until: now };
            }
        }
    }

    fn next_registration(&mut self, now: Moment) -> Moment {
        let interval = self.timings.registration_interval;
        now.after(self.jitter.between(interval / 2, interval))
    }

    fn link_mut(&mut self, stream: StreamId) -> Option<&mut Link> {
        self.links
            .iter_mut()
            .find(|link| link.stream() == Some(stream))
    }

    fn frame(&self, stream: StreamId, body: peer_frame::Body) -> Output {
        Output::Send {
            stream,
            frame: PeerFrame {
                seen_epoch: self.seen,
                body: Some(body),
            },
        }
    }
}

fn want_registration(link: &mut Link, stream: StreamId, seen: u64, out: &mut Vec<Output>) {
    link.state = LinkState::Open {
        stream,
        registration: Registration::Wanted,
    };
    out.push(Output::Notify(SessionEvent::RegistrationWanted {
        stream,
        seen,
    }));
}
