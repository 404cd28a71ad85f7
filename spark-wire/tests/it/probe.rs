//! A peer of an unknown build is found out by what it refuses.

use std::collections::BTreeSet;

use interrex_spark_wire::{
    Address, Dictionary, Outbound, Probe, ProbeError, Purpose, Recogniser,
    message::EndpointRef,
    probe::{Next, QUESTIONS_MAX},
};

use crate::support::{captured, dictionary, graph};

/// A build that nobody knows: as this line, but for the UIDs of Spark's own classes.
fn unknown(line: &str) -> Dictionary {
    let mut dictionary = dictionary(line).clone();
    for (name, class) in &mut dictionary.classes {
        if name.starts_with("org.apache.spark.") {
            class.suid ^= 0x55;
        }
    }
    dictionary
}

/// What a peer of this build has shown by a message like this one.
fn seen(line: &str, capture: &str, build: &Dictionary) -> Recogniser {
    let mut seen = Recogniser::default();
    for class in captured(line, capture).classes() {
        let known = build.class(&class.name).map(|c| c.suid);
        seen.note(&class.name, known.unwrap_or(class.suid));
    }
    seen
}

/// Which class a question is about.
fn asked_for(question: &[u8]) -> String {
    let graph = graph(question);
    let [class] = graph.classes() else {
        panic!("one class: {graph:?}");
    };
    assert_eq!((class.suid, class.fields.len()), (1, 0));
    class.name.clone()
}

/// What a JVM says of a class that it has with this UID.
fn refusal(class: &str, suid: i64) -> String {
    format!(
        "java.io.InvalidClassException: {class}; local class incompatible: stream classdesc serialVersionUID = 1, \
         local class serialVersionUID = {suid}\n\tat java.base/java.io.ObjectStreamClass.initNonProxy\n"
    )
}

/// Asks until all is known, a peer of this build.
fn find_out(probe: &mut Probe, peer: &Dictionary) -> Dictionary {
    let mut asked = BTreeSet::new();
    loop {
        match probe.step().expect("it answers") {
            Next::Learned(found) => return found,
            Next::Ask(question) => {
                let class = asked_for(&question);
                let suid = peer.class(&class).expect("a class of its build").suid;
                assert!(asked.insert(class.clone()), "{class} twice");
                probe.answered(&refusal(&class, suid)).expect("an answer");
            }
        }
    }
}

fn master_changed() -> Outbound {
    Outbound::MasterChanged {
        master: EndpointRef::new("Master", Address::new("m1", 7077)),
        web_url: "http://m1:8080".to_owned(),
    }
}

#[test]
fn a_driver_that_has_registered_is_found_out_in_seven_questions() {
    for (line, folder) in [("3.5", "spark-35"), ("4.1", "spark-41")] {
        let build = unknown(line);
        let seen = seen(folder, "f002-RegisterApplication", &build);
        let mut probe = Probe::new(Purpose::Driver, &seen, []);
        let found = find_out(&mut probe, &build);
        assert_eq!(probe.asked(), 7, "{line}: {:?}", probe.told());
        assert!(Purpose::Driver.is_served_by(&found));
        let bytes = master_changed().write(&found).expect("known");
        assert_eq!(bytes, master_changed().write(&build).expect("its own"));
        // The next one of its kind is recognised by what it shows.
        assert_eq!(seen.candidates([&found]).len(), 1);
    }
}

#[test]
fn a_driver_of_which_nothing_is_known_says_its_scala_first() {
    for line in ["3.5", "4.0", "4.1"] {
        let build = unknown(line);
        let mut probe = Probe::new(Purpose::Driver, &Recogniser::default(), []);
        let found = find_out(&mut probe, &build);
        assert!(probe.asked() <= 16, "{line}: {:?}", probe.told());
        let bytes = master_changed().write(&found).expect("known");
        assert_eq!(bytes, master_changed().write(&build).expect("its own"));
    }
}

#[test]
fn one_question_tells_clients_of_two_lines_apart() {
    let two = [dictionary("4.0"), dictionary("4.1")];
    for peer in two {
        let mut seen = seen("spark-41", "RequestSubmitDriver", peer);
        assert_eq!(seen.candidates(two).len(), 2);
        let mut probe = Probe::new(Purpose::Client, &seen, two);
        find_out(&mut probe, peer);
        assert_eq!(probe.asked(), 1, "{:?}", probe.told());
        for (class, suid) in probe.told() {
            seen.note(class, *suid);
        }
        let left: Vec<&str> = seen
            .candidates(two)
            .iter()
            .map(|d| d.line.as_str())
            .collect();
        assert_eq!(left, [peer.line.as_str()]);
    }
}

#[test]
fn what_was_found_out_for_a_driver_is_not_asked_again_for_a_client() {
    let build = unknown("4.1");
    let seen = seen("spark-41", "f002-RegisterApplication", &build);
    let driver = find_out(&mut Probe::new(Purpose::Driver, &seen, []), &build);
    assert!(!Purpose::Client.is_served_by(&driver));
    let mut probe = Probe::new(Purpose::Client, &seen, [&driver]);
    let both = find_out(&mut probe, &build);
    assert!(probe.asked() <= 5, "{:?}", probe.told());
    assert!(Purpose::Client.is_served_by(&both) && Purpose::Driver.is_served_by(&both));
}

#[test]
fn whatever_does_not_answer_the_question_ends_it() {
    let build = unknown("3.5");
    let seen = seen("spark-35", "f002-RegisterApplication", &build);
    let fresh = || {
        let mut probe = Probe::new(Purpose::Driver, &seen, []);
        let Ok(Next::Ask(question)) = probe.step() else {
            panic!("something is missing");
        };
        (probe, asked_for(&question))
    };
    let (_, class) = fresh();
    let good = refusal(&class, i64::MIN);
    let line = good.lines().next().expect("a line").to_owned();
    let mut bad: Vec<String> = (0..line.len() - 19)
        .map(|length| line.chars().take(length).collect())
        .collect();
    bad.extend([
        refusal("org.apache.spark.Other", 5),
        refusal(&class, 1),
        format!("\n{good}"),
        format!("Caused by: {good}"),
        line.replace("-9223372036854775808", "99999999999999999999"),
        line.replace("-9223372036854775808", "12 or 13"),
        format!("java.lang.ClassNotFoundException: {class}"),
        "x".repeat(20_000_000),
        "\u{0}\u{fffd}".to_owned(),
    ]);
    for text in bad {
        let (mut probe, _) = fresh();
        let error = probe.answered(&text).expect_err("no answer").to_string();
        assert!(error.len() < 1000, "{error}");
        assert!(probe.told().is_empty());
    }
    let (mut probe, _) = fresh();
    probe.answered(&good).expect("an answer");
    // The same once more answers nothing.
    assert!(matches!(
        probe.answered(&good),
        Err(ProbeError::Answer { .. })
    ));
}

#[test]
fn a_peer_that_lies_is_believed_and_asked_no_more_often() {
    let build = unknown("4.1");
    let seen = seen("spark-41", "f002-RegisterApplication", &build);
    let mut liar = build.clone();
    for class in liar.classes.values_mut() {
        class.suid = 7;
    }
    let mut probe = Probe::new(Purpose::Driver, &seen, []);
    let found = find_out(&mut probe, &liar);
    assert_eq!(probe.asked(), 7);
    // What it has shown counts more than what it says; the rest is its own harm.
    let reference = "org.apache.spark.rpc.RpcEndpointRef";
    assert_eq!(found.class(reference), build.class(reference));
}

#[test]
fn questions_end_whether_they_are_answered_or_not() {
    let mut probe = Probe::new(Purpose::Driver, &Recogniser::default(), []);
    for _ in 0..QUESTIONS_MAX {
        assert!(matches!(probe.step(), Ok(Next::Ask(_))));
    }
    assert!(matches!(probe.step(), Err(ProbeError::TooMany { .. })));
    let mut probe = Probe::new(Purpose::Driver, &Recogniser::default(), []);
    let Ok(Next::Ask(question)) = probe.step() else {
        panic!("something is missing");
    };
    let odd = refusal(&asked_for(&question), 4711);
    assert_eq!(probe.answered(&odd), Err(ProbeError::Scala));
}
