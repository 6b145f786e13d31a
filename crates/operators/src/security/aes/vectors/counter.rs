//! Counter blocks, whose lowest bytes count in network order.

use super::blocks::{Blocks, Rounds};
use super::rounds::start;

/// The next counter blocks, of which the last `BITS` bits count: 32 or 64.
#[derive(Clone, Copy)]
pub(super) struct Counter<T: Blocks, const BITS: u32> {
    /// Those of a register.
    first: T::Reg,
    /// The last byte of the first of them.
    byte: u8,
}

impl<T: Blocks, const BITS: u32> Counter<T, BITS> {
    /// Blocks of a register.
    const LANES: u8 = 4 / T::REGS as u8;

    /// From `first` on, which is that of block number zero. `byte` is its last one; block number `skipped` comes first.
    #[inline(always)]
    pub(super) fn new(t: T, first: T::Reg, byte: u8, skipped: u8) -> Self {
        let numbers = [skipped, skipped + 1, skipped + 2, skipped + 3];
        let first = match byte.checked_add(numbers[3]) {
            Some(_) => t.add32(first, t.load_reg(&spread(numbers, LAST))),
            None => Self::count(t, first, &spread(numbers, FIRST)),
        };
        let byte = byte.wrapping_add(skipped);
        Self { first, byte }
    }

    /// The blocks of `W` times four, and itself behind them.
    #[inline(always)]
    pub(super) fn next<const W: usize>(&mut self, t: T) -> [T::Four; W] {
        let mut blocks = [t.zeros(); W];
        // Mostly only the last byte changes, which can be added to where it is.
        if self.is_byte_enough(4 * W as u8) {
            let steps = const { &steps(Self::LANES, LAST) };
            blocks[0][0] = self.first;
            for r in 1..W * T::REGS {
                let block = t.add32(self.first, t.load_reg(&steps[r]));
                blocks[r / T::REGS][r % T::REGS] = block;
            }
            self.first = t.add32(self.first, t.load_reg(&steps[W * T::REGS]));
        } else {
            let steps = const { &steps(Self::LANES, FIRST) };
            for r in 0..W * T::REGS {
                blocks[r / T::REGS][r % T::REGS] = Self::count(t, self.first, &steps[r]);
            }
            self.first = Self::count(t, self.first, &steps[W * T::REGS]);
        }
        self.byte = self.byte.wrapping_add(4 * W as u8);
        blocks
    }

    /// True if no byte but the last changes in the next `blocks` blocks and the register behind them.
    #[inline(always)]
    fn is_byte_enough(&self, blocks: u8) -> bool {
        self.byte < 255 - 3 - blocks
    }

    #[inline(always)]
    fn count(t: T, first: T::Reg, by: &[u8; 64]) -> T::Reg {
        let (first, by) = (t.swap(first), t.load_reg(by));
        t.swap(match BITS {
            32 => t.add32(first, by),
            _ => t.add64(first, by),
        })
    }
}

/// The counter of GCM's text, which begins at 2, and goes on in groups of one size.
impl<T: Blocks> Counter<T, 32> {
    /// The blocks of `W` times four, with the first key added; and itself behind them. All calls before had the same `W`.
    ///
    /// Within a group, number = first XOR constant, as the first is 2 more than a multiple of the group. The last two numbers belong to the next
    /// multiple, so they start from the next group's first. One XOR gives each block, where adding a number and then a key takes two sums.
    #[inline(always)]
    pub(super) fn next_started<const N: usize, const W: usize>(
        &mut self,
        t: T,
        keys: &impl Rounds<T, N>,
    ) -> [T::Four; W] {
        let group = 4 * W as u8;
        // A register of four blocks would have numbers of two groups.
        if Self::LANES > 2 || !self.is_byte_enough(group) {
            return start(t, keys, self.next(t));
        }
        debug_assert_eq!(self.byte % group, 2, "groups of another size before");
        let steps = const { &steps(Self::LANES, LAST) };
        let bits = const { &bits::<W>(Self::LANES) };
        let next = t.add32(self.first, t.load_reg(&steps[W * T::REGS]));
        let now = t.start(self.first, keys.at(t, 0));
        let then = t.start(next, keys.at(t, 0));
        let mut blocks = [t.zeros(); W];
        for r in 0..W * T::REGS {
            let is_of_next = r * Self::LANES as usize + 2 >= 4 * W;
            let base = if is_of_next { then } else { now };
            blocks[r / T::REGS][r % T::REGS] = match r {
                0 => base,
                _ => t.xor(base, t.load_reg(&bits[r])),
            };
        }
        self.first = next;
        self.byte = self.byte.wrapping_add(group);
        blocks
    }
}

/// The bytes of a block that count first, and those that a CPU counts first.
const LAST: usize = 15;
const FIRST: usize = 0;
/// Registers of a group, and one.
const REGS_MAX: usize = 17;

/// The 64 bytes of four numbers, each byte `at` of its block.
const fn spread(numbers: [u8; 4], at: usize) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 4 {
        bytes[16 * i + at] = numbers[i];
        i += 1;
    }
    bytes
}

/// How far each register of a group is behind the first, as byte `at`, where a register has so many blocks.
const fn steps(lanes: u8, at: usize) -> [[u8; 64]; REGS_MAX] {
    let mut steps = [[0; 64]; REGS_MAX];
    let mut r = 0;
    while r < REGS_MAX {
        steps[r] = spread([r as u8 * lanes; 4], at);
        r += 1;
    }
    steps
}

/// The bits in which the numbers of each register of `W` times four blocks, the first of which is 2, differ from those of the first one,
/// of this group or of the next.
const fn bits<const W: usize>(lanes: u8) -> [[u8; 64]; REGS_MAX] {
    let mut bits = [[0; 64]; REGS_MAX];
    let mut r = 0;
    while r < REGS_MAX {
        let mut differ = [0; 4];
        let mut lane = 0;
        while lane < 4 {
            let number = (r as u8 * lanes + lane + 2) % (4 * W as u8);
            differ[lane as usize] = number ^ (lane + 2);
            lane += 1;
        }
        bits[r] = spread(differ, LAST);
        r += 1;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::super::blocks::Task;
    use super::super::{Made, made};
    use super::*;
    use crate::security::aes::Aes;

    const NONCE: [u8; 12] = *b"of 12 bytes!";

    /// The counter blocks of GCM's text, with the first key, in 70 groups: the last byte runs over several times.
    struct Groups;

    impl Made for Groups {
        type Out = ();

        fn by<T: Blocks>(self, proof: T) {
            proof.enter(self);
        }
    }

    impl<T: Blocks> Task<T> for Groups {
        type Out = ();

        #[inline(always)]
        fn run<const W: usize, const L: usize>(self, t: T) {
            let one = t.one();
            let [low, high] = [&NONCE[..8], &NONCE[8..]].map(|bytes| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            });
            let key = [t.set_words([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210])];
            let mut counter = Counter::<T, 32>::new(t, t.set_words([low, high]), 0, 2);
            let mut number = 2u32;
            for group in 0..70 {
                for four in counter.next_started::<1, L>(t, &key) {
                    let mut blocks = [0; 64];
                    t.store(&mut blocks, four);
                    for block in blocks.as_chunks::<16>().0 {
                        let mut right = [0; 16];
                        right[..12].copy_from_slice(&NONCE);
                        right[12..].copy_from_slice(&number.to_be_bytes());
                        let started = one.start(t.load_block(&right), t.low(key[0]));
                        t.store_block(&mut right, started);
                        assert_eq!(*block, right, "number {number}, in group {group}");
                        number += 1;
                    }
                }
            }
            assert!(number > 2 * 256);
        }
    }

    #[test]
    fn each_block_has_the_next_number() {
        for path in Aes::PATHS {
            made(*path, Groups);
        }
    }
}
