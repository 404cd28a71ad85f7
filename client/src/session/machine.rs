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

use interrex_proto::v1::{self, MasterFrame, PeerFrame, master_frame, peer_frame};

use super::{
    event::{Input, Moment, Observation, Output, SessionEvent, StreamId, frame_kind},
    link::{Link, LinkState, Registration},
    options::{LEARNT_FAILURES_MAX, LEARNT_MASTERS_MAX, SessionError, SessionTimings},
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
            attachment: None,
            seen,
            next_stream: 0,
        })
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
        if let Some(link) = self.link_mut(stream)
            && matches!(link.state, LinkState::Dialling { .. })
        {
            want_registration(link, stream, out);
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

    fn on_frame(
        &mut self,
        now: Moment,
        stream: StreamId,
        frame: MasterFrame,
        out: &mut Vec<Output>,
    ) {
        use master_frame::Body;
        let MasterFrame {
            epoch,
            body: Some(body),
        } = frame
        else {
            return; // a frame of a newer protocol
        };
        if self.link_mut(stream).is_none() {
            return; // a stream that has been given up
        }
        let kind = frame_kind(&body);
        if epoch != 0 && epoch < self.seen {
            self.refuse_stale(stream, epoch, kind, out);
            return;
        }
        match body {
            Body::Standby(standby) => self.on_standby(now, stream, standby, out),
            Body::Registered(registered) if epoch > 0 => {
                self.on_registered(now, stream, epoch, registered, out);
            }
            Body::MasterChanged(_) if epoch > 0 => self.on_announced(now, stream, epoch, out),
            Body::Reregister(_) => {
                self.raise_seen(now, epoch, out);
                self.register_again(stream, out);
            }
            Body::Refused(refused) => self.on_refused(now, stream, refused, out),
            order @ (Body::Registered(_)
            | Body::MasterChanged(_)
            | Body::LaunchDriver(_)
            | Body::KillDriver(_)
            | Body::LaunchExecutor(_)
            | Body::KillExecutor(_)
            | Body::ReportAck(_)
            | Body::ExecutorAdded(_)
            | Body::ExecutorUpdated(_)
            | Body::WorkerRemoved(_)
            | Body::ApplicationRemoved(_)) => {
                if self.attachment == Some(Attachment { stream, epoch }) {
                    out.push(Output::Notify(SessionEvent::Frame { epoch, body: order }));
                    return;
                }
                out.push(Output::Observe(Observation::Unadopted { kind }));
                if epoch > self.seen {
                    self.on_announced(now, stream, epoch, out);
                }
            }
        }
    }

    fn on_standby(
        &mut self,
        now: Moment,
        stream: StreamId,
        standby: v1::Standby,
        out: &mut Vec<Output>,
    ) {
        if self
            .attachment
            .is_some_and(|leader| leader.stream == stream)
        {
            self.detach(now, "the leader is a standby now", out);
        }
        let again = self.next_registration(now);
        if let Some(link) = self.link_mut(stream) {
            link.failures = 0;
            link.state = LinkState::Open {
                stream,
                registration: Registration::Standby { again },
            };
        }
        if let Some(leader) = standby.leader.filter(|_| self.attachment.is_none()) {
            self.follow_hint(now, &leader.rpc, out);
        }
    }

    fn on_registered(
        &mut self,
        now: Moment,
        stream: StreamId,
        epoch: u64,
        registered: v1::Registered,
        out: &mut Vec<Output>,
    ) {
        self.raise_seen(now, epoch, out);
        if let Some(old) = self.attachment.filter(|old| old.stream != stream)
            && let Some(link) = self.link_mut(old.stream)
        {
            // One epoch has one leader: both addresses lead to it, and it answers on the newer stream.
            link.state = LinkState::Alias { of: stream };
            out.push(Output::Close { stream: old.stream });
            for link in &mut self.links {
                if link.state == (LinkState::Alias { of: old.stream }) {
                    link.state = LinkState::Alias { of: stream };
                }
            }
        }
        self.learn_peers(now, &registered);
        self.attachment = Some(Attachment { stream, epoch });
        if let Some(link) = self.link_mut(stream) {
            link.failures = 0;
            link.state = LinkState::Open {
                stream,
                registration: Registration::Accepted,
            };
            let master = link.address.clone();
            out.push(Output::Notify(SessionEvent::Attached {
                epoch,
                master,
                registered,
            }));
        }
    }

    /// A master says that it leads in `epoch`, which is not smaller than `seen`.
    fn on_announced(&mut self, now: Moment, stream: StreamId, epoch: u64, out: &mut Vec<Output>) {
        self.raise_seen(now, epoch, out);
        if self.attachment != Some(Attachment { stream, epoch }) {
            self.register_again(stream, out);
        }
    }

    fn on_refused(
        &mut self,
        now: Moment,
        stream: StreamId,
        refused: v1::Refused,
        out: &mut Vec<Output>,
    ) {
        if self
            .attachment
            .is_some_and(|leader| leader.stream == stream)
        {
            self.detach(now, &format!("the leader refused: {}", refused.reason), out);
        }
        let slow = now.after(
            self.jitter
                .between(self.backoff.max() / 2, self.backoff.max()),
        );
        let failures = self.link_mut(stream).map_or(0, |link| link.failures);
        let again = now.after(self.backoff.delay(failures, &mut self.jitter));
        let Some(link) = self.link_mut(stream) else {
            return;
        };
        link.failures = link.failures.saturating_add(1);
        let master = link.address.clone();
        if refused.permanent {
            link.state = LinkState::Waiting { until: slow };
            out.push(Output::Close { stream });
            self.lift_aliases(now, stream);
        } else {
            link.state = LinkState::Open {
                stream,
                registration: Registration::Refused { again },
            };
        }
        let v1::Refused { reason, permanent } = refused;
        out.push(Output::Notify(SessionEvent::Refused {
            master,
            reason,
            permanent,
        }));
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
        self.links
            .retain(|link| !link.learnt || link.failures < LEARNT_FAILURES_MAX);
        if self
            .attachment
            .is_some_and(|leader| leader.stream == stream)
        {
            self.detach(now, reason, out);
        }
    }

    fn on_timer(&mut self, now: Moment, out: &mut Vec<Output>) {
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
                        want_registration(link, stream, out);
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
        if let Some(link) = self.link_mut(stream)
            && let LinkState::Open { registration, .. } = link.state
            && registration != Registration::Wanted
        {
            want_registration(link, stream, out);
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

    fn refuse_stale(
        &mut self,
        stream: StreamId,
        refused: u64,
        kind: &'static str,
        out: &mut Vec<Output>,
    ) {
        let seen = self.seen;
        out.push(Output::Observe(Observation::Stale {
            kind,
            refused,
            seen,
        }));
        let answer = v1::StaleEpoch {
            seen,
            refused,
            frame: kind.to_owned(),
        };
        out.push(self.frame(stream, peer_frame::Body::StaleEpoch(answer)));
    }

    /// A standby says who leads: learn the address, or dial it sooner.
    fn follow_hint(&mut self, now: Moment, address: &str, out: &mut Vec<Output>) {
        let soon = now.after(self.backoff.delay(0, &mut self.jitter));
        let redirect = || {
            Output::Observe(Observation::Redirect {
                address: address.to_owned(),
            })
        };
        if let Some(link) = self.links.iter_mut().find(|link| link.address == address) {
            if let LinkState::Waiting { until } = &mut link.state
                && *until > soon
            {
                *until = soon;
                out.push(redirect());
            }
        } else if self.learn(address, now) {
            out.push(redirect());
        }
    }

    /// The leader names every master. What is missing here is learnt, but only where the list is shorter than
    /// the cluster: otherwise the same masters go by other names in it.
    fn learn_peers(&mut self, now: Moment, registered: &v1::Registered) {
        if registered.masters.len() <= self.links.len() {
            return;
        }
        for master in registered
            .masters
            .iter()
            .filter(|m| m.id != registered.master_id)
        {
            self.learn(&master.rpc, now);
        }
    }

    fn learn(&mut self, address: &str, now: Moment) -> bool {
        let learnt = self.links.iter().filter(|link| link.learnt).count();
        let known = self.links.iter().any(|link| link.address == address);
        if known || learnt >= LEARNT_MASTERS_MAX || !masters::is_address(address) {
            return false;
        }
        self.links.push(Link::new(address.to_owned(), true, now));
        true
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

fn want_registration(link: &mut Link, stream: StreamId, out: &mut Vec<Output>) {
    link.state = LinkState::Open {
        stream,
        registration: Registration::Wanted,
    };
    out.push(Output::Notify(SessionEvent::RegistrationWanted { stream }));
}
