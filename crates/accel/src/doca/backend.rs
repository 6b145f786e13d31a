//! DOCA's engines as a backend: which operators they compute, and within which limits.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::{
    Backend, Buf, Clock, CopyMode, DeflateFormat, Direction, Limits, OpSpec, Operator, OutputShape,
    Properties, Queue, SetupError, Unsupported, match_spec, spec,
};

use super::kind::{Given, Kind};
use super::queue::DocaQueue;
use super::raw::{self, Bounds, Device, Doca, Lane, MATCH_BYTES};
use super::rules::translated;

/// Bytes of a GCM tag, which stands behind the text.
pub(super) const TAG_BYTES: usize = 16;
/// Bytes of a GCM nonce, which stands in front of the text.
pub(super) const IV_BYTES: usize = 12;

/// Tasks that a queue has, unless its depth or the device say otherwise: enough to keep an engine busy with short items.
const TASKS_USUAL: u32 = 256;
/// The level of DEFLATE that the engine's own comes nearest to.
pub(super) const LEVEL: u8 = 1;

/// The engines of one card, or of all cards: then the first that can does the work.
#[derive(Debug)]
pub struct DocaBackend {
    name: String,
    doca: &'static Doca,
    /// Not none.
    devices: Vec<Arc<Device>>,
}

impl DocaBackend {
    /// `devices` are not none.
    pub(super) fn new(name: String, doca: &'static Doca, devices: Vec<Arc<Device>>) -> Self {
        Self {
            name,
            doca,
            devices,
        }
    }

    /// The first device that does this, and what it promises.
    fn device(&self, kind: Kind) -> Result<(&Arc<Device>, Bounds), Unsupported> {
        if let Some(lack) = self.doca.lack(kind) {
            let (version, operator) = (self.doca.version(), kind.operator());
            let reason =
                format!("needs another DOCA than {version}, which has no {operator}: {lack}");
            return Err(Unsupported { reason });
        }
        let mut refusals = Vec::new();
        for device in &self.devices {
            match device.bounds(kind) {
                Ok(bounds) => return Ok((device, bounds)),
                Err(why) => refusals.push(format!("{} ({why})", device.name())),
            }
        }
        let reason = format!(
            "needs an engine for {}, which {} lacks",
            kind.operator(),
            refusals.join(" and ")
        );
        Err(Unsupported { reason })
    }
}

impl Backend for DocaBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        self.devices[0].clock()
    }

    fn properties(&self) -> Properties {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name()).collect();
        Properties::of_device(self.doca.stand_in().map(str::to_owned))
            .with_library(super::about(self.doca))
            .with_device(names.join(", "))
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        raw::alloc(&self.devices, len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        let work = Work::of(spec).map_err(|reason| Unsupported { reason })?;
        let (_, bounds) = self.device(work.kind)?;
        Ok(work.limits(bounds))
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let unsupported = |reason| SetupError::Unsupported(Unsupported { reason });
        let work = Work::of(spec).map_err(unsupported)?;
        let (device, bounds) = self.device(work.kind).map_err(SetupError::Unsupported)?;
        Ok(Arc::new(DocaOperator {
            spec: spec.clone(),
            limits: work.limits(bounds),
            work,
            bounds,
            device: device.clone(),
        }))
    }
}

/// A spec, as an engine takes it.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) kind: Kind,
    pub(super) given: Given,
}

impl Work {
    /// # Errors
    /// Why no engine computes it, whatever the device.
    fn of(spec: &OpSpec) -> Result<Self, String> {
        let with = |kind, given| Ok(Self { kind, given });
        let keyless = |kind| with(kind, Given::Nothing);
        match_spec!(spec, {
            spec::Sha1 => keyless(Kind::Sha1),
            spec::Sha256 => keyless(Kind::Sha256),
            spec::Sha512 => keyless(Kind::Sha512),
            spec::Unlz4 => keyless(Kind::Unlz4),
            spec::Copy {
                mode: CopyMode::Cached,
            } => keyless(Kind::Copy),
            spec::Copy { .. } => Err("the DMA engine has one way to write; it is there as mode=cached".to_owned()),
            spec::Deflate { level: LEVEL, format } => with(Kind::Deflate, Given::Format(*format)),
            spec::Deflate { .. } => Err(format!(
                "the engine has one level, its own; it is there as level={LEVEL}, which it comes nearest to"
            )),
            spec::Inflate { format } => with(Kind::Inflate, Given::Format(*format)),
            spec::AesGcm { aad_bytes: 1.., .. } => Err(
                "DOCA does not say whether its engine writes additional data in front of the text; it is there as aad=0"
                    .to_owned(),
            ),
            spec::AesGcm { direction, key, .. } => {
                let kind = match (direction, key.bytes().len()) {
                    (Direction::Encrypt, 16) => Kind::Encrypt128,
                    (Direction::Encrypt, 32) => Kind::Encrypt256,
                    (Direction::Decrypt, 16) => Kind::Decrypt128,
                    (Direction::Decrypt, 32) => Kind::Decrypt256,
                    (_, bytes) => return Err(format!("the engine needs a key of 16 or 32 bytes, not of {bytes}")),
                };
                with(kind, Given::Key(key.clone()))
            },
            spec::ErasureEncode { code } => with(Kind::ErasureEncode, Given::Code(*code)),
            spec::ErasureRecover { loss } => with(Kind::ErasureRecover, Given::Loss(*loss)),
            spec::RxpMatch { rules, unsupported } => {
                let rules = translated(rules.bytes(), *unsupported)?;
                with(Kind::Match, Given::Rules(rules))
            },
        } else {
            Err(format!("DOCA has no engine for {spec}"))
        })
    }

    fn limits(&self, bounds: Bounds) -> Limits {
        let depth_max = NonZeroU32::new(bounds.tasks_max).unwrap_or(NonZeroU32::MIN);
        let mut limits = Limits::new(depth_max);
        // The engine's buffers hold no nonce, and of encryption the longer one is the output, which has the tag too. They hold
        // nothing either of what wraps a stream, whose header may be longer.
        let (more, less) = match self.kind {
            Kind::Inflate => (wrapping_bytes(self.given.format()), 0),
            Kind::Encrypt128 | Kind::Encrypt256 => (IV_BYTES, TAG_BYTES),
            Kind::Decrypt128 | Kind::Decrypt256 => (IV_BYTES, 0),
            _ => (0, 0),
        };
        let blocks = self.given.coded().map_or(1, |(code, _)| code.data_blocks());
        limits.item_bytes_max = usize::try_from(bounds.item_bytes_max)
            .unwrap_or(usize::MAX)
            .saturating_sub(less)
            .saturating_add(more)
            .saturating_mul(blocks);
        limits
    }
}

/// A kind of work that a device does.
pub(super) struct DocaOperator {
    spec: OpSpec,
    pub(super) work: Work,
    pub(super) limits: Limits,
    pub(super) bounds: Bounds,
    device: Arc<Device>,
}

impl Operator for DocaOperator {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        match self.work.kind.digest_bytes() {
            Some(bytes) => OutputShape::Fixed(bytes),
            None => OutputShape::Variable,
        }
    }

    fn dst_len(&self, item_len: usize) -> usize {
        match self.work.kind {
            Kind::Copy => item_len,
            // A literal takes nine bits at most in the format's fixed code.
            Kind::Deflate => {
                let wrapping = wrapping_bytes(self.work.given.format());
                item_len
                    .saturating_add(item_len / 8)
                    .saturating_add(64 + wrapping)
            }
            // Room for a ratio of eight. The formats' own bounds are 1032 and 255.
            Kind::Inflate | Kind::Unlz4 => item_len.saturating_mul(8).saturating_add(64),
            Kind::Sha1 | Kind::Sha256 | Kind::Sha512 => self.work.kind.digest_bytes().unwrap_or(0),
            Kind::Encrypt128 | Kind::Encrypt256 => item_len.saturating_sub(IV_BYTES) + TAG_BYTES,
            Kind::Decrypt128 | Kind::Decrypt256 => item_len.saturating_sub(IV_BYTES + TAG_BYTES),
            Kind::ErasureEncode | Kind::ErasureRecover => {
                let coded = self.work.given.coded();
                coded.map_or(0, |(code, coded)| {
                    (item_len / code.data_blocks()).saturating_mul(coded)
                })
            }
            // If every rule matches.
            Kind::Match => self.work.given.rules() * MATCH_BYTES,
        }
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        if depth > self.limits.depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: self.limits.depth_max.get(),
            });
        }
        // A power of two, as SHA's are counted.
        let tasks = depth
            .get()
            .max(TASKS_USUAL)
            .next_power_of_two()
            .min(self.bounds.tasks_max);
        let depth = depth.get() as usize;
        let Work { kind, given } = &self.work;
        let lane = Lane::open(&self.device, *kind, given, depth, tasks);
        let lane = lane.map_err(|refused| {
            let reason = format!("{} on {}: {refused}", self.spec, self.device.name());
            SetupError::Unsupported(Unsupported { reason })
        })?;
        Ok(Box::new(DocaQueue::new(self, lane, depth, tasks as usize)))
    }
}

/// Bytes of what wraps a stream; of a header the shortest, which an encoder writes.
fn wrapping_bytes(format: DeflateFormat) -> usize {
    format.header(LEVEL).len() + format.trailer_bytes()
}

impl fmt::Debug for Doca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Doca({})", self.version())
    }
}
