//! `strcmp` and `strcat`: two strings, each in half of the item, up to a zero byte.
//!
#![doc = include_str!("../../docs/strcmp.md")]
#![doc = include_str!("../../docs/strcat.md")]

mod libc;
#[cfg(test)]
mod tests;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;

use dpb_core::{
    Batch, BatchOut, Input, JobError, Kernel, OpSpec, OutputShape, Right, SetupError, Workload,
    spec,
};

use crate::entry::{Entry, PORTABLE};
use crate::implementation::{Implementation, codes};
use crate::input;

/// The registry's line of `strcmp`.
pub(crate) const STRCMP: Entry = Entry {
    scenario: "primitive",
    summary: "order of two strings that end with a zero byte",
    output: "1 byte per item: 0, 1 or 255",
    source: "ISO C, strcmp",
    peers: &["glibc"],
    paths: Strcmp::PATHS,
    documentation: include_str!("../../docs/strcmp.md"),
    ..Entry::of::<spec::Strcmp>(
        |_, path| Ok(Box::new(Strcmp::new(path)?)),
        |case| {
            let right = |item: &[u8]| vec![compare(item)];
            Ok(Box::new(Pairs::new(&case.spec, right)))
        },
    )
};

/// The registry's line of `strcat`.
pub(crate) const STRCAT: Entry = Entry {
    scenario: "primitive",
    summary: "two strings that end with a zero byte, joined",
    output: "variable: both, and a zero byte",
    source: "ISO C, strcat",
    peers: &["glibc"],
    paths: Strcat::PATHS,
    allocates: &[Implementation::Portable],
    documentation: include_str!("../../docs/strcat.md"),
    ..Entry::of::<spec::Strcat>(
        |_, path| Ok(Box::new(Strcat::new(path)?)),
        |case| Ok(Box::new(Pairs::new(&case.spec, join))),
    )
};

codes! {
    enum Code {
        "x86_64": Avx2,
        "x86_64": Sse42,
        "aarch64": Neon,
        Libc,
        Portable,
    }
}

/// `strcmp` on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Strcmp(Implementation);

impl Strcmp {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = &[Implementation::Libc, Implementation::Portable];

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If there is no such path.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        path.among("strcmp", Self::PATHS).map(Self)
    }
}

impl Kernel for Strcmp {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(1)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        1
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        // A loop for each path, so that each is small enough to be inlined.
        match self.0 {
            Implementation::Libc => out.each(batch, |item, order| {
                let [first, second] = halves(item);
                order[0] = libc::order(first, second).signum() as u8;
            }),
            _ => out.each(batch, |item, order| order[0] = compare(item)),
        }
        Ok(())
    }
}

/// `strcat` on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Strcat(Code);

impl Strcat {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Code::ALL;

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(path: Implementation) -> Result<Self, SetupError> {
        Code::on("strcat", path).map(Self)
    }
}

impl Kernel for Strcat {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len + 1
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        // A loop for each path, so that each is small enough to be inlined.
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(proof) => vectors::join_each_by_avx2(proof, batch, out),
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => join_each(batch, out, |first, second, slot| {
                vectors::join(proof, first, second, slot)
            }),
            #[cfg(target_arch = "aarch64")]
            Code::Neon(proof) => join_each(batch, out, |first, second, slot| {
                vectors::join(proof, first, second, slot)
            }),
            Code::Libc => join_each(batch, out, libc::join),
            Code::Portable => out.each_outcome(batch, |item, slot| {
                let joined = join(item);
                let slot = slot.get_mut(..joined.len());
                slot.ok_or(JobError::DstTooShort)?.copy_from_slice(&joined);
                Ok(joined.len() as u32)
            }),
        }
        Ok(())
    }
}

/// Joins the strings of each item by `join`, which says how many bytes it wrote, or `None` if the slot is too short.
#[inline(always)]
fn join_each(
    batch: Batch<'_>,
    out: BatchOut<'_>,
    join: impl Fn(&[u8], &[u8], &mut [u8]) -> Option<usize>,
) {
    out.each_outcome(batch, |item, slot| {
        let [first, second] = halves(item);
        let bytes = join(first, second, slot).ok_or(JobError::DstTooShort)?;
        Ok(bytes as u32)
    });
}

/// The two strings of an item.
#[inline(always)]
fn halves(item: &[u8]) -> [&[u8]; 2] {
    let half = item.len() / 2;
    [&item[..half], &item[half..2 * half]]
}

/// Both strings of an item, byte by byte.
fn strings(item: &[u8]) -> [impl Iterator<Item = u8>; 2] {
    halves(item).map(|half| half.iter().copied().take_while(|byte| *byte != 0))
}

/// The oracle of `strcmp`.
fn compare(item: &[u8]) -> u8 {
    let [first, second] = strings(item);
    first.cmp(second) as i8 as u8
}

/// The oracle of `strcat`.
fn join(item: &[u8]) -> Vec<u8> {
    let [first, second] = strings(item);
    first.chain(second).chain([0]).collect()
}

/// Text as the first string. The second one is the same; for two lengths or last bytes of three its last byte is less or
/// greater, so that comparing cannot stop early.
struct Pairs {
    spec: OpSpec,
    right: fn(&[u8]) -> Vec<u8>,
}

impl Pairs {
    fn new(spec: &OpSpec, right: fn(&[u8]) -> Vec<u8>) -> Self {
        let spec = spec.clone();
        Self { spec, right }
    }
}

impl Workload for Pairs {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        PORTABLE
    }

    fn plain(&self, seed: u64, len: usize, count: usize) -> Input {
        input::text(seed, len, count)
    }

    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let first = plain.iter().map(|byte| *byte.max(&1));
        let mut item: Vec<u8> = first.chain([0]).collect();
        let mut second = item.clone();
        if let [.., last, _] = second.as_mut_slice() {
            *last = match (plain.len() + usize::from(*last)) % 3 {
                0 => *last,
                1 => last.saturating_add(1),
                _ => (*last - 1).max(1),
            };
        }
        item.extend(second);
        Ok(item)
    }

    fn describe(&self, plain: &str) -> String {
        format!("{plain} twice, the last byte differing in two of three")
    }

    fn right(&self, item: &[u8], _slot_bytes: usize) -> Right {
        Right::Only((self.right)(item))
    }
}
