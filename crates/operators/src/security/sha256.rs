//! SHA-256 (FIPS 180-4): integrity of stored objects, content addresses, signatures' first step.
//!
#![doc = include_str!("../../docs/sha256.md")]

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod portable;
mod steps;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use dpb_core::{Batch, HmacHash, SetupError, spec};

use super::hash::lanes::Compress;
use super::hash::vectors::{Sets, Vectors};
use super::hash::{self, Function, Hash, Keying, lanes, sha2};
use crate::entry::Entry;
use crate::implementation::{Implementation, codes};

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "security",
    summary: "SHA-256 digest of each item",
    output: "32 bytes per item",
    source: "FIPS 180-4, 6.2; RFC 6234",
    peers: &["sha2", "ipsec-mb", "openssl"],
    paths: Sha256::PATHS,
    documentation: include_str!("../../docs/sha256.md"),
    ..Entry::of::<spec::Sha256>(hash::kernel::<Sha256>, hash::workload::<Sha256>)
};

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2).
const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// SHA-256 on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Sha256(Code);

codes! {
    enum Code {
        "x86_64": Avx512 with ShaNi,
        "x86_64": ShaNi,
        "x86_64": Avx2,
        "x86_64": Sse42,
        "aarch64": ArmSha2,
        "aarch64": Neon,
        Portable,
    }
}

impl Hash for Sha256 {
    const NAME: &'static str = "sha256";
    const HMAC: HmacHash = HmacHash::Sha256;
    const PATHS: &'static [Implementation] = Code::ALL;
    const DIGEST_BYTES: usize = 32;
    const BLOCK_BYTES: usize = 64;
    type State = [u32; 8];
    /// The first 32 bits of the fractional parts of the square roots of the first eight primes (5.3.3).
    const INITIAL: [u32; 8] = [
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
        0x5be0cd19,
    ];

    fn new(path: Implementation) -> Result<Self, SetupError> {
        Code::on(Self::NAME, path).map(Self)
    }

    fn after(mut state: [u32; 8], block: &[u8]) -> [u32; 8] {
        Self::compress(&mut state, block.try_into().expect("a block"));
        state
    }

    fn each(&self, keying: Keying<'_, [u32; 8]>, batch: Batch<'_>, digests: &mut [u8]) {
        let portable = lanes::portable::<64, Self>;
        match self.0 {
            Code::Portable => lanes::serial::<64, Self>(portable, keying, batch, digests),
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof, None) => {
                let alone = |state: &mut _, parts: lanes::Parts<'_, 64>| {
                    sha2::alone::alone(proof.avx2(), &K, portable, state, parts);
                };
                let one = Sets::<_, 8, 16, 1>(proof);
                lanes::batch::<64, 16, Self, _>(one, 3, alone, keying, batch, digests);
            }
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof, Some(alone)) => {
                let alone =
                    |state: &mut _, parts: lanes::Parts<'_, 64>| x86_64::alone(alone, state, parts);
                lanes::batch::<64, 16, Self, _>(
                    Sets::<_, 8, 16, 1>(proof),
                    7,
                    alone,
                    keying,
                    batch,
                    digests,
                );
            }
            #[cfg(target_arch = "x86_64")]
            Code::ShaNi(proof) => {
                let alone =
                    |state: &mut _, parts: lanes::Parts<'_, 64>| x86_64::alone(proof, state, parts);
                lanes::batch::<64, { x86_64::LANES }, Self, _>(
                    proof, 2, alone, keying, batch, digests,
                );
            }
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(proof) => by_vectors::<_, 8>(proof, keying, batch, digests),
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => by_vectors::<_, 4>(proof, keying, batch, digests),
            #[cfg(target_arch = "aarch64")]
            Code::Neon(proof) => by_vectors::<_, 4>(proof, keying, batch, digests),
            #[cfg(target_arch = "aarch64")]
            Code::ArmSha2(proof) => {
                let alone = |state: &mut _, parts: lanes::Parts<'_, 64>| {
                    aarch64::alone(proof, state, parts)
                };
                lanes::batch::<64, { aarch64::LANES }, Self, _>(
                    proof, 2, alone, keying, batch, digests,
                );
            }
        }
    }
}

/// The digests of `N` messages at a time, a word of each in a vector; one or two by vectors of their blocks' words.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[inline(always)]
fn by_vectors<P: Vectors<u32, N>, const N: usize>(
    proof: P,
    keying: Keying<'_, [u32; 8]>,
    batch: Batch<'_>,
    digests: &mut [u8],
) where
    Sets<P, 8, N, 1>: Compress<Sha256, 64, N>,
{
    let alone = |state: &mut _, parts: lanes::Parts<'_, 64>| {
        let portable = lanes::portable::<64, Sha256>;
        sha2::alone::alone(proof, &K, portable, state, parts);
    };
    lanes::batch::<64, N, Sha256, _>(Sets(proof), 3, alone, keying, batch, digests);
}

impl Function<64> for Sha256 {
    type State = [u32; 8];

    fn compress(state: &mut [u32; 8], block: &[u8; 64]) {
        portable::compress(state, block);
    }

    fn length(bits: u64) -> [u8; 8] {
        bits.to_be_bytes()
    }

    fn write(state: &[u32; 8], digest: &mut [u8]) {
        digest.copy_from_slice(state.map(u32::to_be_bytes).as_flattened());
    }

    fn read(digest: &[u8]) -> [u32; 8] {
        let words = digest.as_chunks().0;
        std::array::from_fn(|i| u32::from_be_bytes(words[i]))
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::isa::Avx512;

    /// No CPU with AVX-512 that the tests meet lacks the SHA extensions.
    #[test]
    fn avx512_without_sha_extensions_agrees_with_portable() {
        if let Some(proof) = Avx512::detect() {
            hash::agrees_with_portable(Sha256(Code::Avx512(proof, None)));
        }
    }
}
