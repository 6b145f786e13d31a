//! Memory that moves: a [`Buf`] is unique and writable, a [`View`] shared and read-only, both remember their home.
//!
//! While a device owns a range there is no Rust reference to it: ownership moves with the job. The only file of this
//! crate with `unsafe`.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory that buffers are carved from and given back to.
pub trait Region: Send + Sync {
    /// Identifies the backend whose devices can reach this memory.
    fn domain(&self) -> u32;

    /// Takes a carve back.
    ///
    /// # Safety
    /// `ptr` and `len` are a carve of this very region, not yet released; no reference into it outlives the call.
    unsafe fn release(&self, ptr: NonNull<u8>, len: usize);
}

/// Unique, writable, initialised memory; goes home when dropped.
pub struct Buf {
    ptr: NonNull<u8>,
    len: usize,
    home: Arc<dyn Region>,
}

/// Shared, read-only memory.
#[derive(Clone, Debug)]
pub struct View(Arc<Buf>);

/// The heap, for every backend that runs on this CPU.
#[derive(Debug)]
struct Heap;

/// Alignment of everything that [`Buf::zeroed`] gives: a cache line, and the widest vector there is.
pub const ALIGNMENT: usize = 64;

// SAFETY: a `Buf` is the only owner of its range, and `Region` is `Send + Sync`.
unsafe impl Send for Buf {}
// SAFETY: sharing a `Buf` gives `&[u8]` only.
unsafe impl Sync for Buf {}

impl Heap {
    /// `len` zeroed bytes that [`Region::release`] takes back.
    fn carve(len: usize) -> Option<NonNull<u8>> {
        let layout = std::alloc::Layout::from_size_align(len.max(1), ALIGNMENT).ok()?;
        // SAFETY: the layout's size is not zero.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
    }
}

impl Region for Heap {
    fn domain(&self) -> u32 {
        0
    }

    unsafe fn release(&self, ptr: NonNull<u8>, len: usize) {
        let layout = std::alloc::Layout::from_size_align(len.max(1), ALIGNMENT)
            .expect("was valid when allocated");
        // SAFETY: the caller vouches that this is a carve of ours; ours come from `alloc_zeroed` with this layout.
        unsafe { std::alloc::dealloc(ptr.as_ptr(), layout) }
    }
}

/// Heap memory that counts what is out: tells whether a queue gave every buffer back.
#[cfg(feature = "conformance")]
#[derive(Debug, Default)]
pub struct Ledger {
    outstanding: std::sync::atomic::AtomicUsize,
}

#[cfg(feature = "conformance")]
impl Region for Ledger {
    fn domain(&self) -> u32 {
        0
    }

    unsafe fn release(&self, ptr: NonNull<u8>, len: usize) {
        // SAFETY: the caller vouches that this is a carve of ours; ours come from `Heap` with this length.
        unsafe { Heap.release(ptr, len) }
        self.outstanding
            .fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(feature = "conformance")]
impl Ledger {
    /// As [`Buf::zeroed`], and counted.
    pub fn zeroed(self: &Arc<Self>, len: usize) -> Option<Buf> {
        let ptr = Heap::carve(len)?;
        self.outstanding
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let home: Arc<dyn Region> = self.clone();
        // SAFETY: the heap gave `len` initialised bytes to us alone, and `release` gives them back to it.
        Some(unsafe { Buf::from_raw_parts(ptr, len, home) })
    }

    /// Buffers that are not yet home.
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl Buf {
    /// Zeroed heap memory, [`ALIGNMENT`]-aligned. `None` if there is none.
    pub fn zeroed(len: usize) -> Option<Self> {
        static HEAP: std::sync::LazyLock<Arc<Heap>> = std::sync::LazyLock::new(|| Arc::new(Heap));
        let home: Arc<dyn Region> = HEAP.clone();
        let ptr = Heap::carve(len)?;
        Some(Self { ptr, len, home })
    }

    /// A buffer over memory that `home` takes back.
    ///
    /// # Safety
    /// Valid for `len` initialised bytes until `home` takes it back; no other access meanwhile.
    pub unsafe fn from_raw_parts(ptr: NonNull<u8>, len: usize, home: Arc<dyn Region>) -> Self {
        Self { ptr, len, home }
    }

    /// Gives up writing, so that many jobs can read.
    pub fn freeze(self) -> View {
        View(Arc::new(self))
    }

    /// Whose devices can reach it.
    pub fn domain(&self) -> u32 {
        self.home.domain()
    }
}

impl View {
    /// Takes writing back if this is the last view.
    ///
    /// # Errors
    /// The view itself, if another one lives.
    pub fn thaw(self) -> Result<Buf, View> {
        Arc::try_unwrap(self.0).map_err(View)
    }

    /// Whose devices can reach it.
    pub fn domain(&self) -> u32 {
        self.0.domain()
    }
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `from_raw_parts` and `zeroed` promise `len` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // SAFETY: this is the carve that `home` gave, released once, and no reference can outlive `self`.
        unsafe { self.home.release(self.ptr, self.len) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes, domain {})", self.len, self.domain())
    }
}
