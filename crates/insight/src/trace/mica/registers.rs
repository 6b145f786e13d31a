//! Traffic through registers (Franklin and Sohi, MICRO-25, 1992): operands, uses of a value, instructions between a value and its use.

use super::super::Tally;
use super::super::instruction::Instruction;

/// The largest distances of the buckets, in instructions.
pub(super) const DISTANCES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Their counts, each with those of the smaller ones.
pub(super) const NAMES: [&str; 7] = [
    "dependency_1",
    "dependency_2",
    "dependency_4",
    "dependency_8",
    "dependency_16",
    "dependency_32",
    "dependency_64",
];

/// Counts of registers that are read and written.
#[derive(Debug)]
pub(super) struct Registers {
    /// The instruction that wrote each register last; 0 for none.
    written: [u64; 256],
    operands: u64,
    uses: u64,
    values: u64,
    near: [u64; 7],
}

impl Default for Registers {
    fn default() -> Self {
        Self {
            written: [0; 256],
            operands: 0,
            uses: 0,
            values: 0,
            near: [0; 7],
        }
    }
}

impl Registers {
    /// Instruction number `now`, which counts from 1.
    pub(super) fn instruction(&mut self, instruction: &Instruction, now: u64) {
        for &register in &instruction.reads {
            self.operands += 1;
            let written = self.written[usize::from(register)];
            if written == 0 {
                continue;
            }
            self.uses += 1;
            for (count, most) in self.near.iter_mut().zip(DISTANCES) {
                *count += u64::from(now - written <= most);
            }
        }
        for &register in &instruction.writes {
            self.values += 1;
            self.written[usize::from(register)] = now;
        }
    }

    pub(super) fn count(&self, tally: &mut Tally) {
        tally.add("register_operands", self.operands);
        tally.add("register_uses", self.uses);
        tally.add("register_values", self.values);
        for (name, count) in NAMES.iter().zip(self.near) {
            tally.add(name, count);
        }
    }
}
