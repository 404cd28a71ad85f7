//! How many cores of which worker an application gets: Spark's `scheduleExecutorsOnWorkers`, unit by unit. Pure.

//= spark core/src/main/scala/org/apache/spark/deploy/master/Master.scala scheduleExecutorsOnWorkers

use crate::resources::Amounts;

/// What one worker has left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) cores: u64,
    pub(crate) memory: u64,
    /// Free addresses by resource.
    pub(crate) resources: Amounts,
}

/// What an application wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Cores that it may still get.
    pub(crate) cores_left: u64,
    /// Cores of one executor; `None`: one executor a worker, with what it gets.
    pub(crate) cores_per_executor: Option<u32>,
    /// Memory of one executor.
    pub(crate) memory: u64,
    /// Custom resources of one executor.
    pub(crate) resources: Amounts,
    /// Executors that it may still get.
    pub(crate) executors_left: u64,
    /// So many executors must be started, if workers allow it: where each takes what there is, the first ones leave the
    /// cores that the others need.
    pub(crate) at_once: u64,
    /// One unit a worker in turn; otherwise as many as a worker can take.
    pub(crate) spread: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Assigned {
    cores: u64,
    executors: u64,
}

/// Cores to give on each worker, in the order of `slots`.
pub(crate) fn plan(slots: &[Slot], wish: &Wish) -> Vec<u64> {
    let unit = u64::from(wish.cores_per_executor.unwrap_or(1).max(1));
    let offered = slots
        .iter()
        .fold(0_u64, |sum, slot| sum.saturating_add(slot.cores));
    let mut left = wish.cores_left.min(offered);
    let mut executors_left = wish.executors_left;
    let mut opened = 0;
    let mut assigned = vec![Assigned::default(); slots.len()];
    let mut able: Vec<usize> = (0..slots.len()).collect();
    while !able.is_empty() {
        able.retain(|position| {
            let (slot, assigned) = (&slots[*position], &mut assigned[*position]);
            loop {
                let opens = wish.cores_per_executor.is_some() || assigned.cores == 0;
                let can = left >= unit
                    && slot.cores - assigned.cores >= unit
                    && (!opens || (executors_left > 0 && has_room(slot, wish, assigned.executors)));
                if !can {
                    return false;
                }
                left -= unit;
                assigned.cores += unit;
                if opens {
                    assigned.executors += 1;
                    executors_left -= 1;
                    opened += 1;
                }
                let others_wait =
                    opens && wish.cores_per_executor.is_none() && opened <= wish.at_once;
                if wish.spread || others_wait {
                    return true;
                }
            }
        });
    }
    assigned
        .into_iter()
        .map(|assigned| assigned.cores)
        .collect()
}

/// Whether memory and custom resources allow one more executor beside those planned there.
fn has_room(slot: &Slot, wish: &Wish, planned: u64) -> bool {
    slot.memory
        .saturating_sub(planned.saturating_mul(wish.memory))
        >= wish.memory
        && wish.resources.iter().all(|(name, amount)| {
            let amount = u64::from(*amount);
            let free = slot.resources.get(name).map_or(0, |free| u64::from(*free));
            free.saturating_sub(planned.saturating_mul(amount)) >= amount
        })
}
