//! What actions gave: counters, and some inputs with their outputs, to be checked by whoever runs the program.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// The results of one action, which its stages of all shards write.
#[derive(Debug)]
pub struct Results {
    /// Items, their bytes, the bytes of their outputs, and items without an output.
    counts: [AtomicU64; 4],
    /// One item in so many is kept.
    every: u64,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    samples: Vec<Sample>,
    samples_max: usize,
}

/// An input and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The frame, or the payload.
    pub input: Vec<u8>,
    /// What came of it.
    pub output: Vec<u8>,
}

/// What an action's results counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Items that have an output.
    pub items: u64,
    /// Bytes of these items.
    pub bytes_in: u64,
    /// Bytes of their outputs.
    pub bytes_out: u64,
    /// Items that the operator refused, or whose job failed.
    pub failed: u64,
}

impl Results {
    /// Of which one item in `every` is kept with its output, up to `samples_max` until they are taken.
    pub fn new(every: u64, samples_max: usize) -> Self {
        Self {
            counts: Default::default(),
            every: every.max(1),
            kept: Mutex::new(Kept {
                samples: Vec::with_capacity(samples_max),
                samples_max,
            }),
        }
    }

    /// What was counted so far.
    pub fn read(&self) -> Outputs {
        let [items, bytes_in, bytes_out, failed] =
            std::array::from_fn(|i| self.counts[i].load(Ordering::Relaxed));
        Outputs {
            items,
            bytes_in,
            bytes_out,
            failed,
        }
    }

    /// Takes what is kept.
    pub fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut self.lock().samples)
    }

    pub(super) fn count(&self, input: &[u8], output: &[u8]) {
        let [items, bytes_in, bytes_out, _] = &self.counts;
        let number = items.fetch_add(1, Ordering::Relaxed);
        bytes_in.fetch_add(input.len() as u64, Ordering::Relaxed);
        bytes_out.fetch_add(output.len() as u64, Ordering::Relaxed);
        if number.is_multiple_of(self.every) {
            let mut kept = self.lock();
            if kept.samples.len() < kept.samples_max {
                kept.samples.push(Sample {
                    input: input.to_vec(),
                    output: output.to_vec(),
                });
            }
        }
    }

    pub(super) fn failed(&self) {
        self.counts[3].fetch_add(1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A sample is pushed whole or not at all.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outputs {
    /// What came since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            items: self.items - before.items,
            bytes_in: self.bytes_in - before.bytes_in,
            bytes_out: self.bytes_out - before.bytes_out,
            failed: self.failed - before.failed,
        }
    }
}

/// True if the output is the SHA-256 of the input, by RustCrypto.
pub fn is_sha256(sample: &Sample) -> bool {
    Sha256::digest(&sample.input)[..] == sample.output[..]
}
