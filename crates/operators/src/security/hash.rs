//! What the hash functions have in common: blocks, padding, many messages at once, and their kernels.
//!
//! MD5, SHA-1 and SHA-2 are built alike: a function takes a state forward by one block; the message's last block is padded
//! and says how long the message was. HMAC starts from a state that has already taken a key's block in, and hashes the digest once more, see
//! [`Key`].

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

    /// The digest of each item, or its code. `digests` has room for all of them and no more.
    fn each(&self, keying: Keying<'_, Self::State>, batch: Batch<'_>, digests: &mut [u8]);

    /// Makes the hash function on the best path of this CPU.
    fn best() -> Self {
        Self::new(Implementation::best(Self::PATHS)).expect("the best path is available")
    }

    /// The digest of one message.
    fn digest(&self, message: &[u8]) -> Vec<u8> {
        let mut digest = vec![0; Self::DIGEST_BYTES];
        let batch = Batch::new(message, &Items::One).expect("one item is its input");
        self.each(Keying::Plain(&Self::INITIAL), batch, &mut digest);
        digest
    }
}

/// A key of HMAC (RFC 2104), as the hash function takes it in: it is as secret as the key.
///
/// It begins with a cache line, so that it lies in as few as it can.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Key<State> {
    /// After the inner block, before the message.
    pub inner: State,
    /// After the outer block, before the inner digest.
    pub outer: State,
}

/// What is made of each item of a batch: its digest, or its code under HMAC.
#[derive(Clone, Copy)]
pub enum Keying<'a, State> {
    /// Digests, by no key: from [`Hash::INITIAL`].
    Plain(&'a State),
    /// Codes, by one key.
    One(&'a Key<State>),
    /// Codes, by a key for each item.
    Each(&'a [&'a Key<State>]),
}

impl<'a, State> Keying<'a, State> {
    /// The state before item `i`.
    ///
    /// # Panics
    /// It may, if there is no such item.
    #[inline]
    pub fn inner(self, i: usize) -> &'a State {
        match self {
            Self::Plain(initial) => initial,
            Self::One(key) => &key.inner,
            Self::Each(keys) => &keys[i].inner,
        }
    }

    /// The state before the inner digest of item `i`; `None` without a key.
    ///
    /// # Panics
    /// It may, if there is no such item.
    #[inline]
    pub fn outer(self, i: usize) -> Option<&'a State> {
        match self {
            Self::Plain(_) => None,
            Self::One(key) => Some(&key.outer),
            Self::Each(keys) => Some(&keys[i].outer),
        }
    }

    /// The number of blocks before an item.
    #[inline]
    pub fn blocks_before(self) -> usize {
        match self {
            Self::Plain(_) => 0,
            Self::One(_) | Self::Each(_) => 1,
        }
    }

    /// The keying of the items `range`.
    ///
    /// # Panics
    /// It may, if there are fewer.
    #[inline]
    pub fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::Each(keys) => Self::Each(&keys[range]),
            all => all,
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
    /// The state's words: the digest.
    fn write(state: &Self::State, digest: &mut [u8]);
    /// The state whose words these are.
    fn read(digest: &[u8]) -> Self::State;
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
        out.fixed(&batch, H::DIGEST_BYTES, |batch, digests| {
            self.0.each(Keying::Plain(&H::INITIAL), *batch, digests);
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

/// The block that ends HMAC's outer hash: the inner digest behind a block of the key's.
#[inline]
fn outer_block<const BLOCK: usize, F: Function<BLOCK>>(inner: &F::State) -> [u8; BLOCK] {
    // The digest is the whole state, and one block has room for it.
    const { assert!(size_of::<F::State>() + 1 + BLOCK / 8 <= BLOCK) }
    let digest_bytes = size_of::<F::State>();
    let mut block = [0; BLOCK];
    F::write(inner, &mut block[..digest_bytes]);
    block[digest_bytes] = 0x80;
    put_length::<BLOCK, F>(&mut block, (BLOCK + digest_bytes) as u64);
    block
}

/// Compares `hash` with the portable path: one message of each length to 5000 bytes, and up to forty messages, their digests and their codes.
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
    let [inner, outer] = [
        &bytes[..H::BLOCK_BYTES],
        &bytes[H::BLOCK_BYTES..][..H::BLOCK_BYTES],
    ];
    let key = Key {
        inner: H::after(H::INITIAL, inner),
        outer: H::after(H::INITIAL, outer),
    };
    for count in 1..=40 {
        for len in [0, 55, 64, 125] {
            let items = Items::fixed(len, count);
            let batch = Batch::new(&bytes[..(len * count) as usize], &items).expect("inside");
            let keys = vec![&key; count as usize];
            let plain = Keying::Plain(&H::INITIAL);
            for keying in [plain, Keying::One(&key), Keying::Each(&keys)] {
                let mut digests = vec![0; count as usize * H::DIGEST_BYTES];
                hash.each(keying, batch, &mut digests);
                let mut right = vec![0; digests.len()];
                oracle.each(keying, batch, &mut right);
                assert_eq!(digests, right, "{count} messages of {len} bytes");
            }
        }
    }
}
