//! The sum on a worker is that of its entries, whatever came and went before.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    ids::ProfileId,
    resources::{Cores, MemoryMib},
    state::executor::ExecutorState,
    time::Timestamp,
};

fn executor(id: u32, cores: u32, memory: u64, addresses: &[u8]) -> Executor {
    let addresses = addresses.iter().map(ToString::to_string).collect();
    Executor {
        app: AppId::from("a1"),
        id: ExecutorId(id),
        worker: "w1".into(),
        profile: ProfileId(0),
        cores: Cores(cores),
        memory: MemoryMib(memory),
        resources: Addresses::from([("gpu".to_owned(), addresses)]),
        state: ExecutorState::Running,
        drained: false,
        exit: None,
        message: String::new(),
        launched_at: Timestamp(0),
        started_at: None,
        finished_at: None,
    }
}

/// Made anew from the entries.
fn summed(load: &Load) -> Load {
    let mut anew = Load::default();
    load.executors
        .values()
        .for_each(|executor| anew.put_executor(executor));
    anew
}

proptest! {
    #[test]
    fn a_load_forgets_exactly_what_it_has_added(
        steps in vec((0..6_u32, any::<bool>(), any::<u32>(), any::<u64>(), vec(0..4_u8, 0..3)), 0..60),
    ) {
        let mut load = Load::default();
        for (id, puts, cores, memory, addresses) in steps {
            // Also the same one again with something else, and one that is not there.
            let executor = executor(id, cores, memory, &addresses);
            if puts {
                load.put_executor(&Arc::new(executor));
            } else {
                load.remove_executor(&executor);
            }
            prop_assert_eq!(&load, &summed(&load));
        }
        for executor in load.executors.clone().values() {
            load.remove_executor(executor);
        }
        prop_assert_eq!(load, Load::default());
    }
}

#[test]
fn an_address_that_is_claimed_twice_is_in_use_until_both_are_gone() {
    let spec = WorkerSpec {
        resources: Addresses::from([("gpu".to_owned(), vec!["0".to_owned()])]),
        ..WorkerSpec::default()
    };
    let free = |load: &Load| load.used.addresses_free(&spec, "gpu").len();
    let mut load = Load::default();
    let [first, second] = [1, 2].map(|id| Arc::new(executor(id, 1, u64::MAX, &[0])));
    load.put_executor(&first);
    load.put_executor(&second);
    load.remove_executor(&first);
    assert_eq!((free(&load), load.used.memory()), (0, u64::MAX));
    load.remove_executor(&second);
    assert_eq!((free(&load), load.used.memory()), (1, 0));
}
