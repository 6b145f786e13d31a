//! Toeplitz hash for receive-side scaling: which queue, and so which core, a packet goes to.
//!
#![doc = include_str!("../../docs/toeplitz.md")]

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bits;
mod operator;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod products;
mod redirection;
mod tables;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::fmt;

use dpb_core::{HashTuple, SetupError};

pub(crate) use operator::ENTRY;
pub use redirection::Redirection;

use crate::implementation::{Implementation, codes};
#[cfg(target_arch = "aarch64")]
use crate::isa::ArmCrc;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Sse42, VaesAvx2};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use products::{Products, Windows};
use tables::Tables;

/// Microsoft's key, that of the RSS verification suite, which many drivers come with.
pub const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key of 40 or 52 bytes, as network cards take it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    bytes: [u8; 52],
    len: usize,
}

/// The hash with one key for one kind of tuple, on one code path.
///
/// ```
/// use dpb_core::HashTuple;
/// use dpb_operators::network::toeplitz::{Key, MICROSOFT_KEY, Toeplitz};
///
/// let key = Key::new(&MICROSOFT_KEY).expect("40 bytes");
/// let toeplitz = Toeplitz::best(&key, HashTuple::Ipv4Ports);
/// // From 66.9.149.187 port 2794 to 161.142.100.80 port 1766.
/// let tuple = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
/// assert_eq!(toeplitz.hash(&tuple), 0x51cc_c178);
/// ```
pub struct Toeplitz {
    code: Code,
    tuple: HashTuple,
    redirection: Option<Redirection>,
}

codes! {
    enum Choice {
        "x86_64": Gfni,
        "x86_64": VaesAvx2,
        "x86_64": Sse42,
        "aarch64": ArmCrc,
        Tables,
        Portable,
    }
}

/// An implementation with its proof, and what it knows of the key.
enum Code {
    Portable(Key),
    Tables(Tables),
    #[cfg(target_arch = "x86_64")]
    Avx512(Box<avx512::Matrices>),
    #[cfg(target_arch = "x86_64")]
    VaesAvx2(VaesAvx2, Box<Windows>),
    #[cfg(target_arch = "x86_64")]
    Sse42(Sse42, Box<Windows>),
    #[cfg(target_arch = "aarch64")]
    ArmCrc(ArmCrc, Box<Windows>),
}

impl Key {
    /// `None` unless there are 40 or 52 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut key = Self {
            bytes: [0; 52],
            len: bytes.len(),
        };
        matches!(bytes.len(), 40 | 52).then(|| key.bytes[..bytes.len()].copy_from_slice(bytes))?;
        Some(key)
    }

    /// The key's bytes, as they were given.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The 64 bits from a byte on, at most 36: the first 39 cover the hash of each bit of that word of a tuple.
    fn window(&self, byte: usize) -> u64 {
        u64::from_be_bytes(self.bytes[byte..byte + 8].try_into().expect("eight bytes"))
    }
}

impl Toeplitz {
    /// The paths there are, best first.
    pub const PATHS: &'static [Implementation] = Choice::ALL;

    /// Makes the operator on the code path `path`.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or there is no such path.
    pub fn new(key: &Key, tuple: HashTuple, path: Implementation) -> Result<Self, SetupError> {
        let code = match Choice::on("toeplitz", path)? {
            Choice::Portable => Code::Portable(*key),
            Choice::Tables => Code::Tables(Tables::new(key, tuple)),
            #[cfg(target_arch = "x86_64")]
            Choice::Gfni(proof) => Code::Avx512(Box::new(avx512::Matrices::new(proof, key, tuple))),
            #[cfg(target_arch = "x86_64")]
            Choice::VaesAvx2(proof) => Code::VaesAvx2(proof, Windows::new(key, tuple)),
            #[cfg(target_arch = "x86_64")]
            Choice::Sse42(proof) => Code::Sse42(proof, Windows::new(key, tuple)),
            #[cfg(target_arch = "aarch64")]
            Choice::ArmCrc(proof) => Code::ArmCrc(proof, Windows::new(key, tuple)),
        };
        Ok(Self {
            code,
            tuple,
            redirection: None,
        })
    }

    /// Makes the operator on the best path of this CPU.
    pub fn best(key: &Key, tuple: HashTuple) -> Self {
        Self::new(key, tuple, Implementation::best(Self::PATHS))
            .expect("the best path is available")
    }

    /// Gives queues instead of hashes.
    #[must_use]
    pub fn redirected(self, redirection: Redirection) -> Self {
        Self {
            redirection: Some(redirection),
            ..self
        }
    }

    /// The hash of one tuple, or its queue.
    ///
    /// # Panics
    /// If it has more bytes or fewer than [`HashTuple::bytes`] says.
    pub fn hash(&self, tuple: &[u8]) -> u32 {
        let mut hash = [[0; 4]];
        self.hash_all(tuple, &mut hash);
        u32::from_le_bytes(hash[0])
    }

    /// The hashes of tuples that lie one behind another, or their queues: little endian.
    ///
    /// # Panics
    /// If there is not one place for each tuple.
    pub fn hash_all(&self, tuples: &[u8], hashes: &mut [[u8; 4]]) {
        assert_eq!(
            tuples.len(),
            hashes.len() * self.tuple.bytes(),
            "a place for each tuple"
        );
        match &self.code {
            Code::Portable(key) => {
                for (tuple, hash) in tuples.chunks_exact(self.tuple.bytes()).zip(&mut *hashes) {
                    *hash = bits::hash(key, tuple).to_le_bytes();
                }
            }
            Code::Tables(tables) => tables.hash_all(tuples, hashes),
            #[cfg(target_arch = "x86_64")]
            Code::Avx512(matrices) => matrices.hash_all(tuples, hashes),
            #[cfg(target_arch = "x86_64")]
            Code::VaesAvx2(proof, windows) => proof.enter(windows, tuples, hashes),
            #[cfg(target_arch = "x86_64")]
            Code::Sse42(proof, windows) => proof.enter(windows, tuples, hashes),
            #[cfg(target_arch = "aarch64")]
            Code::ArmCrc(proof, windows) => proof.enter(windows, tuples, hashes),
        }
        if let Some(redirection) = &self.redirection {
            for hash in hashes {
                *hash = redirection.queue(u32::from_le_bytes(*hash)).to_le_bytes();
            }
        }
    }
}

/// Hashes the tuples of an item by the definition, bit by bit. `None` if the item ends inside a tuple.
pub fn definition(
    key: &Key,
    tuple: HashTuple,
    redirection: Option<&Redirection>,
    item: &[u8],
) -> Option<Vec<u8>> {
    if !item.len().is_multiple_of(tuple.bytes()) {
        return None;
    }
    let hash = |tuple: &[u8]| {
        let hash = bits::hash(key, tuple);
        redirection
            .map_or(hash, |redirection| redirection.queue(hash))
            .to_le_bytes()
    };
    Some(item.chunks_exact(tuple.bytes()).flat_map(hash).collect())
}

/// Says nothing of the key.
impl fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toeplitz")
            .field("tuple", &self.tuple)
            .field("redirection", &self.redirection)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key of {} bytes", self.len)
    }
}
