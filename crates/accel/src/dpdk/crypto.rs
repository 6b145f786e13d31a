//! AES, hashes and HMAC on a crypto device.

mod empty_hmac;
mod sessions;
mod transform;

use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::{
    Backend, Buf, Clock, Control, Direction, HmacHash, Limits, Material, NotInPlace, OpSpec,
    Operator, OutputShape, Properties, Queue, SetupError, Unsupported, WallClock, spec,
};

use self::empty_hmac::Hasher;
use self::sessions::{SessionTransform, Sessions};
use self::transform::{CryptoTransform, end, key_of};
use super::raw::{CryptoDevice, End, OperationQueue, Over, Recipe, Step};
use super::sys::{self, Done};

/// Jobs that a queue may hold.
const DEPTH_MAX: NonZeroU32 = NonZeroU32::new(1024).unwrap();
/// Bytes of a block of AES.
const BLOCK: usize = 16;

/// A crypto device as a backend.
pub(super) struct CryptoBackend {
    name: String,
    device: Arc<CryptoDevice>,
    clock: Arc<WallClock>,
}

impl CryptoBackend {
    /// The backend `dpdk/DEVICE`.
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
        Ok(CryptoTransform::new(spec, &self.device)?.limits)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let operator = CryptoOperator::new(spec, &self.device, &self.clock)?;
        Ok(Arc::new(operator))
    }
}

struct CryptoOperator {
    spec: OpSpec,
    transform: CryptoTransform,
    keys: Keys,
    device: Arc<CryptoDevice>,
    clock: Arc<WallClock>,
}

/// The keys of an operator.
enum Keys {
    /// One key, or none, and the code of an empty message under HMAC.
    One(Option<Arc<[u8]>>),
    /// A key for each session.
    Sessions(Arc<Sessions>),
}

impl CryptoOperator {
    fn new(
        spec: &OpSpec,
        device: &Arc<CryptoDevice>,
        clock: &Arc<WallClock>,
    ) -> Result<Self, SetupError> {
        let transform = CryptoTransform::new(spec, device).map_err(SetupError::Unsupported)?;
        let keys = match spec.get::<spec::Sessions>() {
            Some(sessions) => Keys::Sessions(Arc::new(Sessions::new(
                sessions, &transform, device, clock,
            )?)),
            None => {
                // Each queue has its own; that there can be one is known here.
                let session = device.session(transform.cipher, key_of(spec));
                session.map_err(SetupError::Unsupported)?;
                let hash = transform.hash_under.as_ref();
                let of_nothing = hash
                    .map(|hash| Hasher::open(hash, device, clock)?.hmac_of_nothing(key_of(spec)));
                Keys::One(of_nothing.transpose()?)
            }
        };
        Ok(Self {
            spec: spec.clone(),
            transform,
            keys,
            device: device.clone(),
            clock: clock.clone(),
        })
    }
}

impl Operator for CryptoOperator {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        self.transform.shape()
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.transform.dst_len(item_len)
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.transform.in_place()
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        match &self.keys {
            Keys::One(_) => None,
            Keys::Sessions(sessions) => Some(sessions.clone()),
        }
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let depth_max = self.transform.limits.depth_max;
        if depth > depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: depth_max.get(),
            });
        }
        let (device, cipher) = (&self.device, self.transform.cipher);
        let (memory, name) = (device.eal().memory().clone(), device.name());
        let transform = self.transform.clone();
        match &self.keys {
            Keys::One(of_nothing) => {
                let session = device.session(cipher, key_of(&self.spec));
                let session = session.map_err(SetupError::Unsupported)?;
                let recipe = KeyTransform {
                    transform,
                    of_nothing: of_nothing.clone(),
                };
                let queue = device.open(cipher, Some(session))?;
                let clock = self.clock.clone();
                let queue = OperationQueue::new(memory, name, recipe, queue, depth, clock);
                Ok(Box::new(queue))
            }
            Keys::Sessions(sessions) => {
                let recipe = SessionTransform::new(transform, sessions)?;
                let queue = device.open(cipher, None)?;
                let clock = self.clock.clone();
                let queue = OperationQueue::new(memory, name, recipe, queue, depth, clock);
                Ok(Box::new(queue))
            }
        }
    }
}

/// The recipe of an operator with one key for all items.
struct KeyTransform {
    transform: CryptoTransform,
    /// The code of an empty message, under HMAC.
    of_nothing: Option<Arc<[u8]>>,
}

impl Recipe for KeyTransform {
    type Version = ();

    fn version(&mut self) {}

    fn limits(&self) -> &Limits {
        &self.transform.limits
    }

    fn shape(&self) -> OutputShape {
        self.transform.shape()
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.transform.in_place()
    }

    #[inline]
    fn step<'a>(&'a self, (): &'a (), item: &[u8], slot_len: usize, piece: u32) -> Step<'a> {
        let of_nothing = self.of_nothing.as_deref();
        self.transform.step(of_nothing, item, slot_len, piece)
    }

    fn is_as_planned(&self, done: &Done) -> bool {
        done.verdict == sys::DONE
    }

    fn end(&self, done: &Done, over: Over<'_>) -> End {
        end(done, over)
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
