//! DEFLATE and INFLATE on a compress device.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::patience::Silence;
use dpb_core::{
    Backend, Buf, Clock, Completion, DeflateFormat, Items, Job, JobError, Limits, OpSpec, Operator,
    OutputShape, Properties, Queue, SetupError, Unsupported, WallClock, match_spec, spec,
};

use super::raw::{
    Check, Coding, CompressDevice, Digest, End, Guard, Iv, Operation, OperationQueue, Over, Recipe,
    Step,
};
use super::sys::{self, Done};

/// Jobs that a queue may hold.
const DEPTH_MAX: NonZeroU32 = NonZeroU32::new(256).unwrap();
/// The time that a device may take for a few bytes.
const PATIENCE: Duration = Duration::from_secs(2);

/// A compress device as a backend.
pub(super) struct CompressBackend {
    name: String,
    device: Arc<CompressDevice>,
    /// The bytes that must follow an item to be inflated, or why inflating is not offered.
    guard: Result<Guard, Unsupported>,
    clock: Arc<WallClock>,
}

impl CompressBackend {
    /// Named `dpdk/DEVICE`. Tries what the device makes of a stream that ends too early.
    ///
    /// # Errors
    /// The device does not start.
    pub(super) fn new(device: Arc<CompressDevice>) -> Result<Self, Unsupported> {
        device.start()?;
        let clock = Arc::default();
        Ok(Self {
            name: format!("dpdk/{}", device.name()),
            guard: find_guard(&device, &clock),
            device,
            clock,
        })
    }
}

impl Backend for CompressBackend {
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
        Ok(StreamTransform::new(spec, &self.device, &self.guard)?.limits)
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let transform = StreamTransform::new(spec, &self.device, &self.guard);
        Ok(Arc::new(CompressOperator {
            spec: spec.clone(),
            transform: transform.map_err(SetupError::Unsupported)?,
            device: self.device.clone(),
            clock: self.clock.clone(),
        }))
    }
}

struct CompressOperator {
    spec: OpSpec,
    transform: StreamTransform,
    device: Arc<CompressDevice>,
    clock: Arc<WallClock>,
}

impl Operator for CompressOperator {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.transform.dst_len(item_len)
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let depth_max = self.transform.limits.depth_max;
        if depth > depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: depth_max.get(),
            });
        }
        Ok(Box::new(open(
            &self.device,
            self.transform,
            depth,
            &self.clock,
        )?))
    }
}

fn open(
    device: &Arc<CompressDevice>,
    transform: StreamTransform,
    depth: NonZeroU32,
    clock: &Arc<WallClock>,
) -> Result<impl Queue + use<>, SetupError> {
    let queue = device.open(transform.coding)?;
    Ok(OperationQueue::new(
        device.eal().memory().clone(),
        device.name(),
        transform,
        queue,
        depth,
        clock.clone(),
    ))
}

/// The way from items to operations that write or read streams.
#[derive(Clone, Copy, Debug)]
struct StreamTransform {
    coding: Coding,
    /// The format of a stream that is written.
    format: DeflateFormat,
    /// The header of such a stream.
    head: &'static [u8],
    /// Longest output of an operation.
    out_max: usize,
    limits: Limits,
}

impl StreamTransform {
    /// The transform for `spec`, unless the device lacks something for it.
    fn new(
        spec: &OpSpec,
        device: &CompressDevice,
        guard: &Result<Guard, Unsupported>,
    ) -> Result<Self, Unsupported> {
        let unsupported = |reason| Err(Unsupported { reason });
        let name = device.name();
        match_spec!(spec, {
            &spec::Deflate { level, format } => {
                let check = check_of(format);
                if !device.has(check) {
                    let format = format.name();
                    return unsupported(format!(
                        "{name} computes no check for format {format}; format=raw needs none"
                    ));
                }
                let head = format.header(level);
                Ok(Self {
                    format,
                    head,
                    ..Self::bare(Coding::Compress { level, check }, device)
                })
            },
            spec::Inflate {
                format: DeflateFormat::Raw,
            } => Ok(Self::bare(
                Coding::Decompress {
                    guard: guard.clone()?,
                },
                device,
            )),
            // Where a stream's check lies only its decoder knows, and some of DPDK's drivers do not say.
            spec::Inflate { format } => unsupported(format!(
                "compress devices decode bare DEFLATE, and do not say where the check of format {} lies; use format=raw",
                format.name()
            )),
        } else {
            unsupported(format!(
                "compress devices do deflate and inflate; {spec} is neither"
            ))
        })
    }

    /// Recipe for streams that nothing wraps.
    fn bare(coding: Coding, device: &CompressDevice) -> Self {
        let (in_max, out_max) = coding.bytes_max(device.is_chained());
        let mut limits = Limits::new(DEPTH_MAX);
        limits.synchronous = !device.is_hardware();
        limits.item_bytes_max = match coding {
            // So long that its stream surely fits.
            Coding::Compress { .. } => ((out_max - SLACK) / 9 * 8).min(in_max),
            Coding::Decompress { .. } => in_max,
        };
        Self {
            coding,
            format: DeflateFormat::Raw,
            head: &[],
            out_max,
            limits,
        }
    }

    fn dst_len(&self, item_len: usize) -> usize {
        match self.coding {
            Coding::Compress { .. } => {
                self.head.len() + stream_max(item_len) + self.format.trailer_bytes()
            }
            Coding::Decompress { .. } => item_len.saturating_mul(8).saturating_add(64),
        }
    }
}

/// A spec of each operator that a compress device may have.
pub(super) fn samples() -> Vec<OpSpec> {
    let formats = [DeflateFormat::Raw, DeflateFormat::Zlib, DeflateFormat::Gzip];
    let deflate = formats.map(|format| OpSpec::from(spec::Deflate { level: 6, format }));
    let inflate = formats.map(|format| OpSpec::from(spec::Inflate { format }));
    deflate.into_iter().chain(inflate).collect()
}

/// Bytes that a stream of little input may take.
const SLACK: usize = 64;

/// Bytes that a stream takes at most: fixed codes of nine bits for each byte, and a header.
fn stream_max(item_len: usize) -> usize {
    item_len.saturating_add(item_len / 8).saturating_add(SLACK)
}

/// The check that the device must compute beside.
fn check_of(format: DeflateFormat) -> Check {
    match format {
        DeflateFormat::Raw => Check::None,
        DeflateFormat::Zlib => Check::Adler32,
        DeflateFormat::Gzip => Check::Crc32,
    }
}

impl Recipe for StreamTransform {
    type Version = ();

    fn version(&mut self) {}

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn step<'a>(&'a self, (): &'a (), item: &[u8], slot_len: usize, _piece: u32) -> Step<'a> {
        let is_encoder = matches!(self.coding, Coding::Compress { .. });
        let room = slot_len.checked_sub(self.head.len() + self.format.trailer_bytes());
        let useful = if is_encoder {
            stream_max(item.len())
        } else {
            usize::MAX
        };
        let out_len = match room {
            // No stream is empty.
            None => return Step::Known(Err(JobError::DstTooShort)),
            Some(0) if is_encoder => return Step::Known(Err(JobError::DstTooShort)),
            Some(room) => room.min(useful).min(self.out_max),
        };
        // Some never return from it, and none is a stream.
        if !is_encoder && item.is_empty() {
            return Step::Known(Err(JobError::Malformed));
        }
        Step::Run(Operation {
            src: 0..item.len(),
            dst: self.head.len()..self.head.len() + out_len,
            head: self.head,
            iv: Iv::Item(0),
            aad: 0,
            digest: Digest::Nowhere,
            session: None,
            has_more: false,
            is_alike: true,
            planned: 0,
        })
    }

    fn end(&self, done: &Done, mut over: Over<'_>) -> End {
        let (item_len, mut slot) = (over.item_len(), over.slot());
        let room = slot.len() - self.head.len() - self.format.trailer_bytes();
        let produced = done.produced as usize;
        match (done.verdict, self.coding) {
            // However it ended: it ran on into what guards the item.
            (_, Coding::Decompress { guard }) if is_short(guard, done, item_len) => {
                End::Refused(JobError::Malformed)
            }
            // Beyond what the device may write of the slot it has written elsewhere.
            (sys::DONE, _) if produced > room.min(self.out_max) => {
                End::Refused(match room > self.out_max {
                    true => JobError::TooLong,
                    false => JobError::DstTooShort,
                })
            }
            (sys::DONE, Coding::Decompress { .. }) => End::Output(done.produced),
            (sys::DONE, Coding::Compress { .. }) => {
                let trailer = self.format.trailer(done.checksum, item_len);
                End::Output(slot.write(self.head.len() + produced, &trailer))
            }
            // What the device may write is less than the slot: the output is too long for the device.
            (sys::FULL, _) if room > self.out_max => End::Refused(JobError::TooLong),
            (sys::FULL, _) => End::Refused(JobError::DstTooShort),
            (sys::MALFORMED, _) => End::Refused(JobError::Malformed),
            _ => End::Failed(JobError::Device(done.status)),
        }
    }
}

/// Whether the device read on behind the item to find the stream's end.
fn is_short(guard: Guard, done: &Done, item_len: usize) -> bool {
    guard != Guard::None && done.consumed as usize > item_len
}

/// Three bytes that zlib makes of `a`, in a block of fixed codes.
const STREAM: [u8; 3] = [0x4B, 0x04, 0x00];

/// The guard with which the device tells a whole stream from one that ends too early; none, if it does so by itself.
fn find_guard(device: &Arc<CompressDevice>, clock: &Arc<WallClock>) -> Result<Guard, Unsupported> {
    let name = device.name();
    let guards = match (device.is_chained(), device.is_hardware()) {
        // Software may never return from what is short of a guard of its own kind.
        (true, false) => &[Guard::Long][..],
        (_, true) => &[Guard::None],
        (false, false) => &[Guard::Byte, Guard::None],
    };
    for &guard in guards {
        let transform = StreamTransform::bare(Coding::Decompress { guard }, device);
        let mut answers = Vec::new();
        for stream in [&STREAM[..], &STREAM[..2], &[0x4B]] {
            answers.push(inflated(device, transform, stream, clock)?);
        }
        if answers[0].as_deref() == Ok(b"a") && answers[1..].iter().all(Result::is_err) {
            return Ok(guard);
        }
    }
    Err(Unsupported {
        reason: format!("{name} takes a stream that ends too early for a whole one"),
    })
}

/// One stream through the device.
fn inflated(
    device: &Arc<CompressDevice>,
    transform: StreamTransform,
    stream: &[u8],
    clock: &Arc<WallClock>,
) -> Result<Result<Vec<u8>, JobError>, Unsupported> {
    let failed = |error: SetupError| Unsupported {
        reason: format!("{} cannot be tried: {error}", device.name()),
    };
    let mut src = device.eal().memory().alloc(stream.len()).map_err(failed)?;
    src.copy_from_slice(stream);
    let dst = device.eal().memory().alloc(64).map_err(failed)?;
    let job = Job::new(0, src.freeze(), Items::One, dst, OutputShape::Variable);
    let mut queue = open(device, transform, NonZeroU32::MIN, clock).map_err(failed)?;
    queue.submit(&mut VecDeque::from([job]));
    let mut done: Vec<Completion> = Vec::with_capacity(1);
    let mut silence = Silence::default();
    while queue.poll(&mut done) == 0 {
        if silence.lasts(&**clock) > PATIENCE {
            let reason = format!("{} does not answer", device.name());
            return Err(Unsupported { reason });
        }
    }
    let Completion { job, result } = done.remove(0);
    Ok(result.and_then(|()| job.output(OutputShape::Variable, 0).map(<[u8]>::to_vec)))
}
