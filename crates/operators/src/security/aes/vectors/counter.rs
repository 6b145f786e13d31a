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
    /// The first number of a group is 2 more than a multiple of the group, so each is the first one, added bit by bit to a constant. The last
    /// two numbers belong to the next multiple, and start from the next group's first. One sum bit by bit gives each block, where adding a
    /// number and then a key takes two.
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
    use super::*;

    /// By addition, for the registers of one block and of two, and groups of eight blocks and of sixteen.
    #[test]
    fn a_block_is_that_of_its_group_or_the_next_in_other_bits() {
        for (lanes, of_group, bits) in [(1, 8, bits::<2>(1)), (2, 16, bits::<4>(2))] {
            for group in (0..192).step_by(of_group) {
                for number in 0..of_group {
                    let (r, lane) = (number / lanes, number % lanes);
                    let is_of_next = r * lanes + 2 >= of_group;
                    let base = group + lane + 2 + if is_of_next { of_group } else { 0 };
                    let byte = base as u8 ^ bits[r][16 * lane + LAST];
                    assert_eq!(usize::from(byte), group + number + 2, "{number} of {group}");
                }
            }
        }
    }
}
