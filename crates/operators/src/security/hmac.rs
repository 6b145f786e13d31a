//! HMAC (RFC 2104): a hash function with a key, so that only who knows the key can make or check what it gives.
//!
#![doc = include_str!("../../docs/hmac.md")]

use std::fmt;
use std::sync::Arc;

use dpb_core::sessions::NUMBER_BYTES;
use dpb_core::{
    Batch, BatchOut, Exact, Items, JobError, Kernel, Material, NotInPlace, OpSpec, OutputShape,
    Picks, SetupError, Workload,
    spec::{self, Domain, NO_FILE, Parameter},
};

use super::hash::{Hash, Key, Keying};
use super::md5::Md5;
use super::sessions::{self, Keyed, SESSIONS, Sessions, TOGETHER, Wanted};
use super::sha1::Sha1;
use super::sha256::Sha256;
use super::sha512::Sha512;
use crate::entry::{Entry, PORTABLE, own, secret};
use crate::implementation::Implementation;

/// The registry's lines.
pub(crate) const HMAC_MD5: Entry = Entry {
    name: "hmac-md5",
    summary: "HMAC-MD5 of each item",
    output: "16 bytes per item",
    source: "RFC 2104; RFC 1321",
    ..entry::<Md5>()
};
pub(crate) const HMAC_SHA1: Entry = Entry {
    name: "hmac-sha1",
    summary: "HMAC-SHA-1 of each item",
    output: "20 bytes per item",
    source: "RFC 2104; FIPS 180-4, 6.1",
    ..entry::<Sha1>()
};
pub(crate) const HMAC_SHA256: Entry = Entry {
    name: "hmac-sha256",
    summary: "HMAC-SHA-256 of each item",
    output: "32 bytes per item",
    source: "RFC 2104; FIPS 180-4, 6.2",
    ..entry::<Sha256>()
};
pub(crate) const HMAC_SHA512: Entry = Entry {
    name: "hmac-sha512",
    summary: "HMAC-SHA-512 of each item",
    output: "64 bytes per item",
    source: "RFC 2104; FIPS 180-4, 6.4",
    ..entry::<Sha512>()
};

/// HMAC over a hash function on one code path, with a key.
///
/// What the key makes of the state is kept, so each item costs the blocks of the hash function's own and one more. That is
/// as secret as the key, and is not overwritten when it is dropped.
#[derive(Clone)]
pub struct Hmac<H: Hash> {
    hash: H,
    key: Key<H::State>,
}

impl<H: Hash> Hmac<H> {
    /// Makes the operator on the code path `path`, with a key of any length.
    ///
    /// # Errors
    /// If this CPU lacks what the path needs, or the hash function has no such path.
    pub fn new(path: Implementation, key: &[u8]) -> Result<Self, SetupError> {
        let hash = H::new(path)?;
        let key = ready(hash, key);
        Ok(Self { hash, key })
    }

    /// The code of one message.
    pub fn code(&self, message: &[u8]) -> Vec<u8> {
        let mut code = vec![0; H::DIGEST_BYTES];
        let batch = Batch::new(message, &Items::One).expect("one item is its input");
        self.hash.each(Keying::One(&self.key), batch, &mut code);
        code
    }
}

/// Takes a key's blocks in.
fn ready<H: Hash>(hash: H, key: &[u8]) -> Key<H::State> {
    // A key longer than a block is replaced by its digest; zeros fill the block.
    let mut block = match key.len() > H::BLOCK_BYTES {
        true => hash.digest(key),
        false => key.to_vec(),
    };
    block.resize(H::BLOCK_BYTES, 0);
    let after = |pad: u8| {
        let padded: Vec<u8> = block.iter().map(|byte| byte ^ pad).collect();
        H::after(H::INITIAL, &padded)
    };
    Key {
        inner: after(0x36),
        outer: after(0x5c),
    }
}

impl<H: Hash> Kernel for Hmac<H> {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(H::DIGEST_BYTES)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        H::DIGEST_BYTES
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.fixed(&batch, H::DIGEST_BYTES, |batch, codes| {
            self.hash.each(Keying::One(&self.key), *batch, codes);
        });
        Ok(())
    }
}

/// HMAC with a key for each session.
struct PerSession<H>(H);

impl<H: Hash> sessions::KeyMaker for PerSession<H> {
    type Key = Key<H::State>;

    fn ready(&self, key: &[u8]) -> Result<Arc<Key<H::State>>, SetupError> {
        Ok(Arc::new(ready(self.0, key)))
    }
}

impl<H: Hash> Keyed for PerSession<H> {
    /// The places of some items, and their codes.
    type Scratch = (Picks, Vec<u8>);

    fn scratch(&self) -> Self::Scratch {
        let codes = Vec::with_capacity(TOGETHER * H::DIGEST_BYTES);
        (Picks::with_capacity(TOGETHER), codes)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        H::DIGEST_BYTES
    }

    fn slot_bytes(&self) -> usize {
        H::DIGEST_BYTES
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        Err(OutputShape::Fixed(H::DIGEST_BYTES).not_in_place())
    }

    fn run(
        &self,
        wanted: Wanted<'_, Self::Key>,
        batch: &Batch<'_>,
        out: &mut BatchOut<'_>,
        (picks, codes): &mut Self::Scratch,
    ) {
        let Some((keys, indices)) = wanted.all() else {
            return;
        };
        let keys = &keys[..indices.len()];
        let items = batch.pick(indices, NUMBER_BYTES, picks);
        let items = items.expect("each has its number");
        codes.resize(keys.len() * H::DIGEST_BYTES, 0);
        self.0.each(Keying::Each(keys), items, codes);
        for (code, &i) in codes.chunks_exact(H::DIGEST_BYTES).zip(indices) {
            let i = i as usize;
            out.slots[i][..H::DIGEST_BYTES].copy_from_slice(code);
            out.outcomes[i] = Ok(H::DIGEST_BYTES as u32);
        }
    }
}

/// The parts that the registry's lines have in common.
const fn entry<H: Hash>() -> Entry {
    Entry {
        scenario: "security",
        peers: &["hmac", "ipsec-mb", "openssl"],
        is_own: sessions::is_own::<spec::Hmac>,
        parameters: &[
            Parameter {
                name: "key",
                values: Domain::File,
                default: NO_FILE,
                meaning: "The key, as it is in the file, of sessions those of each, one behind another and equally long; secret. \
                          Without a file, random bytes, as many as a digest has.",
            },
            SESSIONS,
        ],
        paths: H::PATHS,
        documentation: include_str!("../../docs/hmac.md"),
        ..Entry::new::<spec::Hmac>(
            |given| {
                let sessions = sessions::count(given);
                let keys = secret(given, "key", H::DIGEST_BYTES * sessions.max(1))?;
                let spec = sessions::with_keys(sessions, keys, |key| hmac::<H>(key))?;
                Ok(spec.into())
            },
            |spec, path| match sessions::of::<spec::Hmac>(spec) {
                Some(sessions) => {
                    let operator = PerSession(H::new(path)?);
                    Ok(Box::new(Sessions::new(sessions, operator)?))
                }
                None => Ok(Box::new(Hmac::<H>::new(path, key::<H>(spec).bytes())?)),
            },
            |case| match sessions::of::<spec::Hmac>(&case.spec) {
                Some(sessions) => {
                    let of = |key: &Material| workload::<H>(&hmac::<H>(key.clone()));
                    Ok(Box::new(sessions::Items::new(&case.spec, sessions, of)?))
                }
                None => workload::<H>(&case.spec),
            },
        )
    }
}

fn hmac<H: Hash>(key: Material) -> OpSpec {
    spec::Hmac { hash: H::HMAC, key }.into()
}

fn workload<H: Hash>(spec: &OpSpec) -> Result<Box<dyn Workload>, SetupError> {
    let oracle = Hmac::<H>::new(Implementation::Portable, key::<H>(spec).bytes())?;
    let right = move |item: &[u8], _| Ok(oracle.code(item));
    Ok(Box::new(Exact::new(spec, PORTABLE, right)))
}

fn key<H: Hash>(spec: &OpSpec) -> &Material {
    let spec::Hmac { hash, key } = own(spec);
    debug_assert_eq!(*hash, H::HMAC);
    key
}

/// Says nothing of the states, which are as good as the key.
impl<H: Hash> fmt::Debug for Hmac<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hmac")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}
