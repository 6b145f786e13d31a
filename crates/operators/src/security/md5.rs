//! MD5 (RFC 1321): checksums of old formats and protocols. Broken as a cryptographic hash; as HMAC-MD5 still in use.
//!
#![doc = include_str!("../../docs/md5.md")]

mod chains;
mod portable;
mod steps;

use dpb_core::{Batch, HmacHash, SetupError, spec};

use super::hash::vectors::Sets;
use super::hash::{self, Function, Hash, Keying, lanes};
use crate::entry::Entry;
use crate::implementation::{Implementation, codes};

/// The registry's line.
pub(crate) const ENTRY: Entry = Entry {
    scenario: "security",
    summary: "MD5 digest of each item",
    output: "16 bytes per item",
    source: "RFC 1321",
    peers: &["md-5", "openssl"],
    paths: Md5::PATHS,
    documentation: include_str!("../../docs/md5.md"),
    ..Entry::of::<spec::Md5>(hash::kernel::<Md5>, hash::workload::<Md5>)
};

/// Four rounds of sixteen steps: what is added in each, the integer part of 2^32 times the absolute sine of 1 to 64 (3.4).
const K: [u32; 64] = [
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
];

/// MD5 on one code path.
#[derive(Clone, Copy, Debug)]
pub struct Md5(Code);

codes! {
    enum Code {
        "x86_64": Avx512,
        "x86_64": Avx2,
        "x86_64": Sse42,
        "aarch64": Neon,
        Tables,
        Portable,
    }
}

impl Hash for Md5 {
    const NAME: &'static str = "md5";
    const HMAC: HmacHash = HmacHash::Md5;
    const PATHS: &'static [Implementation] = Code::ALL;
    const DIGEST_BYTES: usize = 16;
    const BLOCK_BYTES: usize = 64;
    type State = [u32; 4];
    const INITIAL: [u32; 4] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];

    fn new(path: Implementation) -> Result<Self, SetupError> {
        Code::on(Self::NAME, path).map(Self)
    }

    fn after(mut state: [u32; 4], block: &[u8]) -> [u32; 4] {
        Self::compress(&mut state, block.try_into().expect("a block"));
        state
    }

    fn each(&self, keying: Keying<'_, [u32; 4]>, batch: Batch<'_>, digests: &mut [u8]) {
        let alone = chains::alone;
        // Lanes pay from five messages on.
        let is_few = batch.len() <= 4;
        match self.0 {
            Code::Portable => {
                let portable = lanes::portable::<64, Self>;
                lanes::serial::<64, Self>(portable, keying, batch, digests);
            }
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(proof) if !is_few => match batch.len() {
                ..=16 => {
                    let one = Sets::<_, 4, 16, 1>(proof);
                    lanes::batch::<64, 16, Self, _>(one, 3, alone, keying, batch, digests);
                }
                17..=32 => {
                    let two = Sets::<_, 4, 16, 2>(proof);
                    lanes::batch::<64, 32, Self, _>(two, 3, alone, keying, batch, digests);
                }
                _ => {
                    let four = Sets::<_, 4, 16, 4>(proof);
                    lanes::batch::<64, 64, Self, _>(four, 3, alone, keying, batch, digests);
                }
            },
            #[cfg(target_arch = "x86_64")]
            Code::Avx2(proof) if !is_few => match batch.len() {
                ..=8 => {
                    let one = Sets::<_, 4, 8, 1>(proof);
                    lanes::batch::<64, 8, Self, _>(one, 3, alone, keying, batch, digests);
                }
                // 25 to 32 messages take two turns either way, of which those of two sets are shorter.
                9..=16 | 25..=32 => {
                    let two = Sets::<_, 4, 8, 2>(proof);
                    lanes::batch::<64, 16, Self, _>(two, 3, alone, keying, batch, digests);
                }
                // Items of one length end together: what is left of full sets takes fewer, which are shorter.
                33.. if !batch.len().is_multiple_of(24) && batch.contiguous().is_some() => {
                    let full = batch.len() / 24 * 24;
                    let (first, rest) = (0..full, full..batch.len());
                    let (of_first, of_rest) = digests.split_at_mut(full * Self::DIGEST_BYTES);
                    self.each(keying.part(first.clone()), batch.part(first), of_first);
                    self.each(keying.part(rest.clone()), batch.part(rest), of_rest);
                }
                _ => {
                    let three = Sets::<_, 4, 8, 3>(proof);
                    lanes::batch::<64, 24, Self, _>(three, 3, alone, keying, batch, digests);
                }
            },
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof) if !is_few => {
                let three = Sets::<_, 4, 4, 3>(proof);
                lanes::batch::<64, 12, Self, _>(three, 3, alone, keying, batch, digests);
            }
            #[cfg(target_arch = "aarch64")]
            Code::Neon(proof) if !is_few => match batch.len() {
                ..=8 => {
                    let two = Sets::<_, 4, 4, 2>(proof);
                    lanes::batch::<64, 8, Self, _>(two, 3, alone, keying, batch, digests);
                }
                _ => {
                    let four = Sets::<_, 4, 4, 4>(proof);
                    lanes::batch::<64, 16, Self, _>(four, 3, alone, keying, batch, digests);
                }
            },
            _ => {
                let chains = chains::Chains;
                lanes::batch::<64, { chains::LANES }, Self, _>(
                    chains, 2, alone, keying, batch, digests,
                );
            }
        }
    }
}

impl Function<64> for Md5 {
    type State = [u32; 4];

    fn compress(state: &mut [u32; 4], block: &[u8; 64]) {
        portable::compress(state, block);
    }

    fn length(bits: u64) -> [u8; 8] {
        bits.to_le_bytes()
    }

    fn write(state: &[u32; 4], digest: &mut [u8]) {
        digest.copy_from_slice(state.map(u32::to_le_bytes).as_flattened());
    }

    fn read(digest: &[u8]) -> [u32; 4] {
        let words = digest.as_chunks().0;
        std::array::from_fn(|i| u32::from_le_bytes(words[i]))
    }
}
