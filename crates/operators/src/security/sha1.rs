//! SHA-1 (FIPS 180-4): object names of version control, old signatures and protocols. Collisions are known; as HMAC-SHA-1
//! still in use.
//!
#![doc = include_str!("../../docs/sha1.md")]

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod portable;
mod steps;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use dpb_core::{Batch, HmacHash, SetupError, spec};

use super::hash::vectors::Sets;
use super::hash::{self, Function, Hash, Keying, lanes};
use crate::entry::Entry;
use crate::implementation::{Implementation, codes};

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "security",
    summary: "SHA-1 digest of each item",
    output: "20 bytes per item",
    source: "FIPS 180-4, 6.1; RFC 3174",
    peers: &["sha1", "ipsec-mb", "openssl"],
    paths: Sha1::PATHS,
    documentation: include_str!("../../docs/sha1.md"),
    ..Entry::of::<spec::Sha1>(hash::kernel::<Sha1>, hash::workload::<Sha1>)
};

/// The constants that each twenty steps add (4.2.1).
const K: [u32; 4] = [0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6];

/// SHA-1 on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Sha1(Code);

codes! {
    enum Code {
        "x86_64": Avx512 with ShaNi,
        "x86_64": Avx2Sha,
        "x86_64": ShaNi,
        "x86_64": Avx2,
        "x86_64": Sse42,
        "aarch64": ArmSha2,
        "aarch64": Neon,
        Portable,
    }
}

impl Hash for Sha1 {
    const NAME: &'static str = "sha1";
    const HMAC: HmacHash = HmacHash::Sha1;
    const PATHS: &'static [Implementation] = Code::ALL;
    const DIGEST_BYTES: usize = 20;
    const BLOCK_BYTES: usize = 64;
    type State = [u32; 5];
    const INITIAL: [u32; 5] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];

    fn new(path: Implementation) -> Result<Self, SetupError> {
        Code::on(Self::NAME, path).map(Self)
    }

    fn after(mut state: [u32; 5], block: &[u8]) -> [u32; 5] {
        Self::compress(&mut state, block.try_into().expect("a block"));
        state
    }

    fn each(&self, keying: Keying<'_, [u32; 5]>, batch: Batch<'_>, digests: &mut [u8]) {
        let portable = lanes::portable::<64, Self>;
        match self.0 {
            Code::Portable => lanes::serial::<64, Self>(portable, keying, batch, digests),
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof, None) => {
                lanes::batch::<64, 16, Self, _>(
                    Sets::<_, 5, 16, 1>(proof),
                    3,
                    portable,
                    keying,
                    batch,
                    digests,
                );
            }
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof, Some(alone)) => {
                let alone =
                    |state: &mut _, parts: lanes::Parts<'_, 64>| x86_64::alone(alone, state, parts);
                lanes::batch::<64, 16, Self, _>(
                    Sets::<_, 5, 16, 1>(proof),
                    5,
                    alone,
                    keying,
                    batch,
                    digests,
                );
            }
            #[cfg(target_arch = "x86_64")]
            Code::Avx2Sha(proof) => {
                let one = proof.sha_ni();
                let alone =
                    |state: &mut _, parts: lanes::Parts<'_, 64>| x86_64::alone(one, state, parts);
                let eight = Sets::<_, 5, 8, 1>(proof.avx2());
                lanes::batch::<64, 8, Self, _>(eight, 5, alone, keying, batch, digests);
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
            Code::Avx2(proof) => {
                let one = Sets::<_, 5, 8, 1>(proof);
                lanes::batch::<64, 8, Self, _>(one, 3, portable, keying, batch, digests);
            }
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) => {
                lanes::batch::<64, 4, Self, _>(
                    Sets::<_, 5, 4, 1>(proof),
                    3,
                    portable,
                    keying,
                    batch,
                    digests,
                );
            }
            #[cfg(target_arch = "aarch64")]
            Code::Neon(proof) => {
                lanes::batch::<64, 4, Self, _>(
                    Sets::<_, 5, 4, 1>(proof),
                    3,
                    portable,
                    keying,
                    batch,
                    digests,
                );
            }
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

impl Function<64> for Sha1 {
    type State = [u32; 5];

    fn compress(state: &mut [u32; 5], block: &[u8; 64]) {
        portable::compress(state, block);
    }

    fn length(bits: u64) -> [u8; 8] {
        bits.to_be_bytes()
    }

    fn write(state: &[u32; 5], digest: &mut [u8]) {
        digest.copy_from_slice(state.map(u32::to_be_bytes).as_flattened());
    }

    fn read(digest: &[u8]) -> [u32; 5] {
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
            hash::agrees_with_portable(Sha1(Code::Avx512(proof, None)));
        }
    }
}
