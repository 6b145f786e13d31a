//! XXH3, 64 bits: the hash of hash tables, file formats and backups where nobody attacks.
//!
//! Up to 240 bytes have code of their own, a few multiplications that no vector helps. Longer items are stripes of 64 bytes,
//! each added to eight sums: that loop is what the paths have each their own of.
//!
#![doc = include_str!("../../docs/xxh3-64.md")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
mod secret;
mod short;
#[cfg(target_arch = "x86_64")]
mod sse42;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod stripes;

use dpb_core::spec::Declared;
use dpb_core::{Batch, BatchOut, Exact, JobError, Kernel, OutputShape, SetupError};

use crate::entry::{Entry, PORTABLE, own};
use crate::implementation::{Implementation, codes};

use secret::{SECRET_BYTES, Secret};

dpb_core::spec! {
    /// XXH3, 64 bits (xxHash 0.8). Output: eight bytes, big endian, per item.
    pub struct Xxh3 = "xxh3-64" {
        /// The number that the default secret is varied with.
        seed: u64 = "0",
    }
}

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "storage",
    summary: "XXH3 of 64 bits of each item",
    output: "8 bytes per item, big endian",
    source: "xxHash, doc/xxhash_spec.md 0.2.0",
    peers: &["twox-hash"],
    paths: Xxh3Hash::PATHS,
    documentation: include_str!("../../docs/xxh3-64.md"),
    ..Entry::of::<Xxh3>(
        |spec, path| Ok(Box::new(Xxh3Hash::new(own::<Xxh3>(spec).seed, path)?)),
        |case| {
            let oracle = Xxh3Hash::new(own::<Xxh3>(&case.spec).seed, Implementation::Portable)?;
            let right = move |item: &[u8], _| Ok(oracle.hash(item).to_be_bytes().to_vec());
            Ok(Box::new(Exact::new(&case.spec, PORTABLE, right)))
        },
    )
};

/// Bytes of a hash.
const BYTES: usize = 8;
/// A step of a long item.
const STRIPE_BYTES: usize = 64;
/// The number of bytes after which the sums are scrambled: each stripe of a block sees the secret eight bytes further on.
const BLOCK_BYTES: usize = (SECRET_BYTES - STRIPE_BYTES) / 8 * STRIPE_BYTES;
/// The offset at which the last stripe sees the secret.
const LAST: usize = SECRET_BYTES - STRIPE_BYTES - 7;
/// The offset at which the sums are merged with the secret.
const MERGE: usize = 11;

const PRIME32_1: u64 = 0x9E37_79B1;
const PRIME32_2: u64 = 0x85EB_CA77;
const PRIME32_3: u64 = 0xC2B2_AE3D;
const PRIME64_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME64_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME64_3: u64 = 0x1656_67B1_9E37_79F9;
const PRIME64_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME64_5: u64 = 0x27D4_EB2F_1656_67C5;

/// The eight sums of a long item.
type Sums = [u64; 8];

/// The sums before the first stripe.
const INITIAL: Sums = [
    PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1,
];

/// XXH3 with a seed, on one code path.
///
/// ```
/// use dpb_operators::storage::xxh3::Xxh3Hash;
///
/// assert_eq!(Xxh3Hash::best(0).hash(b""), 0x2d06_8005_38d3_94c2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Xxh3Hash {
    seed: u64,
    secret: Secret,
    code: Code,
}

codes! {
    enum Code {
        "x86_64": Avx512,
        "x86_64": Avx2,
        "x86_64": Sse42,
        "aarch64": Neon,
        Portable,
    }
}

impl Xxh3Hash {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Code::ALL;

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(seed: u64, path: Implementation) -> Result<Self, SetupError> {
        let code = Code::on(Xxh3::NAME, path)?;
        let secret = Secret::of(seed);
        Ok(Self { seed, secret, code })
    }

    /// Makes the operator on the best path of this CPU.
    pub fn best(seed: u64) -> Self {
        let path = Implementation::best(Self::PATHS);
        Self::new(seed, path).expect("the best path is available")
    }

    /// The hash of `data`.
    #[inline]
    pub fn hash(&self, data: &[u8]) -> u64 {
        match data.len() {
            ..=short::BYTES_MAX => short::hash(data, self.seed),
            _ => self.long(data),
        }
    }

    /// The hash of more than [`short::BYTES_MAX`] bytes.
    fn long(&self, data: &[u8]) -> u64 {
        let secret = &self.secret;
        let sums = match self.code {
            Code::Portable => portable::sums(data, secret),
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(proof) => avx2::sums(proof, data, secret),
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) => avx512::sums(proof, data, secret),
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => sse42::sums(proof, data, secret),
            #[cfg(target_arch = "aarch64")]
            Code::Neon(proof) => neon::sums(proof, data, secret),
        };
        let start = (data.len() as u64).wrapping_mul(PRIME64_1);
        let (pairs, _) = sums.as_chunks::<2>();
        let merged = pairs.iter().enumerate().fold(start, |hash, (i, pair)| {
            let [a, b] = [0, 8].map(|word| secret.word(MERGE + 16 * i + word));
            hash.wrapping_add(folded_product(pair[0] ^ a, pair[1] ^ b))
        });
        avalanche(merged)
    }
}

impl Kernel for Xxh3Hash {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(BYTES)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        BYTES
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.fixed(&batch, BYTES, |batch, dst| {
            let (slots, _) = dst.as_chunks_mut::<BYTES>();
            for (item, slot) in batch.iter().zip(slots) {
                *slot = self.hash(item).to_be_bytes();
            }
        });
        Ok(())
    }
}

/// The product's halves, one XORed onto the other.
#[inline]
fn folded_product(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Lets each bit reach each other.
#[inline]
fn avalanche(mut hash: u64) -> u64 {
    hash ^= hash >> 37;
    hash = hash.wrapping_mul(0x1656_6791_9E37_79F9);
    hash ^ (hash >> 32)
}
