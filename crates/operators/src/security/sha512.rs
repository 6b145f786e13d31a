//! SHA-512 (FIPS 180-4): like SHA-256 with words twice as wide, so the faster of the two where there is no instruction for it.
//!
#![doc = include_str!("../../docs/sha512.md")]

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod portable;
mod steps;

use dpb_core::{Batch, HmacHash, SetupError, spec};

use super::hash::lanes::Compress;
use super::hash::vectors::{Sets, Vectors};
use super::hash::{self, Function, Hash, Keying, lanes, sha2};
use crate::entry::Entry;
use crate::implementation::{Implementation, codes};

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "security",
    summary: "SHA-512 digest of each item",
    output: "64 bytes per item",
    source: "FIPS 180-4, 6.4; RFC 6234",
    peers: &["sha2", "ipsec-mb", "openssl"],
    paths: Sha512::PATHS,
    documentation: include_str!("../../docs/sha512.md"),
    ..Entry::of::<spec::Sha512>(hash::kernel::<Sha512>, hash::workload::<Sha512>)
};

/// The first 64 bits of the fractional parts of the cube roots of the first 80 primes (4.2.3).
const K: [u64; 80] = [
    0x428a2f98d728ae22,
    0x7137449123ef65cd,
    0xb5c0fbcfec4d3b2f,
    0xe9b5dba58189dbbc,
    0x3956c25bf348b538,
    0x59f111f1b605d019,
    0x923f82a4af194f9b,
    0xab1c5ed5da6d8118,
    0xd807aa98a3030242,
    0x12835b0145706fbe,
    0x243185be4ee4b28c,
    0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f,
    0x80deb1fe3b1696b1,
    0x9bdc06a725c71235,
    0xc19bf174cf692694,
    0xe49b69c19ef14ad2,
    0xefbe4786384f25e3,
    0x0fc19dc68b8cd5b5,
    0x240ca1cc77ac9c65,
    0x2de92c6f592b0275,
    0x4a7484aa6ea6e483,
    0x5cb0a9dcbd41fbd4,
    0x76f988da831153b5,
    0x983e5152ee66dfab,
    0xa831c66d2db43210,
    0xb00327c898fb213f,
    0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2,
    0xd5a79147930aa725,
    0x06ca6351e003826f,
    0x142929670a0e6e70,
    0x27b70a8546d22ffc,
    0x2e1b21385c26c926,
    0x4d2c6dfc5ac42aed,
    0x53380d139d95b3df,
    0x650a73548baf63de,
    0x766a0abb3c77b2a8,
    0x81c2c92e47edaee6,
    0x92722c851482353b,
    0xa2bfe8a14cf10364,
    0xa81a664bbc423001,
    0xc24b8b70d0f89791,
    0xc76c51a30654be30,
    0xd192e819d6ef5218,
    0xd69906245565a910,
    0xf40e35855771202a,
    0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8,
    0x1e376c085141ab53,
    0x2748774cdf8eeb99,
    0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63,
    0x4ed8aa4ae3418acb,
    0x5b9cca4f7763e373,
    0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc,
    0x78a5636f43172f60,
    0x84c87814a1f0ab72,
    0x8cc702081a6439ec,
    0x90befffa23631e28,
    0xa4506cebde82bde9,
    0xbef9a3f7b2c67915,
    0xc67178f2e372532b,
    0xca273eceea26619c,
    0xd186b8c721c0c207,
    0xeada7dd6cde0eb1e,
    0xf57d4f7fee6ed178,
    0x06f067aa72176fba,
    0x0a637dc5a2c898a6,
    0x113f9804bef90dae,
    0x1b710b35131c471b,
    0x28db77f523047d84,
    0x32caab7b40c72493,
    0x3c9ebe0a15c9bebc,
    0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6,
    0x597f299cfc657e2a,
    0x5fcb6fab3ad6faec,
    0x6c44198c4a475817,
];

/// SHA-512 on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Sha512(Code);

codes! {
    enum Code {
        "x86_64": Avx512,
        "x86_64": Avx2,
        "x86_64": Sse42,
        "aarch64": ArmSha512,
        "aarch64": Neon,
        Portable,
    }
}

impl Hash for Sha512 {
    const NAME: &'static str = "sha512";
    const HMAC: HmacHash = HmacHash::Sha512;
    const PATHS: &'static [Implementation] = Code::ALL;
    const DIGEST_BYTES: usize = 64;
    const BLOCK_BYTES: usize = 128;
    type State = [u64; 8];
    /// The first 64 bits of the fractional parts of the square roots of the first eight primes (5.3.5).
    const INITIAL: [u64; 8] = [
        0x6a09e667f3bcc908,
        0xbb67ae8584caa73b,
        0x3c6ef372fe94f82b,
        0xa54ff53a5f1d36f1,
        0x510e527fade682d1,
        0x9b05688c2b3e6c1f,
        0x1f83d9abfb41bd6b,
        0x5be0cd19137e2179,
    ];

    fn new(path: Implementation) -> Result<Self, SetupError> {
        Code::on(Self::NAME, path).map(Self)
    }

    fn after(mut state: [u64; 8], block: &[u8]) -> [u64; 8] {
        Self::compress(&mut state, block.try_into().expect("a block"));
        state
    }

    fn each(&self, keying: Keying<'_, [u64; 8]>, batch: Batch<'_>, digests: &mut [u8]) {
        let portable = lanes::portable::<128, Self>;
        match self.0 {
            Code::Portable => lanes::serial::<128, Self>(portable, keying, batch, digests),
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) => by_vectors::<_, 8>(proof, keying, batch, digests),
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(proof) => by_vectors::<_, 4>(proof, keying, batch, digests),
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => by_vectors::<_, 2>(proof, keying, batch, digests),
            #[cfg(target_arch = "aarch64")]
            Code::ArmSha512(proof) => {
                let alone = |state: &mut _, parts: lanes::Parts<'_, 128>| {
                    aarch64::alone(proof, state, parts)
                };
                lanes::batch::<128, { aarch64::LANES }, Self, _>(
                    proof, 2, alone, keying, batch, digests,
                );
            }
            #[cfg(target_arch = "aarch64")]
            Code::Neon(proof) => by_vectors::<_, 2>(proof, keying, batch, digests),
        }
    }
}

/// The digests of `N` messages at a time, a word of each in a vector; a single one by vectors of its blocks' words.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
fn by_vectors<P: Vectors<u64, N>, const N: usize>(
    proof: P,
    keying: Keying<'_, [u64; 8]>,
    batch: Batch<'_>,
    digests: &mut [u8],
) where
    Sets<P, 8, N, 1>: Compress<Sha512, 128, N>,
{
    let alone = |state: &mut _, parts: lanes::Parts<'_, 128>| {
        let portable = lanes::portable::<128, Sha512>;
        sha2::alone::alone(proof, &K, portable, state, parts);
    };
    lanes::batch::<128, N, Sha512, _>(Sets(proof), 2, alone, keying, batch, digests);
}

impl Function<128> for Sha512 {
    type State = [u64; 8];

    fn compress(state: &mut [u64; 8], block: &[u8; 128]) {
        portable::compress(state, block);
    }

    fn length(bits: u64) -> [u8; 8] {
        bits.to_be_bytes()
    }

    fn write(state: &[u64; 8], digest: &mut [u8]) {
        digest.copy_from_slice(state.map(u64::to_be_bytes).as_flattened());
    }

    fn read(digest: &[u8]) -> [u64; 8] {
        let words = digest.as_chunks().0;
        std::array::from_fn(|i| u64::from_be_bytes(words[i]))
    }
}
