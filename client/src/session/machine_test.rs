//! The session machine, one rule a test, and its invariants over random orders of events.

mod learnt;

use std::collections::BTreeMap;

use interrex_proto::v1::{self, MasterAddress, MasterFrame, PeerFrame, master_frame, peer_frame};
use proptest::prelude::*;

use super::{
    Attachment, Input, LEARNT_MASTERS_MAX, Moment, Observation, Output, SessionEvent,
    SessionMachine, SessionTimings, StreamId,
};

const MASTERS: [&str; 3] = ["a:1", "b:2", "c:3"];

/// Feeds a machine, keeps the books on its streams and checks what must always hold.
struct Harness {
    machine: SessionMachine,
    now: Moment,
    /// Every stream ever asked for, in order, with its address.
    streams: Vec<(StreamId, String)>,
    live: BTreeMap<StreamId, String>,
    wanted: Vec<StreamId>,
    attached_epoch: Option<u64>,
    seen: u64,
}

fn registration() -> peer_frame::Body {
    peer_frame::Body::RegisterApplication(v1::RegisterApplication::default())
}

fn registered() -> master_frame::Body {
    master_frame::Body::Registered(v1::Registered::default())
}

fn changed() -> master_frame::Body {
    master_frame::Body::MasterChanged(v1::MasterChanged::default())
}

fn order() -> master_frame::Body {
    master_frame::Body::LaunchDriver(v1::LaunchDriver::default())
}

fn standby(leader: Option<&str>) -> master_frame::Body {
    let address = |rpc: &str| MasterAddress {
        id: "m".into(),
        rpc: rpc.into(),
        ..MasterAddress::default()
    };
    master_frame::Body::Standby(v1::Standby {
        leader: leader.map(address),
        leader_epoch: 99,
        ..v1::Standby::default()
    })
}

fn refused(permanent: bool) -> master_frame::Body {
    master_frame::Body::Refused(v1::Refused {
        reason: "no".into(),
        permanent,
    })
}

fn notified(outputs: &[Output]) -> Vec<SessionEvent> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Notify(event) => Some(event.clone()),
            Output::Connect { .. }
            | Output::Send { .. }
            | Output::NotAttached
            | Output::Close { .. }
            | Output::Observe(_) => None,
        })
        .collect()
}

impl Harness {
    fn new(seen: u64, seed: u64) -> Self {
        let timings = SessionTimings::default();
        let machine = SessionMachine::new(&MASTERS, seen, seed, timings).unwrap();
        Self {
            machine,
            now: Moment::START,
            streams: Vec::new(),
            live: BTreeMap::new(),
            wanted: Vec::new(),
            attached_epoch: None,
            seen,
        }
    }

    /// All streams open and registered on; every master is a standby.
    fn searching() -> (Self, [StreamId; 3]) {
        let mut harness = Self::new(0, 1);
        harness.step(Input::Timer);
        let streams = [0, 1, 2].map(|n| harness.streams[n].0);
        for stream in streams {
            harness.open(stream);
            harness.frame(stream, 0, standby(None));
        }
        (harness, streams)
    }

    fn open(&mut self, stream: StreamId) {
        self.step(Input::Opened { stream });
        self.register(stream);
    }

    fn register(&mut self, stream: StreamId) {
        assert!(
            self.wanted.contains(&stream),
            "no registration is wanted on {stream}"
        );
        self.step(Input::RegistrationReady {
            stream,
            body: registration(),
        });
    }

    fn frame(&mut self, stream: StreamId, epoch: u64, body: master_frame::Body) -> Vec<Output> {
        self.step(Input::Frame {
            stream,
            frame: MasterFrame {
                epoch,
                body: Some(body),
            },
        })
    }

    fn attach(&mut self, stream: StreamId, epoch: u64) {
        self.frame(stream, epoch, changed());
        self.register(stream);
        self.frame(stream, epoch, registered());
        assert_eq!(
            self.machine.attachment(),
            Some(Attachment { stream, epoch })
        );
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        match &input {
            Input::RegistrationReady { stream, .. } => self.wanted.retain(|w| w != stream),
            Input::Disconnected { stream, .. } => {
                self.live.remove(stream);
            }
            Input::Opened { .. } | Input::Frame { .. } | Input::Send { .. } | Input::Timer => {}
        }
        let outputs = self.machine.step(self.now, input);
        for output in &outputs {
            self.check_output(output);
        }
        assert!(self.machine.seen() >= self.seen, "seen has fallen");
        self.seen = self.machine.seen();
        let attached = self.machine.attachment().map(|leader| leader.epoch);
        assert_eq!(
            attached, self.attached_epoch,
            "the role has been told something else"
        );
        assert!(
            attached.is_none_or(|epoch| epoch == self.seen),
            "attached to an older epoch"
        );
        assert!(self.live.len() <= MASTERS.len() + LEARNT_MASTERS_MAX);
        outputs
    }

    fn check_output(&mut self, output: &Output) {
        match output {
            Output::Connect { stream, address } => {
                assert!(
                    !self.live.values().any(|a| a == address),
                    "{address} is dialled twice"
                );
                self.live.insert(*stream, address.clone());
                self.streams.push((*stream, address.clone()));
            }
            Output::Send { stream, frame } => {
                assert!(self.live.contains_key(stream), "a frame for a dead stream");
                assert!(frame.seen_epoch >= self.seen);
            }
            Output::Close { stream } => {
                assert!(self.live.remove(stream).is_some(), "closed a dead stream");
            }
            Output::Notify(SessionEvent::RegistrationWanted { stream, .. }) => {
                self.wanted.push(*stream);
            }
            Output::Notify(SessionEvent::Attached { epoch, .. }) => {
                self.attached_epoch = Some(*epoch);
            }
            Output::Notify(SessionEvent::Detached { .. }) => {
                assert!(self.attached_epoch.take().is_some(), "detached twice");
            }
            Output::Notify(SessionEvent::Frame { epoch, .. }) => {
                assert_eq!(
                    Some(*epoch),
                    self.attached_epoch,
                    "an order of another epoch"
                );
            }
            Output::Notify(SessionEvent::Refused { .. })
            | Output::NotAttached
            | Output::Observe(_) => {}
        }
    }

    /// From now on only the master at `leader` lives, and leads in `epoch`. Steps until the session is attached
    /// to it. `announces`: it says so on a stream that is open already; otherwise the announcement is lost.
    fn heal(&mut self, leader: &str, epoch: u64, announces: bool) {
        let began = self.now.elapsed();
        let mut turns = 0;
        let mut outputs = Vec::new();
        for stream in std::mem::take(&mut self.wanted) {
            outputs.extend(self.step(Input::RegistrationReady {
                stream,
                body: registration(),
            }));
        }
        for (stream, address) in self.live.clone() {
            let attached = self
                .machine
                .attachment()
                .is_some_and(|a| a.stream == stream);
            if address != leader || (attached && !announces) {
                outputs.extend(self.step(Input::Disconnected {
                    stream,
                    reason: "died".into(),
                }));
            } else if announces {
                outputs.extend(self.frame(stream, epoch, changed()));
            }
        }
        while self
            .machine
            .attachment()
            .is_none_or(|attached| attached.epoch != epoch)
        {
            turns += 1;
            assert!(
                turns < 500,
                "no leader after {turns} turns and {:?}",
                self.now.elapsed()
            );
            if outputs.is_empty() {
                let next = self
                    .machine
                    .next_wakeup()
                    .expect("a detached session has a timer");
                self.now = self.now.max(next);
                outputs = self.step(Input::Timer);
                continue;
            }
            for output in std::mem::take(&mut outputs) {
                outputs.extend(self.answer(leader, epoch, output));
            }
        }
        let took = self.now.elapsed() - began;
        assert!(took.as_secs() < 20, "slow: {took:?}");
    }

    fn answer(&mut self, leader: &str, epoch: u64, output: Output) -> Vec<Output> {
        match output {
            Output::Connect { stream, address } if address == leader => {
                self.step(Input::Opened { stream })
            }
            Output::Connect { stream, .. } => self.step(Input::Disconnected {
                stream,
                reason: "dead".into(),
            }),
            Output::Notify(SessionEvent::RegistrationWanted { stream, .. }) => {
                self.step(Input::RegistrationReady {
                    stream,
                    body: registration(),
                })
            }
            Output::Send {
                stream,
                frame: PeerFrame {
                    body: Some(body), ..
                },
            } if body == registration()
                && self
                    .live
                    .get(&stream)
                    .is_some_and(|address| address == leader) =>
            {
                self.frame(stream, epoch, registered())
            }
            Output::Send { .. }
            | Output::NotAttached
            | Output::Close { .. }
            | Output::Notify(_)
            | Output::Observe(_) => Vec::new(),
        }
    }
}

#[test]
fn every_master_is_dialled_at_once() {
    let mut harness = Harness::new(0, 1);
    assert_eq!(harness.machine.next_wakeup(), Some(Moment::START));
    harness.step(Input::Timer);
    let dialled: Vec<_> = harness
        .streams
        .iter()
        .map(|(_, address)| address.as_str())
        .collect();
    assert_eq!(dialled, MASTERS);
}

#[test]
fn a_new_leader_on_an_idle_stream_is_registered_with_in_the_same_step() {
    let (mut harness, [a, b, _]) = Harness::searching();
    harness.attach(a, 5);
    let outputs = harness.frame(b, 6, changed());
    let reason = "a newer leader has announced itself".to_owned();
    assert_eq!(
        notified(&outputs),
        [
            SessionEvent::Detached { reason },
            SessionEvent::RegistrationWanted { stream: b, seen: 6 }
        ]
    );
    assert_eq!(harness.machine.seen(), 6);
    harness.register(b);
    harness.frame(b, 6, registered());
    assert_eq!(
        harness.machine.attachment(),
        Some(Attachment {
            stream: b,
            epoch: 6
        })
    );
}

#[test]
fn an_order_of_an_older_epoch_is_answered_and_never_told() {
    let (mut harness, [a, b, _]) = Harness::searching();
    harness.attach(a, 5);
    harness.attach(b, 6);
    let outputs = harness.frame(a, 5, order());
    let stale = v1::StaleEpoch {
        seen: 6,
        refused: 5,
        frame: "launch_driver".into(),
    };
    let body = Some(peer_frame::Body::StaleEpoch(stale));
    assert_eq!(
        outputs,
        [
            Output::Observe(Observation::Stale {
                kind: "launch_driver",
                refused: 5,
                seen: 6
            }),
            Output::Send {
                stream: a,
                frame: PeerFrame {
                    seen_epoch: 6,
                    body
                }
            },
        ]
    );
    let again = harness.frame(a, 5, registered());
    assert_eq!(notified(&again), [], "nor is an old leader adopted again");
}

#[test]
fn an_epoch_kept_from_a_former_life_fences_from_the_first_frame() {
    let mut harness = Harness::new(9, 1);
    harness.step(Input::Timer);
    let stream = harness.streams[0].0;
    harness.open(stream);
    assert_eq!(notified(&harness.frame(stream, 8, registered())), []);
    assert_eq!(harness.machine.attachment(), None);
    harness.frame(stream, 9, registered());
    assert_eq!(
        harness.machine.attachment(),
        Some(Attachment { stream, epoch: 9 })
    );
}

#[test]
fn orders_of_a_master_that_is_not_adopted_are_dropped() {
    let (mut harness, [a, b, _]) = Harness::searching();
    harness.attach(a, 5);
    let dropped = Output::Observe(Observation::Unadopted {
        kind: "launch_driver",
    });
    assert_eq!(harness.frame(b, 5, order()), std::slice::from_ref(&dropped));
    assert_eq!(
        harness.frame(b, 0, order()),
        [dropped],
        "a standby gives no orders"
    );
    let told = notified(&harness.frame(a, 5, order()));
    assert_eq!(
        told,
        [SessionEvent::Frame {
            epoch: 5,
            body: order()
        }]
    );
}

#[test]
fn a_lost_leader_is_redialled_and_the_standbys_are_kept() {
    let (mut harness, [a, _, _]) = Harness::searching();
    harness.attach(a, 5);
    let outputs = harness.step(Input::Disconnected {
        stream: a,
        reason: "reset".into(),
    });
    assert_eq!(
        notified(&outputs),
        [SessionEvent::Detached {
            reason: "reset".into()
        }]
    );
    assert!(
        !outputs
            .iter()
            .any(|output| matches!(output, Output::Close { .. }))
    );
    harness.now = harness.machine.next_wakeup().expect("a redial is planned");
    assert!(harness.now.elapsed() <= SessionTimings::default().redial_min);
    harness.step(Input::Timer);
    assert_eq!(
        harness.streams.last().map(|(_, address)| address.as_str()),
        Some("a:1")
    );
}

#[test]
fn a_registration_without_an_answer_closes_its_stream() {
    let mut harness = Harness::new(0, 1);
    harness.step(Input::Timer);
    let stream = harness.streams[0].0;
    harness.open(stream);
    harness.now = harness
        .now
        .after(SessionTimings::default().registration_timeout);
    let outputs = harness.step(Input::Timer);
    assert!(outputs.contains(&Output::Close { stream }), "{outputs:?}");
}

#[test]
fn hearsay_and_refusals_raise_no_fence() {
    let (mut harness, [a, b, c]) = Harness::searching();
    harness.frame(a, 0, standby(Some("b:2")));
    harness.frame(c, 900, refused(true));
    assert_eq!(harness.machine.seen(), 0);
    harness.attach(b, 5);
}

#[test]
fn two_addresses_of_one_leader_end_in_one_stream() {
    let (mut harness, [a, b, _]) = Harness::searching();
    harness.attach(a, 5);
    harness.frame(b, 5, changed());
    harness.register(b);
    let outputs = harness.frame(b, 5, registered());
    assert!(
        outputs.contains(&Output::Close { stream: a }),
        "{outputs:?}"
    );
    assert_eq!(
        harness.machine.attachment(),
        Some(Attachment {
            stream: b,
            epoch: 5
        })
    );
    // The other address is dialled again only when the stream that stands for it is gone.
    harness.now = harness.now.after(SessionTimings::default().redial_max * 4);
    harness.step(Input::Timer);
    assert!(!harness.live.values().any(|address| address == "a:1"));
    harness.step(Input::Disconnected {
        stream: b,
        reason: "reset".into(),
    });
    harness.step(Input::Timer);
    assert!(harness.live.values().any(|address| address == "a:1"));
}

#[test]
fn a_stream_that_its_master_cut_for_a_newer_one_is_not_dialled_again() {
    let named = || {
        master_frame::Body::Registered(v1::Registered {
            master_id: "m1".into(),
            ..v1::Registered::default()
        })
    };
    let (mut harness, [a, b, _]) = Harness::searching();
    harness.attach(a, 5);
    harness.frame(a, 5, named());
    // The master has taken the registration on b and cuts a; that is heard before its answer on b.
    harness.frame(b, 5, changed());
    harness.register(b);
    harness.step(Input::Disconnected {
        stream: a,
        reason: "replaced".into(),
    });
    harness.frame(b, 5, named());
    assert_eq!(
        harness.machine.attachment(),
        Some(Attachment {
            stream: b,
            epoch: 5
        })
    );
    harness.now = harness.now.after(SessionTimings::default().redial_max * 4);
    harness.step(Input::Timer);
    assert!(
        !harness.live.values().any(|address| address == "a:1"),
        "they would cut each other"
    );
}

#[test]
fn a_refused_request_does_not_detach() {
    let (mut harness, [a, ..]) = Harness::searching();
    harness.attach(a, 5);
    for permanent in [true, false] {
        let event = SessionEvent::Refused {
            master: "a:1".into(),
            reason: "no".into(),
            permanent,
        };
        assert_eq!(
            harness.frame(a, 5, refused(permanent)),
            [Output::Notify(event)]
        );
    }
    assert_eq!(
        harness.machine.attachment(),
        Some(Attachment {
            stream: a,
            epoch: 5
        })
    );
}

#[test]
fn without_a_leader_the_standbys_are_asked_again() {
    let (mut harness, streams) = Harness::searching();
    harness.now = harness
        .now
        .after(SessionTimings::default().registration_interval);
    let told = notified(&harness.step(Input::Timer));
    assert_eq!(
        told,
        streams.map(|stream| SessionEvent::RegistrationWanted { stream, seen: 0 })
    );
}

#[test]
fn a_permanent_refusal_is_told_and_tried_again_slowly() {
    let (mut harness, [a, ..]) = Harness::searching();
    let outputs = harness.frame(a, 7, refused(true));
    let event = SessionEvent::Refused {
        master: "a:1".into(),
        reason: "no".into(),
        permanent: true,
    };
    assert_eq!(
        outputs,
        [Output::Close { stream: a }, Output::Notify(event)]
    );
    let soonest = harness.now.after(SessionTimings::default().redial_max / 2);
    harness.now = soonest;
    harness.step(Input::Timer);
    harness.now = soonest.after(SessionTimings::default().redial_max);
    harness.step(Input::Timer);
    assert_eq!(
        harness
            .streams
            .iter()
            .filter(|(_, address)| address == "a:1")
            .count(),
        2
    );
}

#[test]
fn a_leader_that_asks_again_gets_a_new_registration_and_stays_adopted() {
    let (mut harness, [a, ..]) = Harness::searching();
    harness.attach(a, 5);
    let reregister = || master_frame::Body::Reregister(v1::Reregister::default());
    let told = notified(&harness.frame(a, 5, reregister()));
    assert_eq!(
        told,
        [SessionEvent::RegistrationWanted { stream: a, seen: 5 }]
    );
    assert_eq!(
        notified(&harness.frame(a, 5, reregister())),
        [],
        "asked once"
    );
    assert_eq!(
        harness.machine.attachment(),
        Some(Attachment {
            stream: a,
            epoch: 5
        })
    );
}

/// One random thing that happens; `stream` picks from all streams ever asked for.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a few hundred exist in a test")]
enum Happening {
    Opened {
        stream: usize,
    },
    Frame {
        stream: usize,
        epoch: u64,
        body: master_frame::Body,
    },
    Lost {
        stream: usize,
    },
    Ready {
        wanted: usize,
    },
    Send,
    Passes {
        millis: u64,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    let body = prop_oneof![
        4 => (0_u32..4).prop_map(|n| {
            let master_id = if n == 0 { String::new() } else { format!("m{n}") };
            master_frame::Body::Registered(v1::Registered { master_id, ..Default::default() })
        }),
        2 => Just(changed()),
        2 => Just(order()),
        2 => Just(standby(None)),
        1 => (0_u32..40).prop_map(|n| standby(Some(&format!("learnt-{n}:7077")))),
        1 => any::<bool>().prop_map(refused),
        1 => Just(master_frame::Body::Reregister(v1::Reregister::default())),
    ];
    prop_oneof![
        4 => any::<usize>().prop_map(|stream| Happening::Opened { stream }),
        8 => (any::<usize>(), 0_u64..12, body)
            .prop_map(|(stream, epoch, body)| Happening::Frame { stream, epoch, body }),
        2 => any::<usize>().prop_map(|stream| Happening::Lost { stream }),
        4 => any::<usize>().prop_map(|wanted| Happening::Ready { wanted }),
        1 => Just(Happening::Send),
        4 => (0_u64..8_000).prop_map(|millis| Happening::Passes { millis }),
    ]
}

impl Harness {
    fn happen(&mut self, happening: Happening) {
        let pick = |harness: &Self, n: usize| harness.streams[n % harness.streams.len()].0;
        match happening {
            Happening::Opened { stream } => {
                let stream = pick(self, stream);
                self.step(Input::Opened { stream });
            }
            Happening::Frame {
                stream,
                epoch,
                body,
            } => {
                let stream = pick(self, stream);
                self.frame(stream, epoch, body);
            }
            Happening::Lost { stream } => {
                let stream = pick(self, stream);
                self.step(Input::Disconnected {
                    stream,
                    reason: "lost".into(),
                });
            }
            Happening::Ready { wanted } if !self.wanted.is_empty() => {
                let stream = self.wanted[wanted % self.wanted.len()];
                self.step(Input::RegistrationReady {
                    stream,
                    body: registration(),
                });
            }
            Happening::Ready { .. } => {}
            Happening::Send => {
                let heartbeat = peer_frame::Body::Heartbeat(v1::Heartbeat::default());
                let attached = self.machine.attachment();
                let outputs = self.step(Input::Send { body: heartbeat });
                assert_eq!(outputs.contains(&Output::NotAttached), attached.is_none());
            }
            Happening::Passes { millis } => {
                self.now = self.now.after(std::time::Duration::from_millis(millis));
                self.step(Input::Timer);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The harness checks after every step that `seen` never falls, that the session is never attached to a smaller
    /// epoch, and that the role hears only the adopted leader.
    #[test]
    fn any_order_of_events_keeps_the_fence_and_then_converges(
        seed in any::<u64>(),
        seen in 0_u64..6,
        happenings in prop::collection::vec(happening(), 0..120),
        leader in 0_usize..MASTERS.len(),
        announces in any::<bool>(),
    ) {
        let mut harness = Harness::new(seen, seed);
        harness.step(Input::Timer);
        for happening in happenings {
            harness.happen(happening);
        }
        let epoch = harness.machine.seen() + 1;
        harness.heal(MASTERS[leader], epoch, announces);
    }
}
