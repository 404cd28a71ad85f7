//! A test takes along what it has started: browsers and programs that stay would slow down every later one.

use std::{path::Path, sync::mpsc};

use super::{populate, webdriver::Browser};
use crate::support::{Cluster, processes_of};

#[test]
#[ignore = "needs a browser: make test-ui"]
fn browsers_and_programs_end_with_their_test_also_when_it_panics() {
    let cluster = Cluster::start(&[]);
    let (started_tx, started) = mpsc::sync_channel(1);
    let test = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(async {
            let running = populate(&cluster);
            let browser = Browser::start().await;
            assert!(!browser.processes().is_empty(), "a browser has processes");
            let started = (browser.profile().to_owned(), running.runner.id());
            started_tx.send(started).expect("somebody listens");
            panic!("as a test that does not succeed");
        });
    };
    let ended = std::thread::scope(|scope| scope.spawn(test).join());
    assert!(ended.is_err(), "it panics");
    let (profile, runner) = started.recv().expect("it came so far");
    assert_eq!(processes_of(&profile), Vec::<String>::new());
    assert!(!Path::new(&format!("/proc/{runner}")).exists());
}
