//! What the hash functions have in common: blocks, padding, many messages at once, and their kernels.
//!
//! MD5, SHA-1 and SHA-2 are built alike: a function takes a state forward by one block; the message's last block is padded
//! and says how long the message was. HMAC starts from a state that has already taken a key's block in, see [`Start`].

pub(crate) mod lanes;
pub(crate) mod settled;
pub(crate) mod sha2;
pub(crate) mod vectors;

use std::fmt::Debug;
use std::ops::Range;

use dpb_core::{
    Batch, BatchOut, Exact, HmacHash, Items, JobError, Kernel, OpSpec, OutputShape, SetupError,
    Workload,
};

use crate::direct::AnyKernel;
use crate::entry::{Case, PORTABLE};
use crate::implementation::Implementation;

/// A hash function on one code path.
pub trait Hash: Copy + Debug + Send + Sync + 'static {
    /// The name on the command line.
    const NAME: &'static str;
    /// The name of the hash under HMAC.
    const HMAC: HmacHash;
    /// The paths there are, best first.
    const PATHS: &'static [Implementation];
    /// Bytes of a digest.
    const DIGEST_BYTES: usize;
    /// Bytes that the function takes at once.
    const BLOCK_BYTES: usize;
    /// The state that is carried from block to block.
    type State: Copy + Debug + Send + Sync + 'static;
    /// Before the first block.
    const INITIAL: Self::State;

    /// Makes the hash function on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    fn new(path: Implementation) -> Result<Self, SetupError>;

    /// The state after one more block, of [`Self::BLOCK_BYTES`].
    ///
    /// # Panics
    /// If it is longer or shorter.
    fn after(state: Self::State, block: &[u8]) -> Self::State;

    /// The digest of the bytes before its start and then the item, for each item. `digests` has room for all digests and no more.
    fn each(&self, starts: Starts<'_, Self::State>, batch: Batch<'_>, digests: &mut [u8]);

    /// Makes the hash function on the best path of this CPU.
    fn best() -> Self {
        Self::new(Implementation::best(Self::PATHS)).expect("the best path is available")
    }

    /// The start of a message that stands by itself.
    fn start() -> Start<Self::State> {
        Start {
            state: Self::INITIAL,
            bytes: 0,
        }
    }

    /// The digest of one message.
    fn digest(&self, message: &[u8]) -> Vec<u8> {
        let mut digest = vec![0; Self::DIGEST_BYTES];
        let batch = Batch::new(message, &Items::One).expect("one item is its input");
        self.each(Starts::One(&Self::start()), batch, &mut digest);
        digest
    }
}

/// A point from which hashing begins.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Start<State> {
    /// After the blocks that came before.
    pub state: State,
    /// The number of bytes before the state.
    pub bytes: u64,
}

/// The points from which hashing begins, for each item of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Starts<'a, State> {
    /// One point for all items.
    One(&'a Start<State>),
    /// A point for each item: of its two, as a key of HMAC has them, the one with this number.
    Each(&'a [&'a [Start<State>; 2]], usize),
}

impl<'a, State> Starts<'a, State> {
    /// The point from which item `i` begins.
    ///
    /// # Panics
    /// It may, if there is no such item.
    #[inline]
    pub fn of(self, i: usize) -> &'a Start<State> {
        match self {
            Self::One(start) => start,
            Self::Each(starts, which) => &starts[i][which],
        }
    }

    /// The points from which the items `range` begin.
    ///
    /// # Panics
    /// It may, if there are fewer.
    #[inline]
    pub fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::One(start) => Self::One(start),
            Self::Each(starts, which) => Self::Each(&starts[range], which),
        }
    }
}

/// The steps of a hash function in plain code: how it reads blocks, and how it ends.
pub(crate) trait Function<const BLOCK: usize> {
    type State: Copy;
    /// One block, as the standard has it: the oracle.
    fn compress(state: &mut Self::State, block: &[u8; BLOCK]);
    /// The length of a message, in bits, as its last eight bytes have it.
    fn length(bits: u64) -> [u8; 8];
    /// The state's words, as many as fit.
    fn write(state: &Self::State, digest: &mut [u8]);
}

/// The digest of each item, as an operator.
#[derive(Clone, Copy, Debug)]
pub struct Digests<H>(pub H);

impl<H: Hash> Kernel for Digests<H> {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(H::DIGEST_BYTES)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        H::DIGEST_BYTES
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        let start = H::start();
        out.fixed(&batch, H::DIGEST_BYTES, |batch, digests| {
            self.0.each(Starts::One(&start), *batch, digests);
        });
        Ok(())
    }
}

/// For a registry entry.
pub(crate) fn kernel<H: Hash>(
    _: &OpSpec,
    path: Implementation,
) -> Result<Box<dyn AnyKernel>, SetupError> {
    Ok(Box::new(Digests(H::new(path)?)))
}

/// For a registry entry.
pub(crate) fn workload<H: Hash>(case: &Case) -> Result<Box<dyn Workload>, SetupError> {
    let oracle = H::new(Implementation::Portable)?;
    let right = move |item: &[u8], _| Ok(oracle.digest(item));
    Ok(Box::new(Exact::new(&case.spec, PORTABLE, right)))
}

/// Makes `tail` what follows the last full block: `rest`, a one bit, zeros, the length in bits. Says whether that is one block or two.
#[inline]
fn pad<const BLOCK: usize, F: Function<BLOCK>>(
    tail: &mut [[u8; BLOCK]; 2],
    rest: &[u8],
    total_bytes: u64,
) -> usize {
    *tail = [[0; BLOCK]; 2];
    let bytes = tail.as_flattened_mut();
    bytes[..rest.len()].copy_from_slice(rest);
    bytes[rest.len()] = 0x80;
    // The length has an eighth of a block: 64 bits or 128, of which the upper ones are always zero here.
    let blocks = if rest.len() < BLOCK - BLOCK / 8 { 1 } else { 2 };
    put_length::<BLOCK, F>(&mut tail[blocks - 1], total_bytes);
    blocks
}

/// Ends a message's last block with its length.
#[inline]
fn put_length<const BLOCK: usize, F: Function<BLOCK>>(last: &mut [u8; BLOCK], total_bytes: u64) {
    last[BLOCK - 8..].copy_from_slice(&F::length(total_bytes * 8));
}

/// Compares `hash` with the portable path: one message of each length to 5000 bytes, and up to forty messages.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) fn agrees_with_portable<H: Hash>(hash: H) {
    let oracle = H::new(Implementation::Portable).expect("any CPU has it");
    let bytes: Vec<u8> = (0..5000u32)
        .map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8)
        .collect();
    for len in 0..=bytes.len() {
        let message = &bytes[..len];
        assert_eq!(hash.digest(message), oracle.digest(message), "{len} bytes");
    }
    for count in 1..=40 {
        for len in [0, 55, 64, 125] {
            let items = Items::fixed(len, count);
            let batch = Batch::new(&bytes[..(len * count) as usize], &items).expect("inside");
            let mut digests = vec![0; count as usize * H::DIGEST_BYTES];
            hash.each(Starts::One(&H::start()), batch, &mut digests);
            let mut right = vec![0; digests.len()];
            oracle.each(Starts::One(&H::start()), batch, &mut right);
            assert_eq!(digests, right, "{count} messages of {len} bytes");
        }
    }
}
