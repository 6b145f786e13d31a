//! Items as operations of a cipher: where initialisation vector, additional data, text and tag lie.

use dpb_core::sessions::NUMBER_BYTES;
use dpb_core::{
    Direction, HmacHash, JobError, Limits, Material, NotInPlace, OpSpec, OutputShape, Unsupported,
    match_spec, spec,
};

use super::super::raw::{Cipher, CryptoDevice, Digest, End, Iv, Operation, Over, Step};
use super::super::sys::{self, Algorithm, Done, Range, SEGMENT};
use super::{BLOCK, DEPTH_MAX};

/// Bytes of a tag of AES-GCM.
const TAG: usize = 16;
/// Longest text: what an mbuf holds with its tag, in whole blocks.
const TEXT_MAX: usize = SEGMENT / BLOCK * BLOCK - TAG;

/// The way from items to operations of a cipher.
#[derive(Clone, Debug)]
pub(super) struct CryptoTransform {
    pub(super) cipher: Cipher,
    pub(super) limits: Limits,
    form: ItemForm,
    /// Bytes in front of an item that name its session.
    number: usize,
    /// The hash function under HMAC, of which the code of an empty message is made: some devices get it wrong, ipsec-mb for one.
    pub(super) hash_under: Option<OpSpec>,
}

/// The parts of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemForm {
    /// Nonce, additional data, text and its tag.
    Sealed,
    /// First counter block, text.
    Counted,
    /// Initialisation vector, whole blocks.
    Chained,
    /// Tweak, data unit.
    Tweaked,
    /// The bytes that are hashed.
    Hashed,
}

impl CryptoTransform {
    /// The transform for `spec`, unless the device lacks something for it.
    pub(super) fn new(spec: &OpSpec, device: &CryptoDevice) -> Result<Self, Unsupported> {
        match spec.get::<spec::Sessions>() {
            None => Self::with_keys(spec, &[key_of(spec)], device),
            Some(sessions) => {
                let keys: Vec<&[u8]> = sessions.keys.iter().map(Material::bytes).collect();
                let mut transform = Self::with_keys(&sessions.of, &keys, device)?;
                transform.number = NUMBER_BYTES;
                transform.limits.item_bytes_max += NUMBER_BYTES;
                match transform.form {
                    // A hash has no key.
                    ItemForm::Hashed if transform.hash_under.is_none() => {
                        Err(none_of_these(&sessions.of))
                    }
                    _ => Ok(transform),
                }
            }
        }
    }

    fn with_keys(
        spec: &OpSpec,
        keys: &[&[u8]],
        device: &CryptoDevice,
    ) -> Result<Self, Unsupported> {
        let (cipher, form) = cipher_of(spec).ok_or_else(|| none_of_these(spec))?;
        check_lengths(spec, cipher, keys, device)?;
        let hash_under = spec.get().map(|spec::Hmac { hash, .. }| plain(*hash));
        if let Some(hash) = &hash_under {
            let name = device.name();
            Self::with_keys(hash, &[], device).map_err(|_| Unsupported {
                reason: format!(
                    "{name} offers {spec} and not {hash}, of which the code of an empty message is made, as devices get \
                     it wrong"
                ),
            })?;
        }
        let mut limits = Limits::new(DEPTH_MAX);
        limits.synchronous = !device.is_hardware();
        let transform = Self {
            cipher,
            limits,
            form,
            number: 0,
            hash_under,
        };
        limits.item_bytes_max = TEXT_MAX + transform.around();
        Ok(Self {
            limits,
            ..transform
        })
    }

    pub(super) fn shape(&self) -> OutputShape {
        match self.form {
            ItemForm::Hashed if self.number == 0 => {
                OutputShape::Fixed(self.cipher.digest_len.into())
            }
            _ => OutputShape::Variable,
        }
    }

    /// Bytes that every slot needs.
    pub(super) fn slot_bytes_min(&self) -> usize {
        match self.form {
            ItemForm::Hashed => self.cipher.digest_len.into(),
            _ => 0,
        }
    }

    /// Where the text begins in an item that is written over: what stands in front of it stays as it was.
    pub(super) fn in_place(&self) -> Result<usize, NotInPlace> {
        match self.form {
            ItemForm::Hashed => Err(NotInPlace::new(
                "a digest does not take the place of what it is made of; give the digests slots outside of the items",
            )),
            _ => Ok(self.text_start()),
        }
    }

    fn text_start(&self) -> usize {
        self.number + usize::from(self.cipher.iv_len) + usize::from(self.cipher.aad_len)
    }

    /// Bytes of an item that are not text.
    fn around(&self) -> usize {
        let tag = if self.cipher.decrypts {
            usize::from(self.cipher.digest_len)
        } else {
            0
        };
        self.text_start() + tag
    }

    pub(super) fn dst_len(&self, item_len: usize) -> usize {
        match self.form {
            ItemForm::Hashed => self.cipher.digest_len.into(),
            ItemForm::Sealed if !self.cipher.decrypts => {
                item_len.saturating_sub(self.around()).saturating_add(TAG)
            }
            _ => item_len.saturating_sub(self.around()),
        }
    }

    /// The next step for an item; see [`Recipe::step`](super::super::raw::Recipe::step). `of_nothing` is the code of an empty message,
    /// under HMAC.
    #[inline]
    pub(super) fn step<'a>(
        &self,
        of_nothing: Option<&'a [u8]>,
        item: &[u8],
        slot_len: usize,
        piece: u32,
    ) -> Step<'a> {
        match self.form {
            ItemForm::Hashed => self.hash(of_nothing, item),
            ItemForm::Sealed => self.seal(item, slot_len),
            _ => self.encipher(item, slot_len, piece),
        }
    }

    /// A whole message.
    fn hash<'a>(&self, of_nothing: Option<&'a [u8]>, item: &[u8]) -> Step<'a> {
        if item.len() == self.number
            && let Some(output) = of_nothing
        {
            return Step::Known(Ok(output));
        }
        Step::Run(Operation {
            src: self.number..item.len(),
            digest: Digest::Slot(0),
            planned: self.cipher.digest_len.into(),
            ..NOTHING
        })
    }

    /// A text of AES-GCM.
    #[inline]
    fn seal<'a>(&self, item: &[u8], slot_len: usize) -> Step<'a> {
        let Some(text_len) = item.len().checked_sub(self.around()) else {
            return Step::Known(Err(JobError::Malformed));
        };
        let start = self.text_start();
        let text = start..start + text_len;
        let (digest, out_len) = match self.cipher.decrypts {
            true => (Digest::Item(text.end), text_len),
            false => (Digest::Slot(text_len), text_len + TAG),
        };
        if out_len > slot_len {
            return Step::Known(Err(JobError::DstTooShort));
        }
        Step::Run(Operation {
            src: text,
            dst: 0..out_len,
            iv: Iv::Item(self.number),
            aad: self.number + usize::from(self.cipher.iv_len),
            digest,
            planned: out_len as u32,
            ..NOTHING
        })
    }

    /// A text that is as long before as after.
    fn encipher<'a>(&self, item: &[u8], slot_len: usize, piece: u32) -> Step<'a> {
        let Some(text_len) = item.len().checked_sub(self.around()) else {
            return Step::Known(Err(JobError::Malformed));
        };
        let is_right = match self.form {
            ItemForm::Chained => text_len.is_multiple_of(BLOCK),
            ItemForm::Tweaked => text_len >= BLOCK,
            _ => true,
        };
        if !is_right {
            return Step::Known(Err(JobError::Malformed));
        }
        if text_len > slot_len {
            return Step::Known(Err(JobError::DstTooShort));
        }
        // Devices need not take what is nothing to do.
        if text_len == 0 {
            return Step::Known(Ok(&[]));
        }
        let start = self.text_start();
        let whole = Operation {
            src: start..start + text_len,
            dst: 0..text_len,
            iv: Iv::Item(self.number),
            planned: text_len as u32,
            ..NOTHING
        };
        match self.form {
            ItemForm::Counted => {
                Step::Run(unwrapped(whole, counter_of(&item[self.number..]), piece))
            }
            _ => Step::Run(whole),
        }
    }
}

/// An operation, to be filled in.
const NOTHING: Operation<'static> = Operation {
    src: 0..0,
    dst: 0..0,
    iv: Iv::Item(0),
    aad: 0,
    digest: Digest::Nowhere,
    session: None,
    head: &[],
    has_more: false,
    is_alike: true,
    planned: 0,
};

/// The part of an operation in counter mode before the low 32 bits of its counter run over, or the part behind. The
/// whole block counts, and devices differ in how much of it they count.
fn unwrapped(mut whole: Operation<'_>, counter: u128, piece: u32) -> Operation<'_> {
    let blocks = (1 << 32) - u64::from(counter as u32);
    let before = blocks as usize * BLOCK;
    whole.is_alike = false;
    if whole.src.len() <= before {
        return whole;
    }
    match piece {
        0 => {
            whole.has_more = true;
            whole.src.end = whole.src.start + before;
            whole.dst.end = before;
        }
        _ => {
            whole.iv = Iv::Here(counter.wrapping_add(blocks.into()).to_be_bytes());
            whole.src.start += before;
            whole.dst.start = before;
        }
    }
    whole
}

/// The end of an item, as the device says it.
pub(super) fn end(done: &Done, mut over: Over<'_>) -> End {
    match done.verdict {
        sys::DONE => End::AsPlanned,
        sys::MALFORMED => {
            // What was decrypted before its tag turned out wrong.
            over.slot().wipe();
            End::Refused(JobError::Malformed)
        }
        _ => End::Failed(JobError::Device(done.status)),
    }
}

fn none_of_these(spec: &OpSpec) -> Unsupported {
    let reason = format!("crypto devices do AES, hashes and HMAC; {spec} is none of these");
    Unsupported { reason }
}

/// Whether the device takes the lengths of this cipher and of all keys.
fn check_lengths(
    spec: &OpSpec,
    cipher: Cipher,
    keys: &[&[u8]],
    device: &CryptoDevice,
) -> Result<(), Unsupported> {
    let name = device.name();
    let ranges = device.ranges(cipher.algorithm).ok_or_else(|| Unsupported {
        reason: format!("{name} has no such algorithm; `dpb list backends` shows what has"),
    })?;
    let parts = [
        ("an initialisation vector", cipher.iv_len.into(), ranges.iv),
        ("a digest", cipher.digest_len.into(), ranges.digest),
        ("additional data", cipher.aad_len.into(), ranges.aad),
    ];
    let keys = keys.iter().map(|key| ("a key", key.len(), ranges.key));
    for (what, len, range) in keys.chain(parts) {
        if !contains(range, len) {
            let reason = format!(
                "{name} takes {what} of {} bytes for {spec}, not of {len}",
                described(range)
            );
            return Err(Unsupported { reason });
        }
    }
    Ok(())
}

/// Whether the device takes a key of this length.
pub(super) fn takes_key(device: &CryptoDevice, algorithm: Algorithm, len: usize) -> bool {
    let ranges = device.ranges(algorithm);
    ranges.is_some_and(|ranges| contains(ranges.key, len))
}

/// The session that a device is asked for, and how items lie.
fn cipher_of(spec: &OpSpec) -> Option<(Cipher, ItemForm)> {
    let hash = |algorithm, digest_len| {
        let cipher = Cipher {
            algorithm,
            decrypts: false,
            iv_len: 0,
            digest_len,
            aad_len: 0,
        };
        Some((cipher, ItemForm::Hashed))
    };
    let cipher = |algorithm, direction, form| {
        let cipher = Cipher {
            algorithm,
            decrypts: direction == Direction::Decrypt,
            iv_len: BLOCK as u16,
            digest_len: 0,
            aad_len: 0,
        };
        Some((cipher, form))
    };
    match_spec!(spec, {
        spec::AesGcm { direction, aad_bytes, .. } => {
            let cipher = Cipher {
                algorithm: Algorithm::AesGcm,
                decrypts: *direction == Direction::Decrypt,
                iv_len: 12,
                digest_len: TAG as u16,
                aad_len: *aad_bytes,
            };
            Some((cipher, ItemForm::Sealed))
        },
        spec::AesCtr { .. } => cipher(Algorithm::AesCtr, Direction::Encrypt, ItemForm::Counted),
        spec::AesCbc { direction, .. } => cipher(Algorithm::AesCbc, *direction, ItemForm::Chained),
        spec::AesXts { direction, .. } => cipher(Algorithm::AesXts, *direction, ItemForm::Tweaked),
        spec::Md5 => hash(Algorithm::Md5, 16),
        spec::Sha1 => hash(Algorithm::Sha1, 20),
        spec::Sha256 => hash(Algorithm::Sha256, 32),
        spec::Sha512 => hash(Algorithm::Sha512, 64),
        spec::Hmac { hash: inner, .. } => match inner {
            HmacHash::Md5 => hash(Algorithm::HmacMd5, 16),
            HmacHash::Sha1 => hash(Algorithm::HmacSha1, 20),
            HmacHash::Sha256 => hash(Algorithm::HmacSha256, 32),
            HmacHash::Sha512 => hash(Algorithm::HmacSha512, 64),
        },
    } else {
        None
    })
}

/// The hash function under HMAC.
fn plain(hash: HmacHash) -> OpSpec {
    match hash {
        HmacHash::Md5 => OpSpec::from(spec::Md5),
        HmacHash::Sha1 => OpSpec::from(spec::Sha1),
        HmacHash::Sha256 => OpSpec::from(spec::Sha256),
        HmacHash::Sha512 => OpSpec::from(spec::Sha512),
    }
}

/// The key, or nothing.
pub(super) fn key_of(spec: &OpSpec) -> &[u8] {
    match_spec!(spec, {
        spec::AesGcm { key, .. } => key.bytes(),
        spec::AesCtr { key } => key.bytes(),
        spec::AesCbc { key, .. } => key.bytes(),
        spec::AesXts { key, .. } => key.bytes(),
        spec::Hmac { key, .. } => key.bytes(),
    } else {
        &[]
    })
}

/// The first block of an item that has one, as counters count.
fn counter_of(item: &[u8]) -> u128 {
    let (block, _) = item.split_first_chunk().expect("it has a block");
    u128::from_be_bytes(*block)
}

fn contains(range: Range, len: usize) -> bool {
    let (min, max) = (usize::from(range.min), usize::from(range.max));
    match usize::from(range.step) {
        // Some say both ends and no step.
        0 => len == min || len == max,
        step => (min..=max).contains(&len) && (len - min).is_multiple_of(step),
    }
}

/// `16`, `16 to 32 in steps of 8`.
fn described(range: Range) -> String {
    let Range { min, max, step } = range;
    match step {
        0 if min == max => min.to_string(),
        0 => format!("{min} or {max}"),
        step => format!("{min} to {max} in steps of {step}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_run_over_take_two_operations() {
        let whole = |len| Operation {
            src: 16..16 + len,
            dst: 0..len,
            ..NOTHING
        };
        let unwrapped = |low: u32, len, piece| {
            let counter = (0xFFFF_FFFF_u128 << 32) | u128::from(low);
            super::unwrapped(whole(len), counter, piece)
        };
        for (low, len) in [(0, 48), (u32::MAX - 2, 48), (u32::MAX, 16)] {
            let operation = unwrapped(low, len, 0);
            assert!(
                !operation.has_more && operation.src == (16..16 + len),
                "{low}"
            );
        }
        let first = unwrapped(u32::MAX - 1, 40, 0);
        assert!(first.has_more);
        assert_eq!((first.src, first.dst), (16..48, 0..32));
        let second = unwrapped(u32::MAX - 1, 40, 1);
        assert!(!second.has_more);
        assert_eq!((second.src, second.dst), (48..56, 32..40));
        assert_eq!(first.iv, Iv::Item(0));
        assert_eq!(second.iv, Iv::Here((1_u128 << 64).to_be_bytes()));
    }

    #[test]
    fn lengths_are_in_their_range_or_not() {
        let range = |min, max, step| Range { min, max, step };
        assert!(contains(range(16, 32, 8), 24) && !contains(range(16, 32, 8), 20));
        assert!(!contains(range(16, 32, 8), 40) && !contains(range(16, 32, 8), 8));
        assert!(contains(range(12, 12, 0), 12) && !contains(range(12, 12, 0), 16));
        assert!(contains(range(0, 0, 0), 0) && contains(range(12, 16, 0), 16));
        assert_eq!(described(range(16, 32, 8)), "16 to 32 in steps of 8");
        assert_eq!(described(range(12, 12, 0)), "12");
    }
}
