//! The decorator that makes engines misbehave.

use std::time::Duration;

use interrex_persistence::{
    backend::Backend,
    election::MasterInfo,
    epoch::Epoch,
    error::CommitError,
    faulty::{Fault, FaultRates, Faults, Op},
    memory,
    record::CommitBatch,
};

async fn led(faults: &Faults) -> (Backend, Epoch) {
    let me = MasterInfo {
        id: "m1".to_owned(),
        ..Default::default()
    };
    let backend = faults.wrap(memory::open(me.clone()));
    let epoch = backend.election.campaign(&me).await.unwrap().epoch;
    backend.engine.open_epoch(epoch).await.unwrap();
    (backend, epoch)
}

fn batch(epoch: Epoch) -> CommitBatch {
    CommitBatch {
        epoch,
        mutations: vec![interrex_persistence::conformance::put("a", "1")],
    }
}

async fn records(backend: &Backend, epoch: Epoch) -> usize {
    backend
        .engine
        .open_epoch(epoch)
        .await
        .unwrap()
        .records
        .len()
}

#[tokio::test]
async fn each_scripted_fault_strikes_once_and_does_what_it_says() {
    let faults = Faults::calm();
    let (backend, epoch) = led(&faults).await;
    faults.script(
        Op::Commit,
        [Fault::Fence, Fault::Reject, Fault::LoseRequest].map(Some),
    );
    let fenced = backend.engine.commit(batch(epoch)).await;
    assert!(matches!(fenced, Err(CommitError::Fenced { current }) if current > epoch));
    let rejected = backend.engine.commit(batch(epoch)).await;
    assert!(matches!(rejected, Err(CommitError::Rejected(_))));
    let lost = backend.engine.commit(batch(epoch)).await;
    assert!(matches!(lost, Err(CommitError::Indeterminate(_))));
    assert_eq!(records(&backend, epoch).await, 0);

    faults.next(Op::Commit, Fault::LoseAnswer);
    let lost = backend.engine.commit(batch(epoch)).await;
    assert!(matches!(lost, Err(CommitError::Indeterminate(_))));
    assert_eq!(records(&backend, epoch).await, 1);

    faults.next(Op::Confirm, Fault::Delay(Duration::from_millis(1)));
    backend.engine.confirm(epoch).await.unwrap();
    backend.engine.commit(batch(epoch)).await.unwrap();
    assert_eq!(faults.injected(), 5);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults() {
    let rates = FaultRates {
        delay: 0.0,
        delay_max: Duration::ZERO,
        fence: 0.2,
        reject: 0.2,
        lose_request: 0.2,
        lose_answer: 0.2,
    };
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let calm = Faults::calm();
        let (backend, epoch) = led(&calm).await;
        let faults = Faults::seeded(seed, rates);
        let engine = faults.wrap_engine(backend.engine);
        let mut outcomes = Vec::new();
        for _ in 0..50 {
            outcomes.push(format!("{:?}", engine.commit(batch(epoch)).await.map(drop)));
        }
        assert!(faults.injected() > 10 && faults.injected() < 50);
        faults.stop();
        engine.commit(batch(epoch)).await.unwrap();
        runs.push(outcomes);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}
