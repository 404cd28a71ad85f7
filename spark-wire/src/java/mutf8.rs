//! Java's modified UTF-8: NUL takes two bytes, what is beyond the basic plane takes a pair of surrogates.
//!
//! Only what Java itself would write is accepted, so that decoding and encoding give the same bytes back.

/// The text, or nothing where the bytes are not what Java writes for a text (half a surrogate pair included).
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<String> {
    if bytes.is_ascii() && !bytes.contains(&0) {
        return String::from_utf8(bytes.to_vec()).ok();
    }
    let mut units = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        let (unit, used) = match first {
            0x01..=0x7f => (u16::from(first), 0),
            0xc0..=0xdf => (bits(first, 0x1f) << 6 | continuation(tail, 0)?, 1),
            0xe0..=0xef => {
                let high = bits(first, 0x0f) << 12 | continuation(tail, 0)? << 6;
                (high | continuation(tail, 1)?, 2)
            }
            0x00 | 0x80..=0xbf | 0xf0..=0xff => return None,
        };
        let canonical = match used {
            0 => true,
            1 => unit == 0 || unit >= 0x80,
            _ => unit >= 0x800,
        };
        if !canonical {
            return None;
        }
        units.push(unit);
        rest = tail.get(used..)?;
    }
    String::from_utf16(&units).ok()
}

/// What Java writes for this text, without a length.
#[must_use]
pub fn encode(text: &str) -> Vec<u8> {
    if text.is_ascii() && !text.contains('\0') {
        return text.as_bytes().to_vec();
    }
    let mut out = Vec::with_capacity(text.len() + 8);
    for unit in text.encode_utf16() {
        match unit {
            0x01..=0x7f => out.push(low(unit)),
            0 | 0x80..=0x7ff => out.extend([0xc0 | low(unit >> 6), 0x80 | low(unit & 0x3f)]),
            0x800..=0xffff => out.extend([
                0xe0 | low(unit >> 12),
                0x80 | low((unit >> 6) & 0x3f),
                0x80 | low(unit & 0x3f),
            ]),
        }
    }
    out
}

fn bits(byte: u8, mask: u8) -> u16 {
    u16::from(byte & mask)
}

fn continuation(tail: &[u8], at: usize) -> Option<u16> {
    let byte = *tail.get(at)?;
    (byte & 0xc0 == 0x80).then(|| bits(byte, 0x3f))
}

fn low(unit: u16) -> u8 {
    unit.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nul_and_the_higher_planes_are_written_as_java_does() {
        assert_eq!(encode("a\0b"), [b'a', 0xc0, 0x80, b'b']);
        assert_eq!(encode("\u{1f600}"), [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]);
    }

    #[test]
    fn what_java_never_writes_is_refused() {
        let bad: [&[u8]; 7] = [
            &[0],
            &[0x80],
            &[0xc1, 0x81],
            &[0xc3],
            &[0xe0, 0x80, 0x80],
            &[0xed, 0xa0, 0xbd],
            &[0xf0, 0x9f, 0x98, 0x80],
        ];
        for bytes in bad {
            assert_eq!(decode(bytes), None, "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in ".*") {
            prop_assert_eq!(decode(&encode(&text)), Some(text));
        }

        #[test]
        fn accepted_bytes_are_written_again_as_they_were(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(text) = decode(&bytes) {
                prop_assert_eq!(encode(&text), bytes);
            }
        }
    }
}
