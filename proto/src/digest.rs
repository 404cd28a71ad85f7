//! What an agent runs, in one number: both ends of a session compute it, and a difference that stays shows that they
//! do not agree. The definition is at `Heartbeat.digest` in `session.proto`; the control plane's core, which depends
//! on nothing, has a copy that is held to the same values.

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// What one attempt of a driver adds (by XOR) to the digest.
#[must_use]
pub fn driver(driver_id: &str, attempt: u32) -> u64 {
    entry('d', driver_id, attempt)
}

/// What one executor adds (by XOR) to the digest.
#[must_use]
pub fn executor(app_id: &str, executor_id: u32) -> u64 {
    entry('e', app_id, executor_id)
}

fn entry(kind: char, id: &str, number: u32) -> u64 {
    let text = format!("{kind}:{id}:{number}");
    let hash = text.bytes().fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    });
    mix(hash)
}

/// The finalizer of `MurmurHash3`. FNV alone leaves differences in the last characters in few bits, and XOR cancels them.
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
    fn the_values_are_the_same_everywhere_and_for_ever() {
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

    #[test]
    fn attempts_that_change_places_do_not_cancel_out() {
        // Plain FNV-1a gives the same for one such pair in 400.
        for n in 0..2_000_u32 {
            let (x, y) = (format!("driver-{n:04}"), format!("driver-{:04}", n * 7 + 1));
            assert_ne!(
                driver(&x, 1) ^ driver(&y, 2),
                driver(&x, 2) ^ driver(&y, 1),
                "{x} {y}"
            );
        }
    }
}
