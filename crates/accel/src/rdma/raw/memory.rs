//! Memory that a device reaches: registered, pinned, and given back only when nobody uses it any more.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ffi::{c_int, c_uint};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use dpb_core::buf::ALIGNMENT;
use dpb_core::{Buf, Region};

use super::super::sys;
use super::{ProtectionDomain, VerbsError};

/// Memory and its registration.
struct Registration {
    domain: Arc<ProtectionDomain>,
    ptr: NonNull<u8>,
    layout: Layout,
    region: NonNull<sys::Mr>,
}

// SAFETY: the memory is ours alone, and libibverbs may be called from any thread.
unsafe impl Send for Registration {}
// SAFETY: as above; what is shared is read only.
unsafe impl Sync for Registration {}

impl Registration {
    /// `len` zeroed bytes on a boundary of `align`, to which peers have this `access`; at least one, because devices register
    /// nothing less.
    fn new(
        domain: &Arc<ProtectionDomain>,
        len: usize,
        align: usize,
        access: c_uint,
    ) -> Result<Self, Refused> {
        let layout = Layout::from_size_align(len.max(1), align).map_err(|_| Refused::Memory)?;
        // SAFETY: the layout's size is not zero.
        let ptr = unsafe { std::alloc::alloc_zeroed(layout) };
        let ptr = NonNull::new(ptr).ok_or(Refused::Memory)?;
        let access = sys::ACCESS_LOCAL_WRITE | access;
        // SAFETY: the domain lives, and the memory is ours until the region is deregistered.
        let region = unsafe {
            (domain.context.verbs.symbols.reg_mr)(
                domain.ptr.as_ptr(),
                ptr.as_ptr().cast(),
                layout.size(),
                access as c_int,
            )
        };
        let Some(region) = NonNull::new(region) else {
            let error = VerbsError::last("ibv_reg_mr");
            // SAFETY: allocated above with this layout, and nobody has it.
            unsafe { std::alloc::dealloc(ptr.as_ptr(), layout) };
            return Err(Refused::Device(error));
        };
        Ok(Self {
            domain: domain.clone(),
            ptr,
            layout,
            region,
        })
    }

    fn lkey(&self) -> u32 {
        // SAFETY: the region lives; keys are written once, when it is made.
        unsafe { (*self.region.as_ptr()).lkey }
    }

    fn rkey(&self) -> u32 {
        // SAFETY: as in `lkey`.
        unsafe { (*self.region.as_ptr()).rkey }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered by us, deregistered once. Requests that use it hold it, or are over.
        let code = unsafe { (self.domain.context.verbs.symbols.dereg_mr)(self.region.as_ptr()) };
        match VerbsError::check("ibv_dereg_mr", code) {
            // SAFETY: allocated by us with this layout; no device reaches it any more.
            Ok(()) => unsafe { std::alloc::dealloc(self.ptr.as_ptr(), self.layout) },
            Err(error) => eprintln!(
                "dpb: {error}; {} bytes stay where they are, the device may still use them",
                self.layout.size()
            ),
        }
    }
}

/// The reason that there is no registered memory.
#[derive(Debug)]
pub(in crate::rdma) enum Refused {
    /// None of this length.
    Memory,
    /// The device, or the limit on locked memory.
    Device(VerbsError),
}

/// A region behind one [`Buf`].
pub(in crate::rdma) struct Registered(Registration);

impl Registered {
    /// A buffer of `len` zeroed bytes.
    pub(in crate::rdma) fn buffer(
        domain: &Arc<ProtectionDomain>,
        len: usize,
    ) -> Result<Buf, Refused> {
        let access = sys::ACCESS_REMOTE_WRITE;
        let home = Arc::new(Self(Registration::new(domain, len, ALIGNMENT, access)?));
        let ptr = home.0.ptr;
        // SAFETY: all of the region's memory, initialised, given out once; it lives as long as the region, which the buffer
        // keeps.
        Ok(unsafe { Buf::from_raw_parts(ptr, len, home) })
    }

    /// Whether queue pairs of `domain` reach it.
    pub(super) fn is_in(&self, domain: &Arc<ProtectionDomain>) -> bool {
        Arc::ptr_eq(&self.0.domain, domain)
    }

    pub(super) fn lkey(&self) -> u32 {
        self.0.lkey()
    }

    pub(super) fn rkey(&self) -> u32 {
        self.0.rkey()
    }
}

impl Region for Registered {
    /// The memory goes with the region, which has no other buffer.
    unsafe fn release(&self, _ptr: NonNull<u8>, _len: usize) {}
}

/// Memory that peers read and write whenever they like: its bytes are looked at atomically, and never by reference.
pub(in crate::rdma) struct Window(Registration);

/// The rights of peers on a window, if they have its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rdma) enum Access {
    /// Nothing: it is sent from.
    None,
    Write,
    ReadWrite,
}

/// Bytes that are moved at once.
const WORD: usize = size_of::<u64>();

impl Window {
    /// Allocates `len` zeroed bytes, on a page.
    pub(in crate::rdma) fn new(
        domain: &Arc<ProtectionDomain>,
        len: usize,
        access: Access,
    ) -> Result<Arc<Self>, Refused> {
        let access = match access {
            Access::None => 0,
            Access::Write => sys::ACCESS_REMOTE_WRITE,
            Access::ReadWrite => sys::ACCESS_REMOTE_WRITE | sys::ACCESS_REMOTE_READ,
        };
        Ok(Arc::new(Self(Registration::new(
            domain, len, 4096, access,
        )?)))
    }

    /// Whether queue pairs of `domain` reach it.
    pub(super) fn is_in(&self, domain: &Arc<ProtectionDomain>) -> bool {
        Arc::ptr_eq(&self.0.domain, domain)
    }

    pub(in crate::rdma) fn len(&self) -> usize {
        self.0.layout.size()
    }

    /// The address that peers write to, `offset` bytes from the start.
    pub(in crate::rdma) fn address(&self, offset: usize) -> u64 {
        (self.0.ptr.as_ptr().addr() + offset) as u64
    }

    /// The key that peers need.
    pub(in crate::rdma) fn rkey(&self) -> u32 {
        self.0.rkey()
    }

    pub(super) fn lkey(&self) -> u32 {
        self.0.lkey()
    }

    /// The byte at `offset`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub(in crate::rdma) fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.len(), "byte {offset} of {}", self.len());
        // SAFETY: inside the memory, which lives as long as `self`; it is never accessed but atomically, or by the device.
        unsafe { AtomicU8::from_ptr(self.0.ptr.as_ptr().add(offset)) }
    }

    /// `len` bytes from `offset` on, as bytes, words and bytes.
    ///
    /// # Panics
    /// If there are fewer.
    fn part(&self, offset: usize, len: usize) -> (&[AtomicU8], &[AtomicU64], &[AtomicU8]) {
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "{len} bytes at {offset} of {}",
            self.len()
        );
        // SAFETY: inside the memory, which is initialised and lives as long as `self`; it is never accessed but atomically, or
        // by the device, whose writes change what a later look sees and nothing else.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.0.ptr.as_ptr().add(offset).cast::<AtomicU8>(), len)
        };
        // SAFETY: any eight bytes are a word, and both are atomic.
        unsafe { bytes.align_to() }
    }

    /// Copies bytes out, from `offset` on. A peer that writes there meanwhile gets a mixture copied.
    ///
    /// # Panics
    /// If there are fewer.
    pub(in crate::rdma) fn read(&self, offset: usize, into: &mut [u8]) {
        let (head, words, tail) = self.part(offset, into.len());
        let (first, rest) = into.split_at_mut(head.len());
        let (middle, last) = rest.as_chunks_mut::<WORD>();
        for (byte, from) in first.iter_mut().zip(head) {
            *byte = from.load(Ordering::Relaxed);
        }
        for (word, from) in middle.iter_mut().zip(words) {
            *word = from.load(Ordering::Relaxed).to_ne_bytes();
        }
        for (byte, from) in last.iter_mut().zip(tail) {
            *byte = from.load(Ordering::Relaxed);
        }
    }

    /// Copies `bytes` in, from `offset` on.
    ///
    /// # Panics
    /// If there is no room for them.
    pub(in crate::rdma) fn write(&self, offset: usize, bytes: &[u8]) {
        let (head, words, tail) = self.part(offset, bytes.len());
        let (first, rest) = bytes.split_at(head.len());
        let (middle, last) = rest.as_chunks::<WORD>();
        for (&byte, to) in first.iter().zip(head) {
            to.store(byte, Ordering::Relaxed);
        }
        for (&word, to) in middle.iter().zip(words) {
            to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        for (&byte, to) in last.iter().zip(tail) {
            to.store(byte, Ordering::Relaxed);
        }
    }

    /// Fills it with `bytes`, over and over.
    pub(in crate::rdma) fn fill(&self, bytes: impl Iterator<Item = u8>) {
        for (offset, byte) in (0..self.len()).zip(bytes) {
            self.byte(offset).store(byte, Ordering::Relaxed);
        }
    }
}
