//! Masters that are not in the list: hints, and what the leader names.

use super::*;
use crate::session::LEARNT_FAILURES_MAX;

#[test]
fn a_hint_outside_the_list_is_learnt_and_dialled_at_once() {
    let (mut harness, [a, ..]) = Harness::searching();
    let outputs = harness.frame(a, 0, standby(Some("d:4")));
    assert_eq!(
        outputs,
        [Output::Observe(Observation::Redirect {
            address: "d:4".into()
        })]
    );
    assert_eq!(harness.machine.next_wakeup(), Some(harness.now));
    harness.step(Input::Timer);
    assert_eq!(
        harness.streams.last().map(|(_, address)| address.as_str()),
        Some("d:4")
    );
}

#[test]
fn learnt_masters_are_bounded_and_bad_addresses_are_not_learnt() {
    let (mut harness, [a, ..]) = Harness::searching();
    for bad in ["", "no-port", "http://x:1", "x:0"] {
        assert_eq!(harness.frame(a, 0, standby(Some(bad))), [], "{bad}");
    }
    for n in 0..2 * LEARNT_MASTERS_MAX {
        harness.frame(a, 0, standby(Some(&format!("learnt-{n}:7077"))));
    }
    harness.step(Input::Timer);
    assert_eq!(harness.live.len(), MASTERS.len() + LEARNT_MASTERS_MAX);
}

fn masters(named: &[(&str, &str)]) -> Vec<MasterAddress> {
    let address = |(id, rpc): &(&str, &str)| MasterAddress {
        id: (*id).into(),
        rpc: (*rpc).into(),
        ..MasterAddress::default()
    };
    named.iter().map(address).collect()
}

#[test]
fn masters_that_the_leader_names_are_dialled_and_never_forgotten_while_it_does() {
    let (mut harness, [a, ..]) = Harness::searching();
    harness.attach(a, 5);
    let news = |named: &[_]| {
        let masters = masters(named);
        master_frame::Body::Masters(v1::Masters { masters })
    };
    harness.frame(a, 5, news(&[("a", "a:1"), ("d", "d:4")]));
    for _ in 0..3 * LEARNT_FAILURES_MAX {
        harness.step(Input::Timer);
        let dialled = harness.live.iter().find(|(_, address)| *address == "d:4");
        let stream = *dialled.expect("still dialled").0;
        let reason = "refused".into();
        harness.step(Input::Disconnected { stream, reason });
        harness.now = harness.now.after(SessionTimings::default().redial_max);
    }
    harness.frame(a, 5, news(&[("a", "a:1"), ("e", "e:5")]));
    harness.step(Input::Timer);
    let addresses: Vec<&String> = harness.live.values().collect();
    assert_eq!(addresses, ["a:1", "b:2", "c:3", "e:5"]);
}

#[test]
fn another_name_of_a_standby_rests_while_the_configured_one_is_open() {
    let (mut harness, [a, b, _]) = Harness::searching();
    harness.attach(a, 5);
    let named = masters(&[("a", "a:1"), ("b", "alias-of-b:2")]);
    harness.frame(
        a,
        5,
        master_frame::Body::Masters(v1::Masters { masters: named }),
    );
    harness.step(Input::Timer);
    let other = harness.streams.last().unwrap().0;
    harness.open(other);
    let standby = || {
        let master_id = "b".into();
        master_frame::Body::Standby(v1::Standby {
            master_id,
            ..v1::Standby::default()
        })
    };
    harness.frame(other, 0, standby());
    let outputs = harness.frame(b, 0, standby());
    assert!(
        outputs.contains(&Output::Close { stream: other }),
        "{outputs:?}"
    );
}
