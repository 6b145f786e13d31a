//! `rdma/DEVICE`: copies by a device that writes to itself.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::{
    Backend, Buf, Clock, Completion, CopyMode, Job, Limits, NotInPlace, OpSpec, Operator,
    OutputShape, Properties, Queue, SetupError, Unsupported, WallClock, spec,
};

use super::port::{Address, Device, Problem};
use super::raw::copier::Copier;
use super::raw::{self, ProtectionDomain, Registered, RemotePair, Retry, Route};

/// The operator `copy` on one device.
pub(super) struct Copies {
    name: String,
    clock: Arc<WallClock>,
    resources: Arc<CopyResources>,
}

/// The resources that all queues share.
struct CopyResources {
    device: Device,
    address: Address,
    domain: Arc<ProtectionDomain>,
}

/// Writes in flight of one queue; jobs beyond it wait in line.
const WRITES_MAX: u32 = 1024;

impl Copies {
    pub(super) fn new(device: Device) -> Result<Self, Problem> {
        Ok(Self {
            name: format!("rdma/{}", device.context.name()),
            clock: Arc::default(),
            resources: Arc::new(CopyResources {
                address: device.address(None)?,
                domain: ProtectionDomain::new(&device.context)?,
                device,
            }),
        })
    }
}

impl CopyResources {
    fn writes_max(&self) -> NonZeroU32 {
        let writes = WRITES_MAX.min(self.device.attributes.send_requests_max);
        let writes = writes.min(self.device.attributes.completions_max);
        NonZeroU32::new(writes).unwrap_or(NonZeroU32::MIN)
    }

    /// Items that lie together become one message.
    fn limits(&self) -> Limits {
        let message_bytes_max = self.device.link.message_bytes_max as usize;
        let mut limits = Limits::new(self.writes_max());
        limits.input_bytes_max = message_bytes_max;
        limits.item_bytes_max = message_bytes_max;
        limits
    }

    /// From the port to itself. Packet numbers start at zero: both ends are ours and end together, so nothing of an earlier
    /// connection can still be on its way.
    fn route(&self) -> Route {
        Route {
            port: self.device.port,
            gid_index: self.address.gid_index,
            mtu: self.device.link.mtu,
            psn: 0,
            reads: 1,
            retry: Retry::USUAL,
            peer: RemotePair {
                lid: self.device.link.lid,
                gid: self.address.gid,
                qp_num: 0,
                psn: 0,
                reads: 1,
            },
        }
    }
}

impl Backend for Copies {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn properties(&self) -> Properties {
        let device = &self.resources.device;
        let properties = Properties::of_device(device.software().map(str::to_owned))
            .with_device(device.context.name());
        match raw::verbs() {
            Ok(verbs) => properties.with_library(verbs.version()),
            Err(_) => properties,
        }
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        // Whether it is memory, the limit on locked memory, or the device's own that ran out: there is none of this length.
        Registered::buffer(&self.resources.domain, len).map_err(|_| SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        let unsupported = |reason: String| Err(Unsupported { reason });
        match spec.get() {
            Some(spec::Copy {
                mode: CopyMode::Cached,
            }) => Ok(self.resources.limits()),
            Some(_) => unsupported(format!(
                "{} has no copies past the caches: where its writes land is the platform's choice; use the mode cached",
                self.name
            )),
            None => unsupported(format!(
                "{} has no {}: it moves bytes and computes nothing",
                self.name,
                spec.name()
            )),
        }
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        self.limits(spec).map_err(SetupError::Unsupported)?;
        Ok(Arc::new(Copy {
            spec: spec.clone(),
            resources: self.resources.clone(),
            clock: self.clock.clone(),
        }))
    }
}

struct Copy {
    spec: OpSpec,
    resources: Arc<CopyResources>,
    clock: Arc<WallClock>,
}

impl Operator for Copy {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn in_place(&self) -> Result<usize, NotInPlace> {
        Err(NotInPlace::new(
            "an RDMA write copies from one memory to another, and what is copied onto itself is no copy; give the outputs slots \
             outside of the items",
        ))
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        let (limits, room) = (self.resources.limits(), self.resources.writes_max());
        if depth > limits.depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: limits.depth_max.get(),
            });
        }
        let copier = Copier::new(
            &self.resources.domain,
            self.resources.route(),
            limits,
            depth.get() as usize,
            room.get(),
            self.clock.clone(),
        );
        let copier = copier.map_err(|error| {
            let reason = format!("{}: {error}", self.resources.device.context.name());
            SetupError::Unsupported(Unsupported { reason })
        })?;
        Ok(Box::new(CopyQueue(copier)))
    }
}

struct CopyQueue(Copier);

impl Queue for CopyQueue {
    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn submit(&mut self, ready: &mut VecDeque<Job>) -> usize {
        self.0.submit(ready)
    }

    fn poll(&mut self, done: &mut Vec<Completion>) -> usize {
        self.0.poll(done)
    }

    fn wait(&mut self, timeout: Duration) {
        self.0.wait(timeout);
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        self.0.file()
    }
}
