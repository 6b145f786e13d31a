//! Parallelism of instructions on a machine that has everything but a window: each instruction takes one cycle, begins when what it
//! reads is there, and not before the instruction that lies a window's length before it has left, in order.

use super::super::hash::Map;
use super::super::instruction::Instruction;
use super::super::{Access, Direction, Tally};

/// Instructions in the window.
pub(super) const WINDOWS: [usize; 4] = [32, 64, 128, 256];
/// The counts of cycles that the windows take.
pub(super) const NAMES: [&str; 4] = [
    "window_32_cycles",
    "window_64_cycles",
    "window_128_cycles",
    "window_256_cycles",
];
/// Bits of the bytes of memory that depend on one another as a whole.
const WORD_BITS: u32 = 3;

/// All windows at once.
#[derive(Debug)]
pub(super) struct Parallelism {
    windows: [Window; 4],
    /// When each word that was stored is there, by windows.
    stored: Map<[u64; 4]>,
    number: usize,
}

#[derive(Debug)]
struct Window {
    /// When each register is there.
    ready: [u64; 256],
    /// When each of the last instructions left.
    left: Vec<u64>,
    /// When the last one left.
    now: u64,
}

impl Default for Parallelism {
    fn default() -> Self {
        Self {
            windows: WINDOWS.map(|length| Window {
                ready: [0; 256],
                left: vec![0; length],
                now: 0,
            }),
            stored: Map::default(),
            number: 0,
        }
    }
}

impl Parallelism {
    pub(super) fn instruction(&mut self, instruction: &Instruction, accesses: &[Access]) {
        let mut begin = [0; 4];
        for access in accesses
            .iter()
            .filter(|it| it.direction != Direction::Store)
        {
            for word in words(access) {
                let Some(stored) = self.stored.get(&word) else {
                    continue;
                };
                for (begin, stored) in begin.iter_mut().zip(stored) {
                    *begin = (*begin).max(*stored);
                }
            }
        }
        let mut end = [0; 4];
        for ((window, begin), end) in self.windows.iter_mut().zip(begin).zip(&mut end) {
            *end = window.instruction(instruction, begin, self.number);
        }
        for access in accesses.iter().filter(|it| it.direction != Direction::Load) {
            for word in words(access) {
                self.stored.insert(word, end);
            }
        }
        self.number += 1;
    }

    pub(super) fn count(&self, tally: &mut Tally) {
        for (window, name) in self.windows.iter().zip(NAMES) {
            tally.add(name, window.now);
        }
    }
}

impl Window {
    /// Gives when the instruction, whose loads are there at `begin`, ends.
    fn instruction(&mut self, instruction: &Instruction, begin: u64, number: usize) -> u64 {
        let slot = number % self.left.len();
        let mut begin = begin.max(self.left[slot]);
        for &register in &instruction.reads {
            begin = begin.max(self.ready[usize::from(register)]);
        }
        let end = begin + 1;
        for &register in &instruction.writes {
            self.ready[usize::from(register)] = end;
        }
        self.now = self.now.max(end);
        self.left[slot] = self.now;
        end
    }
}

fn words(access: &Access) -> impl Iterator<Item = u64> {
    let last = access.address.wrapping_add(u64::from(access.bytes) - 1);
    (access.address >> WORD_BITS)..=(last >> WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Isa;

    fn cycles(bytes: &[u8], times: u64) -> [u64; 4] {
        let instruction = Isa::X86.decode(0, bytes).expect("an instruction");
        let mut parallelism = Parallelism::default();
        for _ in 0..times {
            parallelism.instruction(&instruction, &[]);
        }
        let mut tally = Tally::default();
        parallelism.count(&mut tally);
        NAMES.map(|name| tally.count(name).expect("counted"))
    }

    #[test]
    fn chains_take_a_cycle_each_and_others_fill_the_window() {
        // add %rax, %rax waits for itself; mov $1, %eax waits for nothing.
        assert_eq!(cycles(&[0x48, 0x01, 0xc0], 512), [512; 4]);
        assert_eq!(cycles(&[0xb8, 1, 0, 0, 0], 512), [16, 8, 4, 2]);
    }

    #[test]
    fn a_load_waits_for_the_store() {
        // mov %eax, (%rbx) and mov (%rbx), %eax in turns.
        let store = Isa::X86.decode(0, &[0x89, 0x03]).expect("a store");
        let load = Isa::X86.decode(2, &[0x8b, 0x03]).expect("a load");
        let access = |direction| {
            [Access {
                address: 64,
                bytes: 4,
                direction,
            }]
        };
        let mut parallelism = Parallelism::default();
        for _ in 0..100 {
            parallelism.instruction(&store, &access(Direction::Store));
            parallelism.instruction(&load, &access(Direction::Load));
        }
        let mut tally = Tally::default();
        parallelism.count(&mut tally);
        assert_eq!(tally.count(NAMES[3]), Some(200));
    }
}
