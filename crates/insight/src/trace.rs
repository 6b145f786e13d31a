//! The analyser: instructions, accesses to memory and branches of a program, one after another, become counts.
//!
//! Whoever watches a program ([`source`](crate::source)) tells the [`Analyser`] of each instruction that is executed and of each access
//! that it makes. The analyser counts by [`Operation`], runs models of caches and TLBs of a named [`Geometry`] and a predictor of
//! branches, and on request the sets of MICA (Hoste and Eeckhout, IEEE Micro 27(3), 2007), which depend on no machine. [`Tally`] has
//! the counts; those of the jobs alone are the [difference](Tally::since) of two lengths.
//!
//! Two rules make counts of different sources equal. A string instruction with a repeat prefix is one instruction, however often it
//! repeats; emulators report each repetition. Accesses of one instruction to memory that is contiguous are one access, and a store to
//! what the same instruction has loaded is part of that access; emulators split wide accesses.

mod a64;
mod branch;
mod cache;
mod decode;
mod hash;
mod instruction;
mod lackey;
mod metrics;
mod mica;
mod plugin;
mod tally;
mod x86;

#[cfg(test)]
mod tests;

use branch::Gshare;
pub use cache::{Cache, Geometry, Shape};
use cache::{Hierarchy, Tlbs};
use hash::Map;
pub use instruction::{Instruction, Isa, Operation};
pub use lackey::read_lackey;
use mica::Mica;
pub use plugin::read_plugin;
pub use tally::Tally;

/// The reason why a stream of events is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The stream could not be read.
    #[error("a trace could not be read: {0}")]
    Read(#[from] std::io::Error),
    /// The stream says something that no source says.
    #[error("no trace: {0}")]
    Malformed(String),
    /// The stream ends before the program does.
    #[error("the trace ends before its program")]
    CutOff,
}

/// The figures that the analyser computes beside the mix.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The caches and TLBs.
    pub geometry: Geometry,
    /// The number of instructions after which MICA's sets are computed too, which takes some ten times as long; `None`: never. What
    /// comes before is not in their counts.
    pub mica_from: Option<u64>,
    /// The number of instructions after which a working set begins: blocks that are touched behind it are counted.
    pub working_set_from: u64,
    /// True with models of caches, TLBs and a predictor of branches. Without them instructions and accesses are counted, which takes less time.
    pub has_models: bool,
}

/// The number by which the analyser knows an instruction of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(u32);

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Memory is read.
    Load,
    /// Memory is written.
    Store,
    /// The same memory is read, then written.
    Modify,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte.
    pub address: u64,
    /// The number of bytes.
    pub bytes: u32,
    /// The direction.
    pub direction: Direction,
}

/// Counts a program's instructions and accesses as they come.
#[derive(Debug)]
pub struct Analyser {
    isa: Isa,
    codes: Vec<Code>,
    by_address: Map<u32>,
    /// The instruction that is being executed, and what it has accessed so far.
    current: Option<u32>,
    accesses: Vec<Access>,
    is_loading: bool,
    is_storing: bool,
    instructions: u64,
    has_models: bool,
    caches: Hierarchy,
    tlbs: Tlbs,
    predictor: Gshare,
    mica: Option<Box<Mica>>,
    mica_from: u64,
    tally: Accesses,
}

/// An instruction and how often it was executed.
#[derive(Debug)]
struct Code {
    instruction: Instruction,
    bytes: [u8; 15],
    times: u64,
    accessing: u64,
    loading: u64,
    storing: u64,
}

#[derive(Debug, Default)]
struct Accesses {
    loads: u64,
    stores: u64,
    modifies: u64,
}

/// Most bytes that pieces of one access come to: a vector register's.
const ACCESS_BYTES_MAX: u32 = 64;

impl Analyser {
    /// An analyser that has seen nothing.
    pub fn new(isa: Isa, options: Options) -> Self {
        Self {
            isa,
            codes: Vec::new(),
            by_address: Map::default(),
            current: None,
            accesses: Vec::new(),
            is_loading: false,
            is_storing: false,
            instructions: 0,
            has_models: options.has_models,
            caches: Hierarchy::new(&options.geometry),
            tlbs: Tlbs::new(&options.geometry),
            predictor: Gshare::new(),
            mica: options
                .mica_from
                .map(|_| Box::new(Mica::new(options.working_set_from))),
            mica_from: options.mica_from.unwrap_or(0),
            tally: Accesses::default(),
        }
    }

    /// The number of an instruction that lies at `address` and has these bytes. Bytes that were there before and are others now are
    /// another instruction.
    ///
    /// # Errors
    /// If no instruction has so many bytes.
    pub fn define(&mut self, address: u64, bytes: &[u8]) -> Result<Id, TraceError> {
        if let Some(&known) = self.by_address.get(&address) {
            let code = &self.codes[known as usize];
            let length = usize::from(code.instruction.length);
            if code.bytes[..length] == *bytes {
                return Ok(Id(known));
            }
        }
        self.keep(self.isa.decode(address, bytes)?, bytes)
    }

    /// The number of an instruction of which only the place is known.
    ///
    /// # Errors
    /// If no instruction has so many bytes.
    pub fn define_unknown(&mut self, address: u64, length: usize) -> Result<Id, TraceError> {
        let decoded = self.isa.decode(address, &vec![0; length.min(16)])?;
        let place = Instruction::unknown(decoded.address, length);
        self.keep(place, &vec![0; length])
    }

    fn keep(&mut self, instruction: Instruction, bytes: &[u8]) -> Result<Id, TraceError> {
        let mut kept = [0; 15];
        kept[..bytes.len()].copy_from_slice(bytes);
        let address = instruction.address;
        let id = u32::try_from(self.codes.len())
            .map_err(|_| TraceError::Malformed("2^32 instructions".to_owned()))?;
        self.codes.push(Code {
            instruction,
            bytes: kept,
            times: 0,
            accessing: 0,
            loading: 0,
            storing: 0,
        });
        self.by_address.insert(address, id);
        Ok(Id(id))
    }

    /// The instruction that was last defined at `address`.
    pub fn known(&self, address: u64, length: u8) -> Option<Id> {
        let id = *self.by_address.get(&address)?;
        (self.codes[id as usize].instruction.length == length).then_some(Id(id))
    }

    /// The next instruction begins.
    ///
    /// # Panics
    /// If the number is of another analyser.
    pub fn execute(&mut self, id: Id) {
        let code = &mut self.codes[id.0 as usize];
        if self.current == Some(id.0) && code.instruction.is_repeated {
            // What the repetitions access is not one access, even if it is contiguous.
            self.settle();
            return;
        }
        code.times += 1;
        let (address, length) = (code.instruction.address, code.instruction.length);
        self.complete(Some(address));
        self.instructions += 1;
        if self.has_models {
            self.caches.fetch(address, u32::from(length));
            self.tlbs.fetch(address, u32::from(length));
        }
        self.current = Some(id.0);
    }

    /// The instruction that began last accesses memory. Without an instruction nothing is counted.
    ///
    /// # Errors
    /// If no instruction accesses so many bytes.
    pub fn access(&mut self, access: Access) -> Result<(), TraceError> {
        // Instructions that save a processor's whole state are the longest.
        const LONGEST: u32 = 16 << 10;
        if access.bytes == 0 || access.bytes > LONGEST {
            let bytes = access.bytes;
            return Err(TraceError::Malformed(format!("an access of {bytes} bytes")));
        }
        if self.current.is_none() {
            return Ok(());
        }
        self.is_loading |= access.direction != Direction::Store;
        self.is_storing |= access.direction != Direction::Load;
        if let Some(last) = self.accesses.last_mut() {
            let bytes = last.bytes.saturating_add(access.bytes);
            let continues = access.direction == last.direction
                && access.address == last.address.wrapping_add(u64::from(last.bytes))
                && bytes <= ACCESS_BYTES_MAX;
            if continues {
                last.bytes = bytes;
                return Ok(());
            }
            let is_written_back = last.direction == Direction::Load
                && access.direction == Direction::Store
                && (last.address, last.bytes) == (access.address, access.bytes);
            if is_written_back {
                last.direction = Direction::Modify;
                return Ok(());
            }
        }
        self.accesses.push(access);
        Ok(())
    }

    /// Another thread goes on: what comes next does not follow from the last instruction.
    pub fn interrupt(&mut self) {
        self.complete(None);
        self.current = None;
    }

    /// The counts.
    pub fn finish(mut self) -> Tally {
        self.complete(None);
        let mut tally = Tally::default();
        tally.add("instructions", self.instructions);
        // Kinds that never occurred are counted too: two runs may differ in the kinds that they have.
        for operation in Operation::ALL {
            tally.add(operation.name(), 0);
        }
        let sum = |of: fn(&Code) -> u64| self.codes.iter().map(of).sum();
        tally.add("load_store", sum(|code| code.accessing));
        tally.add("loading", sum(|code| code.loading));
        tally.add("storing", sum(|code| code.storing));
        tally.add(
            "multiply",
            sum(|code| code.times * u64::from(code.instruction.is_multiply)),
        );
        for code in &self.codes {
            tally.add(code.instruction.operation.name(), code.times);
        }
        tally.add("loads", self.tally.loads);
        tally.add("stores", self.tally.stores);
        tally.add("modifies", self.tally.modifies);
        if self.has_models {
            self.caches.count(&mut tally);
            self.tlbs.count(&mut tally);
            self.predictor.count(&mut tally);
        }
        if let Some(mica) = &self.mica {
            mica.count(&mut tally, self.isa);
        }
        tally
    }

    /// Counts what the current instruction has accessed so far.
    fn settle(&mut self) {
        let Some(current) = self.current else { return };
        let accesses = std::mem::take(&mut self.accesses);
        for access in &accesses {
            match access.direction {
                Direction::Load => self.tally.loads += 1,
                Direction::Store => self.tally.stores += 1,
                Direction::Modify => self.tally.modifies += 1,
            }
            if self.has_models {
                self.caches.access(access.address, access.bytes);
                self.tlbs.access(access.address, access.bytes);
            }
            if let Some(mica) = self
                .mica
                .as_mut()
                .filter(|_| self.instructions > self.mica_from)
            {
                mica.access(current, access, self.instructions);
            }
        }
        self.accesses = accesses;
        self.accesses.clear();
    }

    /// Ends the current instruction; the next one lies at `next`.
    fn complete(&mut self, next: Option<u64>) {
        let Some(current) = self.current else { return };
        let (is_loading, is_storing) = (
            std::mem::take(&mut self.is_loading),
            std::mem::take(&mut self.is_storing),
        );
        let code = &mut self.codes[current as usize];
        code.accessing += u64::from(is_loading || is_storing);
        code.loading += u64::from(is_loading);
        code.storing += u64::from(is_storing);
        if let Some(mica) = self
            .mica
            .as_mut()
            .filter(|_| self.instructions > self.mica_from)
        {
            mica.instruction(&code.instruction, &self.accesses, self.instructions);
        }
        if let (true, Some(next)) = (code.instruction.is_conditional, next) {
            let address = code.instruction.address;
            let behind = address.wrapping_add(u64::from(code.instruction.length));
            let is_taken = next != behind;
            if self.has_models {
                self.predictor.branch(address, is_taken);
            }
            if let Some(mica) = self
                .mica
                .as_mut()
                .filter(|_| self.instructions > self.mica_from)
            {
                mica.branch(address, is_taken);
            }
        }
        self.settle();
    }
}
