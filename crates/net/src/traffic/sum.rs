//! The Internet checksum (RFC 1071) in parts: sums of little-endian words, which may be added in any order and are folded at the end.
//!
//! The sum does not depend on the byte order of the words, as long as it is written in the order in which it was read.

/// The sum of `bytes` as if they began at an even offset; an odd byte at the end counts as if a zero followed.
#[inline]
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let mut total = 0u64;
    for word in &mut words {
        total += u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    total + u64::from(u32::from_le_bytes(last))
}

/// The sum of eight bytes, as a little-endian number.
#[inline(always)]
pub(super) fn of_u64(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

/// The sum in 16 bits.
#[inline(always)]
pub(super) fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16 & 0xffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    ((total & 0xffff) + (total >> 16)) as u16
}

/// The sum of bytes that begin at an odd offset, from what it would be at an even one.
#[inline(always)]
pub(super) fn at_odd(total: u64) -> u64 {
    u64::from(fold(total).swap_bytes())
}

/// The checksum for a sum: the bytes as they are written.
#[inline(always)]
pub(super) fn checksum(total: u64) -> [u8; 2] {
    (!fold(total)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071, section 3: the sum of these bytes is ddf2.
    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)).to_le_bytes(), [0xdd, 0xf2]);
        assert_eq!(
            fold(of_u64(u64::from_le_bytes(bytes))).to_le_bytes(),
            [0xdd, 0xf2]
        );
    }

    proptest! {
        /// As words in network order are added up, in one piece or in two.
        #[test]
        fn parts_make_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let at = at.min(bytes.len());
            let mut plain = 0u32;
            for pair in bytes.chunks(2) {
                plain += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
                plain = (plain & 0xffff) + (plain >> 16);
            }
            let right = (plain as u16).to_be_bytes();
            prop_assert_eq!(fold(sum(&bytes)).to_le_bytes(), right);
            let (head, tail) = bytes.split_at(at);
            let tail = if at % 2 == 0 { sum(tail) } else { at_odd(sum(tail)) };
            prop_assert_eq!(fold(sum(head) + tail).to_le_bytes(), right);
        }

        #[test]
        fn folds_never_overflow(total: u64) {
            let folded = u64::from(fold(total));
            prop_assert_eq!(folded % 65_535, total % 65_535);
        }
    }
}
