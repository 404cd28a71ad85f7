//! What an agent runs, in one number: a copy of `interrex_proto::digest` (this crate depends on nothing), held to the
//! same values by the same test.

use crate::{
    ids::{AppId, Attempt, DriverId, ExecutorId},
    state::{driver::Driver, executor::Executor},
};

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// What an attempt of a driver adds (by XOR).
pub(super) fn of_driver(driver: &Driver) -> u64 {
    driver_entry(&driver.id, driver.attempt)
}

/// What an executor adds (by XOR).
pub(super) fn of_executor(executor: &Executor) -> u64 {
    executor_entry(&executor.app, executor.id)
}

fn driver_entry(id: &DriverId, attempt: Attempt) -> u64 {
    entry('d', id.as_str(), attempt.0)
}

fn executor_entry(app: &AppId, id: ExecutorId) -> u64 {
    entry('e', app.as_str(), id.0)
}

fn entry(kind: char, id: &str, number: u32) -> u64 {
    let text = format!("{kind}:{id}:{number}");
    let hash = text.bytes().fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    });
    mix(hash)
}

/// The finalizer of `MurmurHash3`.
fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_those_of_the_agents() {
        let driver = |id: &str, attempt| driver_entry(&id.into(), Attempt(attempt));
        let executor = |app: &str, id| executor_entry(&app.into(), ExecutorId(id));
        assert_eq!(
            driver("driver-20260101000000-0000", 1),
            0x8764_043a_a93b_b17b
        );
        assert_eq!(driver("d1", 4_294_967_295), 0x97dc_c50b_420f_3897);
        assert_eq!(
            executor("app-20260101000000-0000", 0),
            0xed07_e8b8_509a_9d87
        );
        assert_eq!(executor("a1", 17), 0x2ee6_f211_62ad_3357);
        let all = driver("d1", 1) ^ driver("d2", 2) ^ executor("a1", 1);
        assert_eq!(all, 0xe251_fc41_0136_2999);
    }
}
