//! AES, hashes and HMAC on a crypto device.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::patience::Silence;
use dpb_core::{
    Backend, Buf, Clock, Direction, HmacHash, Items, Job, JobError, Limits, Material, NotInPlace,
    OpSpec, Operator, OutputShape, Properties, Queue, SetupError, Unsupported, WallClock,
    match_spec, spec,
};

use super::raw::{Cipher, CryptoDevice, Digest, End, Iv, Lane, Operation, Over, Recipe, Step};
use super::sys::{self, Algorithm, Done, Range, SEGMENT};

/// Jobs that a queue may hold.
const DEPTH_MAX: NonZeroU32 = NonZeroU32::new(1024).unwrap();
/// How long a device may take for a hash.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a tag of AES-GCM.
const TAG: usize = 16;
/// Bytes of a block of AES.
const BLOCK: usize = 16;
/// Longest text: what an mbuf holds with its tag, in whole blocks.
const TEXT_MAX: usize = SEGMENT / BLOCK * BLOCK - TAG;

/// A crypto device as a backend.
pub(super) struct CryptoBackend {
    name: String,
    device: Arc<CryptoDevice>,
    clock: Arc<WallClock>,
}

impl CryptoBackend {
    /// HMAC (RFC 2104) of an empty message, of plain hashes on the same device.
    fn hmac_of_nothing(&self, hash: OpSpec, key: &[u8]) -> Result<Vec<u8>, SetupError> {
        let block_bytes = if hash.is::<spec::Sha512>() { 128 } else { 64 };
        let mut block = match key.len() > block_bytes {
            true => self.digest(&hash, key)?,
            false => key.to_vec(),
        };
        block.resize(block_bytes, 0);
        let padded = |pad: u8| block.iter().map(move |byte| byte ^ pad);
        let inner = self.digest(&hash, &padded(0x36).collect::<Vec<u8>>())?;
        self.digest(&hash, &padded(0x5C).chain(inner).collect::<Vec<u8>>())
    }

    /// One hash.
    fn digest(&self, hash: &OpSpec, message: &[u8]) -> Result<Vec<u8>, SetupError> {
        let operator = self.prepare(hash)?;
        let shape = operator.shape();
        let mut src = self.alloc(message.len())?;
        src.copy_from_slice(message);
        let dst = self.alloc(operator.dst_len(message.len()))?;
        let job = Job::new(0, src.freeze(), Items::One, dst, shape);
        let mut queue = operator.open(NonZeroU32::MIN)?;
        queue.submit(&mut VecDeque::from([job]));
        let mut done = Vec::with_capacity(1);
        let mut silence = Silence::default();
        while queue.poll(&mut done) == 0 && silence.lasts(&*self.clock) < PATIENCE {}
        let answer = done.pop().map(|done| done.result.map(|()| done.job));
        match answer {
            Some(Ok(job)) => Ok(job.dst[0].to_vec()),
            other => {
                let error = other.and_then(Result::err);
                let why = error.map_or("no answer".to_owned(), |error| error.to_string());
                let reason = format!("{} computes no {hash}: {why}", self.name);
                Err(SetupError::Unsupported(Unsupported { reason }))
            }
        }
    }

    /// Named `dpdk/DEVICE`.
    ///
    /// # Errors
    /// The device does not start.
    pub(super) fn new(device: Arc<CryptoDevice>) -> Result<Self, Unsupported> {
        device.start()?;
        Ok(Self {
            name: format!("dpdk/{}", device.name()),
            device,
            clock: Arc::default(),
        })
    }
}

impl Backend for CryptoBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn properties(&self) -> Properties {
        let device = format!("{}, driver {}", self.device.name(), self.device.driver());
        let library = self.device.eal().version();
        Properties::of_device(None)
            .with_library(library)
            .with_device(device)
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        self.device.eal().memory().alloc(len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        Ok(Plan::new(spec, &self.device)?.limits)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let mut plan = Plan::new(spec, &self.device).map_err(SetupError::Unsupported)?;
        if let Some(spec::Hmac { hash, key }) = spec.get() {
            plan.of_nothing = Some(self.hmac_of_nothing(plain(*hash), key.bytes())?);
        }
        // Each queue has its own; that there can be one is known here.
        let session = self.device.session(plan.cipher, key_of(spec));
        session.map_err(SetupError::Unsupported)?;
        Ok(Arc::new(CryptoOperator {
            spec: spec.clone(),
            plan,
            device: self.device.clone(),
            clock: self.clock.clone(),
        }))
    }
}

struct CryptoOperator {
    spec: OpSpec,
    plan: Plan,
    device: Arc<CryptoDevice>,
    clock: Arc<WallClock>,
}

impl Operator for CryptoOperator {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        self.plan.shape()
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.plan.dst_len(item_len)
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.plan.in_place()
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let depth_max = self.plan.limits.depth_max;
        if depth > depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: depth_max.get(),
            });
        }
        let device = &self.device;
        let session = device.session(self.plan.cipher, key_of(&self.spec));
        let queue = Arc::new(session.map_err(SetupError::Unsupported)?).open()?;
        Ok(Box::new(Lane::new(
            device.eal().memory().clone(),
            device.name(),
            self.plan.clone(),
            queue,
            depth,
            self.clock.clone(),
        )))
    }
}

/// How items become operations.
#[derive(Clone, Debug)]
struct Plan {
    cipher: Cipher,
    limits: Limits,
    form: Form,
    /// The code of an empty message, under HMAC: some devices get it wrong, ipsec-mb for one.
    of_nothing: Option<Vec<u8>>,
}

/// The parts of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
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

impl Plan {
    /// Unless the device lacks something for `spec`.
    fn new(spec: &OpSpec, device: &CryptoDevice) -> Result<Self, Unsupported> {
        let name = device.name();
        let (cipher, form) = cipher_of(spec).ok_or_else(|| Unsupported {
            reason: match spec.is::<spec::Sessions>() {
                true => format!("{spec} has one key for all items here; it is there as sessions=0"),
                false => format!("crypto devices do AES, hashes and HMAC; {spec} is none of these"),
            },
        })?;
        let ranges = device.ranges(cipher.algorithm).ok_or_else(|| Unsupported {
            reason: format!("{name} has no such algorithm; `dpb list backends` shows what has"),
        })?;
        for (what, len, range) in [
            ("a key", key_of(spec).len(), ranges.key),
            ("an initialisation vector", cipher.iv_len.into(), ranges.iv),
            ("a digest", cipher.digest_len.into(), ranges.digest),
            ("additional data", cipher.aad_len.into(), ranges.aad),
        ] {
            if !contains(range, len) {
                let reason = format!(
                    "{name} takes {what} of {} bytes for {spec}, not of {len}",
                    described(range)
                );
                return Err(Unsupported { reason });
            }
        }
        if let Some(spec::Hmac { hash, .. }) = spec.get() {
            let hash = plain(*hash);
            Self::new(&hash, device).map_err(|_| Unsupported {
                reason: format!(
                    "{name} offers {spec} and not {hash}, of which the code of an empty message is made, as devices get \
                     it wrong"
                ),
            })?;
        }
        let mut limits = Limits::new(DEPTH_MAX);
        limits.synchronous = !device.is_hardware();
        let plan = Self {
            cipher,
            limits,
            form,
            of_nothing: None,
        };
        limits.item_bytes_max = TEXT_MAX + plan.around();
        Ok(Self { limits, ..plan })
    }

    /// Bytes of an item that are not text.
    fn around(&self) -> usize {
        let tag = if self.cipher.decrypts {
            usize::from(self.cipher.digest_len)
        } else {
            0
        };
        usize::from(self.cipher.iv_len) + usize::from(self.cipher.aad_len) + tag
    }

    fn dst_len(&self, item_len: usize) -> usize {
        match self.form {
            Form::Hashed => self.cipher.digest_len.into(),
            Form::Sealed if !self.cipher.decrypts => {
                item_len.saturating_sub(self.around()).saturating_add(TAG)
            }
            _ => item_len.saturating_sub(self.around()),
        }
    }

    /// A whole message.
    fn hash(&self, item: &[u8]) -> Step<'_> {
        if item.is_empty()
            && let Some(output) = &self.of_nothing
        {
            return Step::Known(Ok(output));
        }
        Step::Run(Operation {
            src: 0..item.len(),
            digest: Digest::Slot(0),
            ..NOTHING
        })
    }

    /// A text of AES-GCM.
    #[inline]
    fn seal(&self, item: &[u8], slot_len: usize) -> Step<'_> {
        let Some(text_len) = item.len().checked_sub(self.around()) else {
            return Step::Known(Err(JobError::Malformed));
        };
        let start = usize::from(self.cipher.iv_len) + usize::from(self.cipher.aad_len);
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
            aad: self.cipher.iv_len.into(),
            digest,
            planned: out_len as u32,
            ..NOTHING
        })
    }

    /// A text that is as long before as after.
    fn encipher(&self, item: &[u8], slot_len: usize, piece: u32) -> Step<'_> {
        let Some(text_len) = item.len().checked_sub(self.around()) else {
            return Step::Known(Err(JobError::Malformed));
        };
        let is_right = match self.form {
            Form::Chained => text_len.is_multiple_of(BLOCK),
            Form::Tweaked => text_len >= BLOCK,
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
        let whole = Operation {
            src: BLOCK..BLOCK + text_len,
            dst: 0..text_len,
            planned: text_len as u32,
            ..NOTHING
        };
        match self.form {
            Form::Counted => Step::Run(unwrapped(whole, counter_of(item), piece)),
            _ => Step::Run(whole),
        }
    }
}

/// An operation, to be filled in.
const NOTHING: Operation = Operation {
    src: 0..0,
    dst: 0..0,
    iv: Iv::Item(0),
    aad: 0,
    digest: Digest::Nowhere,
    head: &[],
    has_more: false,
    is_alike: true,
    planned: 0,
};

/// Of an operation in counter mode the part before the low 32 bits of its counter run over, or the one behind. The
/// whole block counts, and devices differ in how much of it they count.
fn unwrapped(mut whole: Operation, counter: u128, piece: u32) -> Operation {
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

impl Recipe for Plan {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn shape(&self) -> OutputShape {
        match self.form {
            Form::Hashed => OutputShape::Fixed(self.cipher.digest_len.into()),
            _ => OutputShape::Variable,
        }
    }

    /// What stands in front of the text stays as it was.
    fn in_place(&self) -> Result<usize, NotInPlace> {
        match self.form {
            Form::Hashed => Err(NotInPlace::new(
                "a digest does not take the place of what it is made of; give the digests slots outside of the items",
            )),
            _ => Ok(usize::from(self.cipher.iv_len) + usize::from(self.cipher.aad_len)),
        }
    }

    #[inline]
    fn step(&self, item: &[u8], slot_len: usize, piece: u32) -> Step<'_> {
        match self.form {
            Form::Hashed => self.hash(item),
            Form::Sealed => self.seal(item, slot_len),
            _ => self.encipher(item, slot_len, piece),
        }
    }

    fn is_as_planned(&self, done: &Done) -> bool {
        done.verdict == sys::DONE
    }

    fn end(&self, done: &Done, mut over: Over<'_>) -> End {
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
}

/// A spec of each operator that a crypto device may have, its key all zeros.
pub(super) fn samples() -> Vec<OpSpec> {
    let key = |len| Material::secret(vec![0; len]);
    let both = [Direction::Encrypt, Direction::Decrypt];
    let mut samples = Vec::new();
    samples.extend(both.map(|direction| {
        OpSpec::from(spec::AesGcm {
            direction,
            aad_bytes: 0,
            key: key(16),
        })
    }));
    samples.push(OpSpec::from(spec::AesCtr { key: key(16) }));
    samples.extend(both.map(|direction| {
        OpSpec::from(spec::AesCbc {
            direction,
            key: key(16),
        })
    }));
    samples.extend(both.map(|direction| {
        OpSpec::from(spec::AesXts {
            direction,
            key: key(32),
        })
    }));
    samples.extend([
        OpSpec::from(spec::Md5),
        OpSpec::from(spec::Sha1),
        OpSpec::from(spec::Sha256),
        OpSpec::from(spec::Sha512),
    ]);
    let hashes = [
        HmacHash::Md5,
        HmacHash::Sha1,
        HmacHash::Sha256,
        HmacHash::Sha512,
    ];
    samples.extend(hashes.map(|hash| OpSpec::from(spec::Hmac { hash, key: key(16) })));
    samples
}

/// The session that a device is asked for, and how items lie.
fn cipher_of(spec: &OpSpec) -> Option<(Cipher, Form)> {
    let hash = |algorithm, digest_len| {
        let cipher = Cipher {
            algorithm,
            decrypts: false,
            iv_len: 0,
            digest_len,
            aad_len: 0,
        };
        Some((cipher, Form::Hashed))
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
            Some((cipher, Form::Sealed))
        },
        spec::AesCtr { .. } => cipher(Algorithm::AesCtr, Direction::Encrypt, Form::Counted),
        spec::AesCbc { direction, .. } => cipher(Algorithm::AesCbc, *direction, Form::Chained),
        spec::AesXts { direction, .. } => cipher(Algorithm::AesXts, *direction, Form::Tweaked),
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
fn key_of(spec: &OpSpec) -> &[u8] {
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
