//! What an engine is given: a spec as it takes it, and what a prepared one knows.

use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::{CopyMode, DeflateFormat, Direction, Limits, OpSpec, match_spec, spec};

use super::kind::{EngineParameters, Kind};
use super::raw::{Bounds, Device};
use super::rules::translated;

/// Bytes of a GCM tag, which stands behind the text.
pub(super) const TAG_BYTES: usize = 16;
/// Bytes of a GCM nonce, which stands in front of the text.
pub(super) const IV_BYTES: usize = 12;

/// The level of DEFLATE that the engine's own comes nearest to.
pub(super) const LEVEL: u8 = 1;

/// A spec, as an engine takes it.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) kind: Kind,
    pub(super) parameters: EngineParameters,
}

impl Work {
    /// # Errors
    /// Why no engine computes it, whatever the device.
    pub(super) fn of(spec: &OpSpec) -> Result<Self, String> {
        let with = |kind, parameters| Ok(Self { kind, parameters });
        let keyless = |kind| with(kind, EngineParameters::Nothing);
        match_spec!(spec, {
            spec::Sha1 => keyless(Kind::Sha1),
            spec::Sha256 => keyless(Kind::Sha256),
            spec::Sha512 => keyless(Kind::Sha512),
            spec::Unlz4 => keyless(Kind::Unlz4),
            spec::Copy {
                mode: CopyMode::Cached,
            } => keyless(Kind::Copy),
            spec::Copy { .. } => Err("the DMA engine has one way to write; it is there as mode=cached".to_owned()),
            spec::Deflate { level: LEVEL, format } => with(Kind::Deflate, EngineParameters::Format(*format)),
            spec::Deflate { .. } => Err(format!(
                "the engine has one level, its own; it is there as level={LEVEL}, which it comes nearest to"
            )),
            spec::Inflate { format } => with(Kind::Inflate, EngineParameters::Format(*format)),
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
                with(kind, EngineParameters::Key(key.clone()))
            },
            spec::ErasureEncode { code } => with(Kind::ErasureEncode, EngineParameters::Code(*code)),
            spec::ErasureRecover { loss } => with(Kind::ErasureRecover, EngineParameters::Loss(*loss)),
            spec::Sessions { .. } => Err(format!(
                "{spec} has one key for all items here; it is there as sessions=0"
            )),
            spec::RxpMatch { rules, unsupported } => {
                let rules = translated(rules.bytes(), *unsupported)?;
                with(Kind::Match, EngineParameters::Rules(rules))
            },
        } else {
            Err(format!("DOCA has no engine for {spec}"))
        })
    }

    pub(super) fn limits(&self, bounds: Bounds) -> Limits {
        let depth_max = NonZeroU32::new(bounds.tasks_max).unwrap_or(NonZeroU32::MIN);
        let mut limits = Limits::new(depth_max);
        // The engine's buffers hold no nonce, and of encryption the longer one is the output, which has the tag too. They hold
        // nothing either of what wraps a stream, whose header may be longer.
        let (more, less) = match self.kind {
            Kind::Inflate => (wrapping_bytes(self.parameters.format()), 0),
            Kind::Encrypt128 | Kind::Encrypt256 => (IV_BYTES, TAG_BYTES),
            Kind::Decrypt128 | Kind::Decrypt256 => (IV_BYTES, 0),
            _ => (0, 0),
        };
        let blocks = self
            .parameters
            .coded()
            .map_or(1, |(code, _)| code.data_blocks());
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
    pub(super) spec: OpSpec,
    pub(super) work: Work,
    pub(super) limits: Limits,
    pub(super) bounds: Bounds,
    pub(super) device: Arc<Device>,
}

/// Bytes of what wraps a stream; of a header the shortest, which an encoder writes.
pub(super) fn wrapping_bytes(format: DeflateFormat) -> usize {
    format.header(LEVEL).len() + format.trailer_bytes()
}
