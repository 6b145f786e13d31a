//! The Internet checksum: of bytes, and of what has changed.

use std::ops::Add;

/// The sum of sixteen-bit words (RFC 1071).
///
/// ```
/// use dpb_net::packet::Sum;
///
/// // RFC 1071, 3: the checksum is what is missing from the sum.
/// let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
/// assert_eq!(Sum::of(&bytes).checksum(), !0xddf2);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Of `bytes`; an odd last byte is the first of a word whose other one is zero. At most 2^32 words.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        // The words in the byte order of memory sum to the same with its bytes swapped (RFC 1071, 2 B).
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum = 0;
        for word in words {
            sum += u64::from(u32::from_le_bytes(*word));
        }
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        Self(sum + u64::from(u32::from_le_bytes(last)))
    }

    /// Of eight bytes, which lie in memory as `word` does in little-endian order; of fewer, where zeroes follow.
    #[inline(always)]
    pub(crate) fn of_le(word: u64) -> Self {
        Self(word)
    }

    /// The same in sixteen bits, to be kept for [`Sum::of_le`].
    #[inline(always)]
    pub(crate) fn folded_le(self) -> u16 {
        folded(self.0)
    }

    /// The sum of the same bytes if an odd number of others is in front of them.
    #[inline(always)]
    #[must_use]
    pub(crate) fn at_odd(self) -> Self {
        Self(folded(self.0).swap_bytes().into())
    }

    /// What the checksum's field must say, if the sum is of everything else; or zero, if everything was summed and the field is right.
    #[inline(always)]
    pub fn checksum(self) -> u16 {
        !folded(self.0).swap_bytes()
    }
}

impl PartialEq for Sum {
    /// True if both give one checksum.
    fn eq(&self, other: &Self) -> bool {
        folded(self.0) == folded(other.0)
    }
}

impl Eq for Sum {}

impl Add for Sum {
    type Output = Self;

    /// Of what both are of; all but the last have an even number of bytes.
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // The carry counts one: 2^64 leaves one when divided by 2^16 - 1.
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum + u64::from(carry))
    }
}

/// What has changed in bytes that a checksum is of.
///
/// A checksum follows it by equation 3 of RFC 1624, which gives what a sum over all bytes would. (RFC 1141's gives the other zero at times.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change(u32);

impl Change {
    /// One word, which was `old`.
    #[inline]
    pub fn of(old: u16, new: u16) -> Self {
        Self(u32::from(!old) + u32::from(new))
    }

    /// The checksum afterwards.
    #[inline]
    #[must_use]
    pub fn applied(self, checksum: u16) -> u16 {
        !folded(u64::from(!checksum) + u64::from(self.0))
    }
}

impl Add for Change {
    type Output = Self;

    /// Both of them. At most 2^15 words.
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// Carries added back in until none is left.
#[inline(always)]
fn folded(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_change_is_what_rfc_1624_gives() {
        // RFC 1624, 4: the checksum becomes +0, not -0.
        assert_eq!(Change::of(0x5555, 0x3285).applied(0xdd2f), 0);
        // The same from the words that are there: 0xcd7a besides.
        let [before, after] = [0x5555_u16, 0x3285].map(|word| {
            let bytes = [0xcd7a_u16.to_be_bytes(), word.to_be_bytes()].concat();
            Sum::of(&bytes).checksum()
        });
        assert_eq!((before, after), (!0x22d0, 0));
    }

    #[test]
    fn parts_sum_to_the_whole() {
        // RFC 1071, 3: two halves.
        let halves = [[0x00, 0x01, 0xf2, 0x03], [0xf4, 0xf5, 0xf6, 0xf7]];
        let sum = Sum::of(&halves[0]) + Sum::of(&halves[1]);
        assert_eq!(sum.checksum(), !0xddf2);
        assert_eq!(Sum::of(&[]).checksum(), 0xffff);
        // Its carries carry.
        assert_eq!(Sum::of(&[0xff; 70_000]).checksum(), 0);
        assert_eq!(Sum::of(&[0xff; 3]).checksum(), 0x00ff);
        let ones = Sum::of_le(u64::MAX) + Sum::of_le(u64::MAX) + Sum::of_le(1);
        assert_eq!(ones.folded_le(), 1);
    }

    proptest! {
        #[test]
        fn changes_and_sums_agree(
            mut bytes in prop::collection::vec(any::<u8>(), 2..200),
            changes in prop::collection::vec((any::<usize>(), any::<u16>()), 0..20),
        ) {
            let before = Sum::of(&bytes).checksum();
            let words = bytes.len() / 2;
            let mut change = Change::default();
            for (at, new) in changes {
                let word = &mut bytes[at % words * 2..][..2];
                change = change + Change::of(u16::from_be_bytes([word[0], word[1]]), new);
                word.copy_from_slice(&new.to_be_bytes());
            }
            // All zeroes are the only bytes that sum to +0, which no change gives back.
            if bytes.iter().any(|byte| *byte != 0) && before != 0xffff {
                prop_assert_eq!(change.applied(before), Sum::of(&bytes).checksum());
            }
        }

        #[test]
        fn another_implementation_agrees(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let right = etherparse::checksum::Sum16BitWords::new().add_slice(&bytes).ones_complement();
            prop_assert_eq!(Sum::of(&bytes).checksum(), right.to_be());
        }

        /// In two parts, the second one at any offset, and eight bytes at a time.
        #[test]
        fn any_parts_sum_to_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..200) {
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            let tail = match head.len() % 2 {
                0 => Sum::of(tail),
                _ => Sum::of(tail).at_odd(),
            };
            let right = Sum::of(&bytes).checksum();
            prop_assert_eq!((Sum::of(head) + tail).checksum(), right);
            let (words, rest) = bytes.as_chunks::<8>();
            let sum = words.iter().fold(Sum::of(rest), |sum, word| sum + Sum::of_le(u64::from_le_bytes(*word)));
            prop_assert_eq!(sum.checksum(), right);
            prop_assert_eq!(Sum::of_le(sum.folded_le().into()).checksum(), right);
        }
    }
}
