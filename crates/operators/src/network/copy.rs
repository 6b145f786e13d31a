//! Memory copy: what a DMA engine is measured against. Items and slots never overlap.
//!
#![doc = include_str!("../../docs/copy.md")]

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

use dpb_core::{Batch, BatchOut, CopyMode, Exact, JobError, Kernel, OutputShape, SetupError, spec};

use crate::entry::{Entry, PORTABLE, own};
use crate::implementation::{Implementation, codes};

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "network",
    summary: "copy of each item",
    output: "variable: the item",
    source: "ISO C, memcpy",
    peers: &["glibc"],
    paths: Copy::PATHS,
    documentation: include_str!("../../docs/copy.md"),
    ..Entry::of::<spec::Copy>(
        |spec, path| Ok(Box::new(Copy::new(own::<spec::Copy>(spec).mode, path)?)),
        |case| {
            let right = |item: &[u8], _| Ok(item.to_vec());
            Ok(Box::new(Exact::new(&case.spec, PORTABLE, right)))
        },
    )
};

/// Memory copy on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    mode: CopyMode,
    code: Code,
}

codes! {
    enum Code {
        "x86_64": Avx512,
        "aarch64": Neon,
        Portable,
    }
}

impl Copy {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Code::ALL;

    /// Makes the copy of `mode` on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(mode: CopyMode, path: Implementation) -> Result<Self, SetupError> {
        let code = Code::on("copy", path)?;
        Ok(Self { mode, code })
    }

    /// Makes the copy of `mode` on the best path of this CPU.
    pub fn best(mode: CopyMode) -> Self {
        let path = Implementation::best(Self::PATHS);
        Self::new(mode, path).expect("the best path is available")
    }
}

impl Kernel for Copy {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        match self.code {
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) if self.mode == CopyMode::Streaming => {
                avx512::batch(proof, batch, out);
            }
            #[cfg(target_arch = "aarch64")]
            Code::Neon(proof) if self.mode == CopyMode::Streaming => {
                each(batch, out, |item, slot| neon::stream(proof, item, slot));
            }
            _ => each(batch, out, |item, slot| slot.copy_from_slice(item)),
        }
        Ok(())
    }
}

/// Copies each item that its slot has room for.
#[inline(always)]
fn each(batch: Batch<'_>, out: BatchOut<'_>, copy: impl Fn(&[u8], &mut [u8])) {
    let BatchOut {
        mut slots,
        outcomes,
    } = out;
    match (batch.contiguous(), slots.contiguous()) {
        (Some((items, len)), Some((dst, slot))) if len > 0 && len <= slot => {
            let slots = dst.chunks_exact_mut(slot);
            for (item, slot) in items.chunks_exact(len).zip(slots) {
                copy(item, &mut slot[..item.len()]);
            }
            let outcome = Ok(len as u32);
            outcomes.extend((0..batch.len()).map(|_| outcome));
        }
        _ => {
            for (item, slot) in batch.iter().zip(slots) {
                outcomes.push(match slot.get_mut(..item.len()) {
                    Some(slot) => {
                        copy(item, slot);
                        Ok(item.len() as u32)
                    }
                    None => Err(JobError::DstTooShort),
                });
            }
        }
    }
}
