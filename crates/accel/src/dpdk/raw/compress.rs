//! Compress devices: queue pairs.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use dpb_core::{SetupError, Unsupported};

use super::Eal;
use super::operation::{Device, Digest, Iv, Operation};
use super::pmd::Pmd;
use crate::dpdk::sys::{self, BURST, Codec, Done, Run, SEGMENT};

/// Operations of a queue: each takes long, and where they cannot share a transform each has one, of some 300 KiB.
const OPERATIONS: u32 = 16;
/// Mbufs of a queue, for a device that takes chains: of half a gigabyte in and out, and what guards take.
const SEGMENTS: u32 = 40 << 10;
/// Longest input to be compressed in chains.
const DEFLATE_MAX: usize = 512 << 20;
/// Longest input to be decompressed in chains.
const INFLATE_MAX: usize = 64 << 20;
/// Longest output to be decompressed to.
const INFLATED_MAX: usize = 512 << 20;

/// A compress device.
pub(in crate::dpdk) struct CompressDevice {
    pmd: Pmd<sys::CompressQueue>,
    is_chained: bool,
    checksums: u32,
}

/// The work of a queue. A check of the plain bytes is computed beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum Coding {
    Compress { level: u8, check: Check },
    Decompress { guard: Guard },
}

/// The check that a wrapper of DEFLATE has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum Check {
    None,
    Crc32,
    Adler32,
}

/// The bytes that follow an item that is decompressed; `shim.h` says what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) enum Guard {
    None,
    /// A byte.
    Byte,
    /// A byte, and then zeros; for devices that take chains.
    Long,
}

/// A queue pair, with operations of one kind.
pub(in crate::dpdk) struct CompressQueue {
    device: Arc<CompressDevice>,
    queue_pair: u32,
    coding: Coding,
    queue: NonNull<sys::CompressQueue>,
}

impl Deref for CompressDevice {
    type Target = Pmd<sys::CompressQueue>;

    fn deref(&self) -> &Self::Target {
        &self.pmd
    }
}

impl CompressDevice {
    /// The names of all that there are.
    pub(in crate::dpdk) fn names(eal: &Eal) -> Vec<String> {
        let devices = eal.devices(eal.table().compress_devices);
        devices.iter().map(sys::Device::name).collect()
    }

    /// The device of this name.
    ///
    /// # Errors
    /// There is none, or it has no DEFLATE.
    pub(in crate::dpdk) fn find(eal: &'static Eal, name: &str) -> Result<Self, Unsupported> {
        let unsupported = |reason| Unsupported { reason };
        let devices = eal.devices(eal.table().compress_devices);
        let found = devices.iter().find(|device| device.name() == name);
        let device = found.ok_or_else(|| unsupported(format!("no compress device `{name}`")))?;
        if device.is_deflate == 0 {
            return Err(unsupported(format!("{name} offers no DEFLATE")));
        }
        Ok(Self {
            pmd: Pmd::new(eal, device),
            is_chained: device.is_chained != 0,
            checksums: device.checksums,
        })
    }

    /// Starts it at the first call; the same answer from then on.
    ///
    /// # Errors
    /// The device does not start.
    pub(in crate::dpdk) fn start(&self) -> Result<(), Unsupported> {
        self.pmd.start(|table, queue_pairs| {
            // SAFETY: a device that there is; EAL runs, and no other thread changes devices.
            unsafe { (table.compress_start)(self.id(), queue_pairs, 2 * OPERATIONS) }
        })
    }

    /// Whether input and output may be longer than an mbuf.
    pub(in crate::dpdk) fn is_chained(&self) -> bool {
        self.is_chained
    }

    /// Whether the device computes this check.
    pub(in crate::dpdk) fn has(&self, check: Check) -> bool {
        self.checksums >> check as u32 & 1 == 1
    }

    /// A queue pair that does this.
    ///
    /// # Errors
    /// All are in use, there is no memory for operations, or the device has a reason of its own.
    pub(in crate::dpdk) fn open(
        self: &Arc<Self>,
        coding: Coding,
    ) -> Result<CompressQueue, SetupError> {
        self.start().map_err(SetupError::Unsupported)?;
        let table = self.eal().table();
        let segments = if self.is_chained {
            SEGMENTS
        } else {
            4 * OPERATIONS
        };
        let (queue_pair, queue) = self.take(|table, number, queue| {
            // SAFETY: a device that was started and has DEFLATE, and a queue pair of it that is ours alone.
            unsafe { (table.compress_open)(self.id(), number, OPERATIONS, segments, queue) }
        })?;
        let control = self.eal().control();
        // SAFETY: ours alone, with nothing in flight; no other thread makes transforms.
        let result = unsafe { (table.compress_bind)(queue.as_ptr(), &coding.for_shim()) };
        drop(control);
        if result != 0 {
            self.give(queue_pair, Some(queue));
            let error = self.eal().shim.error(result);
            let reason = format!("{} does not do this: {error}", self.name());
            return Err(SetupError::Unsupported(Unsupported { reason }));
        }
        Ok(CompressQueue {
            device: self.clone(),
            queue_pair,
            coding,
            queue,
        })
    }
}

impl Coding {
    /// Longest input and longest output of an operation, in bytes.
    pub(in crate::dpdk) fn bytes_max(self, is_chained: bool) -> (usize, usize) {
        match (self, is_chained) {
            (Self::Compress { .. }, true) => (DEFLATE_MAX, DEFLATE_MAX + DEFLATE_MAX / 4),
            (Self::Decompress { .. }, true) => (INFLATE_MAX, INFLATED_MAX),
            // A guard of one byte is in the same mbuf.
            (_, false) => (SEGMENT - 1, SEGMENT),
        }
    }

    fn for_shim(self) -> Codec {
        match self {
            Self::Compress { level, check } => Codec {
                decompresses: 0,
                level: level.into(),
                checksum: check as u32,
                guard: Guard::None as u32,
            },
            Self::Decompress { guard } => Codec {
                decompresses: 1,
                level: 0,
                checksum: Check::None as u32,
                guard: guard as u32,
            },
        }
    }
}

impl Device for CompressQueue {
    fn admits(&self, operation: &Operation<'_>, item_len: usize, slot_len: usize) -> bool {
        let Operation { src, dst, head, .. } = operation;
        let (src_max, dst_max) = self.coding.bytes_max(self.device.is_chained);
        // A guard of one byte is what lies behind the item: `Memory` has some behind each buffer.
        src.start <= src.end
            && src.end <= item_len
            && dst.start <= dst.end
            && dst.end <= slot_len
            && head.len() <= dst.start
            && src.len() <= src_max
            && dst.len() <= dst_max
            && (operation.aad, operation.iv) == (0, Iv::Item(0))
            && operation.digest == Digest::Nowhere
            && operation.session.is_none()
    }

    unsafe fn submit(&mut self, runs: &[Run]) -> usize {
        let n = runs.len() as u32;
        // SAFETY: the caller vouches for the operations; the queue is ours alone, and this thread's, as it is not
        // `Send`.
        unsafe {
            let submit = self.device.eal().table().compress_submit;
            submit(self.queue.as_ptr(), runs.as_ptr(), n) as usize
        }
    }

    fn poll(&mut self, done: &mut [Done]) -> usize {
        let n = done.len().min(BURST) as u32;
        // SAFETY: room for so many; the queue is ours alone, and this thread's, as it is not `Send`.
        unsafe {
            let poll = self.device.eal().table().compress_poll;
            poll(self.queue.as_ptr(), done.as_mut_ptr(), n) as usize
        }
    }
}

impl Drop for CompressQueue {
    /// Closes a queue without operations in flight; one with them is leaked instead.
    fn drop(&mut self) {
        let control = self.device.eal().control();
        // SAFETY: ours alone, with nothing in flight; no other thread frees transforms.
        unsafe { (self.device.eal().table().compress_unbind)(self.queue.as_ptr()) };
        drop(control);
        self.device.give(self.queue_pair, Some(self.queue));
    }
}
