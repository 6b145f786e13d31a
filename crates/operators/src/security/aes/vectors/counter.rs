//! Counter blocks, whose lowest bytes count in network order.

use super::blocks::{Blocks, highest, lowest};

/// The next four counter blocks, of which the last `BITS` bits count: 32 or 64.
#[derive(Clone, Copy)]
pub(super) struct Counter<T: Blocks, const BITS: u32> {
    four: T::Four,
    /// The last byte of the first of them.
    byte: u8,
}

impl<T: Blocks, const BITS: u32> Counter<T, BITS> {
    /// From `first` on, which is that of block number zero. `byte` is its last one; block number `skipped` comes first.
    #[inline(always)]
    pub(super) fn new(t: T, first: T::Reg, byte: u8, skipped: u8) -> Self {
        let numbers = [skipped, skipped + 1, skipped + 2, skipped + 3];
        let first = t.repeat(first);
        let four = match byte.checked_add(numbers[3]) {
            Some(_) => t.add32_4(first, t.load(&highest(numbers))),
            None => Self::count(t, first, numbers),
        };
        let byte = byte.wrapping_add(skipped);
        Self { four, byte }
    }

    /// The blocks of `W` times four, and itself behind them.
    #[inline(always)]
    pub(super) fn next<const W: usize>(&mut self, t: T) -> [T::Four; W] {
        let mut blocks = [self.four; W];
        // Mostly only the last byte changes, which can be added to where it is.
        if self.byte < 255 - 3 - 4 * W as u8 {
            let four = t.load(&const { highest([4; 4]) });
            for i in 1..W {
                blocks[i] = t.add32_4(blocks[i - 1], four);
            }
            self.four = t.add32_4(blocks[W - 1], four);
        } else {
            for i in 1..W {
                blocks[i] = Self::count(t, blocks[i - 1], [4; 4]);
            }
            self.four = Self::count(t, blocks[W - 1], [4; 4]);
        }
        self.byte = self.byte.wrapping_add(4 * W as u8);
        blocks
    }

    #[inline(always)]
    fn count(t: T, four: T::Four, by: [u8; 4]) -> T::Four {
        let (four, by) = (t.swap4(four), t.load(&lowest(by)));
        t.swap4(match BITS {
            32 => t.add32_4(four, by),
            _ => t.add64_4(four, by),
        })
    }
}
