//! MICA's sets: characteristics of a program that depend on no machine but its instruction set (Hoste and Eeckhout, "Microarchitecture-Independent
//! Workload Characterization", IEEE Micro 27(3), 2007, table 1). Its 47: six shares of the mix, parallelism in four windows, nine of
//! registers, four of the working set, twenty of strides, four predictors of branches; and the distribution of reuse distances, which the
//! tool has besides.

mod parallelism;
mod ppm;
mod registers;
mod reuse;
mod strides;

use super::hash::Map;
use super::instruction::{Instruction, Isa};
use super::{Access, Tally};
use parallelism::Parallelism;
use ppm::Ppm;
use registers::Registers;
use reuse::Reuse;
use strides::Strides;

/// Bits of a block's bytes, and of a page's.
const BLOCK_BITS: u32 = 6;
const PAGE_BITS: u32 = 12;

/// All sets at once.
#[derive(Debug)]
pub(super) struct Mica {
    working_set_from: u64,
    /// The instruction that touched each block and page last.
    instruction_blocks: Map<u64>,
    instruction_pages: Map<u64>,
    data_blocks: Map<u64>,
    data_pages: Map<u64>,
    last_fetched: u64,
    strides: Strides,
    reuse: Reuse,
    registers: Registers,
    parallelism: Parallelism,
    ppm: Ppm,
}

impl Mica {
    pub(super) fn new(working_set_from: u64) -> Self {
        Self {
            working_set_from,
            instruction_blocks: Map::default(),
            instruction_pages: Map::default(),
            data_blocks: Map::default(),
            data_pages: Map::default(),
            last_fetched: u64::MAX,
            strides: Strides::default(),
            reuse: Reuse::default(),
            registers: Registers::default(),
            parallelism: Parallelism::default(),
            ppm: Ppm::default(),
        }
    }

    /// Instruction number `now`, with all that it accesses.
    pub(super) fn instruction(&mut self, instruction: &Instruction, accesses: &[Access], now: u64) {
        let address = instruction.address;
        let last = address.wrapping_add(u64::from(instruction.length) - 1);
        for address in [address, last] {
            let block = address >> BLOCK_BITS;
            // Within a block the first and the last instruction tell when it was touched.
            if block != self.last_fetched || now == self.working_set_from + 1 {
                self.last_fetched = block;
                self.instruction_blocks.insert(block, now);
                self.instruction_pages.insert(address >> PAGE_BITS, now);
            }
        }
        self.registers.instruction(instruction, now);
        self.parallelism.instruction(instruction, accesses);
    }

    /// An access of the instruction whose number in the program is `code`.
    pub(super) fn access(&mut self, code: u32, access: &Access, now: u64) {
        let last = access.address.wrapping_add(u64::from(access.bytes) - 1);
        for address in [access.address, last] {
            self.data_blocks.insert(address >> BLOCK_BITS, now);
            self.data_pages.insert(address >> PAGE_BITS, now);
        }
        self.strides.access(code, access);
        self.reuse.access(access.address >> BLOCK_BITS);
    }

    /// A conditional branch at `address`.
    pub(super) fn branch(&mut self, address: u64, is_taken: bool) {
        self.ppm.branch(address, is_taken);
    }

    pub(super) fn count(&self, tally: &mut Tally, isa: Isa) {
        let touched = |blocks: &Map<u64>| {
            let late = blocks
                .values()
                .filter(|&&last| last > self.working_set_from);
            late.count() as u64
        };
        tally.add(
            "instruction_blocks_touched",
            touched(&self.instruction_blocks),
        );
        tally.add(
            "instruction_pages_touched",
            touched(&self.instruction_pages),
        );
        tally.add("data_blocks_touched", touched(&self.data_blocks));
        tally.add("data_pages_touched", touched(&self.data_pages));
        self.strides.count(tally);
        self.reuse.count(tally);
        self.ppm.count(tally);
        // Registers of Arm's instructions are not decoded.
        if isa == Isa::X86 {
            self.registers.count(tally);
            self.parallelism.count(tally);
        }
    }
}

/// The metrics that follow from the counts, as far as they are there.
pub(super) fn metrics(tally: &Tally, instructions: u64) -> Vec<(String, f64)> {
    let mut metrics = Vec::new();
    let Some(data_blocks) = tally.count("data_blocks_touched") else {
        return metrics;
    };
    let share = |count: Option<u64>, of: Option<u64>| {
        let of = of.filter(|&of| of > 0)?;
        Some(count? as f64 / of as f64)
    };
    let all = Some(instructions);
    let mut push = |name: &str, value: Option<f64>| {
        metrics.extend(value.map(|value| (format!("mica_{name}"), value)));
    };
    for (name, count) in [
        ("loads_share", "loading"),
        ("stores_share", "storing"),
        ("control_share", "branch"),
        ("arithmetic_share", "scalar_integer"),
        ("multiply_share", "multiply"),
        ("float_share", "float"),
    ] {
        push(name, share(tally.count(count), all));
    }
    for (window, name) in parallelism::WINDOWS.iter().zip(parallelism::NAMES) {
        push(&format!("ilp_{window}"), share(all, tally.count(name)));
    }
    push(
        "register_operands",
        share(tally.count("register_operands"), all),
    );
    push(
        "register_uses",
        share(tally.count("register_uses"), tally.count("register_values")),
    );
    for (most, name) in registers::DISTANCES.iter().zip(registers::NAMES) {
        let near = share(tally.count(name), tally.count("register_uses"));
        push(&format!("dependency_le_{most}"), near);
    }
    push("data_blocks", Some(data_blocks as f64));
    for (name, count) in [
        ("data_pages", "data_pages_touched"),
        ("instruction_blocks", "instruction_blocks_touched"),
        ("instruction_pages", "instruction_pages_touched"),
    ] {
        push(name, tally.count(count).map(|count| count as f64));
    }
    for (kind, names) in strides::KINDS.iter().zip(strides::NAMES) {
        let [all, names @ ..] = names;
        for (most, name) in strides::DISTANCES.iter().zip(names) {
            let near = share(tally.count(name), tally.count(all));
            push(&format!("{kind}_stride_le_{most}"), near);
        }
    }
    for (name, wrong) in ppm::KINDS.iter().zip(ppm::NAMES) {
        let branches = tally.count("conditional_branches");
        push(&format!("ppm_{name}"), share(tally.count(wrong), branches));
    }
    let mut within = 0;
    for (bucket, name) in reuse::NAMES.iter().enumerate() {
        within += tally.count(name).unwrap_or(0);
        let near = share(Some(within), tally.count(reuse::ALL));
        push(&format!("reuse_lt_{}", 1_u64 << bucket), near);
    }
    metrics
}
