//! What a session does with each kind of frame, and what it learns from them. Pure.

use std::collections::BTreeSet;

use interrex_proto::v1::{self, MasterFrame, master_frame, peer_frame};

use super::{Attachment, SessionMachine};
use crate::{
    masters,
    session::{
        event::{Moment, Observation, Output, SessionEvent, StreamId},
        link::{Link, LinkState, Registration},
        options::LEARNT_MASTERS_MAX,
    },
};

// === impl SessionMachine ===

impl SessionMachine {
    pub(super) fn on_frame(
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
        let kind = body.kind();
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
            | Body::HeartbeatAck(_)
            | Body::ExecutorAdded(_)
            | Body::ExecutorUpdated(_)
            | Body::WorkerRemoved(_)
            | Body::ApplicationRemoved(_)
            | Body::Masters(_)) => {
                if self.attachment == Some(Attachment { stream, epoch }) {
                    if let Body::Masters(named) = &order {
                        self.learn_list(now, &named.masters);
                    }
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
            link.master_id.clone_from(&standby.master_id);
            link.state = LinkState::Open {
                stream,
                registration: Registration::Standby { again },
            };
        }
        self.keep_one_idle(&standby.master_id, out);
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
        self.alias_others(stream, &registered.master_id, out);
        self.attachment = Some(Attachment { stream, epoch });
        if let Some(link) = self.link_mut(stream) {
            link.master_id.clone_from(&registered.master_id);
        }
        self.learn_list(now, &registered.masters);
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

    /// The master behind `stream` answers on its newest stream only: every other address that leads to it rests
    /// while this stream lives. Otherwise each of its streams would cut the others off, for ever.
    fn alias_others(&mut self, stream: StreamId, master_id: &str, out: &mut Vec<Output>) {
        let old = self
            .attachment
            .map(|old| old.stream)
            .filter(|old| *old != stream);
        for link in &mut self.links {
            // One epoch has one leader: if there is still an adopted stream, it leads to the same master.
            let same_master = !master_id.is_empty() && link.master_id == master_id;
            let superseded = link.stream().is_some() && link.stream() == old;
            let follows = old.is_some_and(|of| link.state == LinkState::Alias { of });
            if link.stream() == Some(stream) || !(same_master || superseded || follows) {
                continue;
            }
            if let Some(other) = link.stream() {
                out.push(Output::Close { stream: other });
            }
            link.state = LinkState::Alias { of: stream };
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
        if self.is_registered(stream) {
            // Not the registration but a request was refused: the role's matter.
            if let Some(link) = self.link_mut(stream) {
                let master = link.address.clone();
                let v1::Refused { reason, permanent } = refused;
                out.push(Output::Notify(SessionEvent::Refused {
                    master,
                    reason,
                    permanent,
                }));
            }
            return;
        }
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

    /// Adopted on `stream`, and no other registration is under way there.
    fn is_registered(&self, stream: StreamId) -> bool {
        let accepted = LinkState::Open {
            stream,
            registration: Registration::Accepted,
        };
        self.attachment
            .is_some_and(|leader| leader.stream == stream)
            && self.links.iter().any(|link| link.state == accepted)
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

    /// The leader names every master. Those that no open stream leads to are learnt; learnt ones that are
    /// not named any more make room.
    fn learn_list(&mut self, now: Moment, named: &[v1::MasterAddress]) {
        let addresses = named.iter().map(|master| &master.rpc);
        let listed: BTreeSet<String> = addresses
            .filter(|address| masters::is_address(address))
            .take(LEARNT_MASTERS_MAX)
            .cloned()
            .collect();
        if listed.is_empty() {
            return;
        }
        self.listed = listed;
        let listed = &self.listed;
        self.links.retain(|link| {
            !link.learnt || link.stream().is_some() || listed.contains(&link.address)
        });
        for master in named {
            let reached = |link: &Link| {
                link.is_open() && !master.id.is_empty() && link.master_id == master.id
            };
            if self.listed.contains(&master.rpc) && !self.links.iter().any(reached) {
                self.learn(&master.rpc, now);
            }
        }
    }

    /// Two addresses that lead to one standby need one stream: a learnt one rests while a configured one lives.
    fn keep_one_idle(&mut self, master_id: &str, out: &mut Vec<Output>) {
        let idle = |link: &Link| {
            let standby = matches!(
                link.state,
                LinkState::Open {
                    registration: Registration::Standby { .. },
                    ..
                }
            );
            standby && !master_id.is_empty() && link.master_id == master_id
        };
        let configured = self.links.iter().find(|link| !link.learnt && idle(link));
        let Some(of) = configured.and_then(Link::stream) else {
            return;
        };
        for link in self
            .links
            .iter_mut()
            .filter(|link| link.learnt && idle(link))
        {
            if let Some(stream) = link.stream() {
                out.push(Output::Close { stream });
            }
            link.state = LinkState::Alias { of };
        }
    }

    pub(super) fn learn(&mut self, address: &str, now: Moment) -> bool {
        let learnt = self.links.iter().filter(|link| link.learnt).count();
        let known = self.links.iter().any(|link| link.address == address);
        if known || learnt >= LEARNT_MASTERS_MAX || !masters::is_address(address) {
            return false;
        }
        self.links.push(Link::new(address.to_owned(), true, now));
        true
    }
}
