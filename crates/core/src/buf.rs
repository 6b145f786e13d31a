//! Memory that moves with its job: a [`Buf`] is unique and writable, a [`View`] shared and read-only. Both know their region.
//!
//! While a device owns a range, no Rust reference to it exists: ownership moves with the job.
//!
//! A device backend recognises its own memory by [`Buf::region`]: by the region's type, which nobody else can make, or by its
//! address. The region keeps what the backend needs for its descriptors (a memory key, a pool).
#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory that buffers are allocated from and given back to.
///
/// Regions are told apart by what they are, not by what they say: nothing that a foreign region answers could be trusted
/// with a device's writes.
pub trait Region: Any + Send + Sync {
    /// Takes an allocation back.
    ///
    /// # Safety
    /// `ptr` and `len` are an allocation of this very region, not yet released; no reference into it outlives the call.
    unsafe fn release(&self, ptr: NonNull<u8>, len: usize);
}

/// Unique, writable, initialised memory; its region takes it back when it is dropped.
pub struct Buf {
    ptr: NonNull<u8>,
    len: usize,
    region: Arc<dyn Region>,
    #[cfg(feature = "conformance")]
    _entry: Option<Arc<()>>,
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
    fn allocate(len: usize) -> Option<NonNull<u8>> {
        let layout = std::alloc::Layout::from_size_align(len.max(1), ALIGNMENT).ok()?;
        // SAFETY: the layout's size is not zero.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
    }
}

impl dyn Region {
    /// This region as an `R`, if it is one.
    pub fn downcast_ref<R: Region>(&self) -> Option<&R> {
        (self as &dyn Any).downcast_ref()
    }

    /// True if both are the same region, not only of the same kind.
    pub fn is(&self, other: &dyn Region) -> bool {
        std::ptr::addr_eq(self, other)
    }
}

impl Region for Heap {
    unsafe fn release(&self, ptr: NonNull<u8>, len: usize) {
        let layout = std::alloc::Layout::from_size_align(len.max(1), ALIGNMENT)
            .expect("was valid when allocated");
        // SAFETY: the caller vouches that this is an allocation of ours; ours come from `alloc_zeroed` with this layout.
        unsafe { std::alloc::dealloc(ptr.as_ptr(), layout) }
    }
}

/// Heap memory that no backend knows: foreign to every device. Each island is a region of its own.
#[cfg(feature = "conformance")]
#[derive(Debug, Default)]
pub struct Island(());

#[cfg(feature = "conformance")]
impl Island {
    /// As [`Buf::zeroed`], on this island.
    pub fn zeroed(self: &Arc<Self>, len: usize) -> Option<Buf> {
        let ptr = Heap::allocate(len)?;
        let region: Arc<dyn Region> = self.clone();
        // SAFETY: the heap gave `len` initialised bytes to us alone, and `release` gives them back to it.
        Some(unsafe { Buf::from_raw_parts(ptr, len, region) })
    }
}

#[cfg(feature = "conformance")]
impl Region for Island {
    unsafe fn release(&self, ptr: NonNull<u8>, len: usize) {
        // SAFETY: the caller vouches that this is an allocation of ours; ours come from the heap with this length.
        unsafe { Heap.release(ptr, len) }
    }
}

/// Counts the buffers entered in it that still live, wherever their memory is from: tells whether a queue gave every
/// buffer back.
#[cfg(feature = "conformance")]
#[derive(Debug, Default)]
pub struct Ledger(Arc<()>);

#[cfg(feature = "conformance")]
impl Ledger {
    /// Counts `buf` until it is released.
    pub fn enter(&self, buf: &mut Buf) {
        buf._entry = Some(self.0.clone());
    }

    /// Buffers that are not yet released.
    pub fn outstanding(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

impl Buf {
    /// Zeroed heap memory, [`ALIGNMENT`]-aligned. `None` if there is none.
    pub fn zeroed(len: usize) -> Option<Self> {
        static HEAP: std::sync::LazyLock<Arc<Heap>> = std::sync::LazyLock::new(|| Arc::new(Heap));
        let region: Arc<dyn Region> = HEAP.clone();
        let ptr = Heap::allocate(len)?;
        // SAFETY: the heap gave `len` initialised bytes to us alone, with the layout that its `release` takes back.
        Some(unsafe { Self::from_raw_parts(ptr, len, region) })
    }

    /// A buffer over an allocation of `region`, which takes it back when the buffer is dropped.
    ///
    /// # Safety
    /// `ptr` and `len` are an allocation of this very `region`, not yet released, and nobody else releases it: dropping the buffer
    /// does. Until then all `len` bytes are valid and initialised, and nothing but the buffer gives access to them.
    pub unsafe fn from_raw_parts(ptr: NonNull<u8>, len: usize, region: Arc<dyn Region>) -> Self {
        Self {
            ptr,
            len,
            region,
            #[cfg(feature = "conformance")]
            _entry: None,
        }
    }

    /// Takes the buffer apart, for a device that takes the allocation itself: to be released, or put together again.
    pub fn into_raw_parts(self) -> (NonNull<u8>, usize, Arc<dyn Region>) {
        #[cfg_attr(not(feature = "conformance"), allow(unused_mut))]
        let mut buf = ManuallyDrop::new(self);
        #[cfg(feature = "conformance")]
        drop(buf._entry.take());
        // SAFETY: `buf` is not dropped, so its region is moved out of it once.
        let region = unsafe { std::ptr::read(&buf.region) };
        (buf.ptr, buf.len, region)
    }

    /// The number of bytes. No reference to them is made.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte. No reference to the memory is made, so that the address stays good while a device writes there; nobody but
    /// the buffer's owner may write through it.
    #[inline]
    pub fn as_non_null(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Makes the memory read-only, so that many jobs can share it.
    pub fn freeze(self) -> View {
        View(Arc::new(self))
    }

    /// The region that it was allocated from: [`downcast_ref`](trait.Region.html#method.downcast_ref) says whether it is one
    /// of yours, [`is`](trait.Region.html#method.is) whether it is that one.
    pub fn region(&self) -> &dyn Region {
        &*self.region
    }
}

impl View {
    /// Makes the memory writable again if this is the last view.
    ///
    /// # Errors
    /// The view itself, if another one lives.
    pub fn thaw(self) -> Result<Buf, View> {
        Arc::try_unwrap(self.0).map_err(View)
    }

    /// The buffer that it is a view of.
    #[inline]
    pub fn buf(&self) -> &Buf {
        &self.0
    }

    /// See [`Buf::region`].
    pub fn region(&self) -> &dyn Region {
        self.0.region()
    }
}

impl Deref for View {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Buf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: whoever called `from_raw_parts` promised `len` initialised bytes.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // SAFETY: whoever called `from_raw_parts` promised an unreleased allocation of `region` that only this releases, and no
        // reference can outlive `self`.
        unsafe { self.region.release(self.ptr, self.len) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes at {:p})", self.len, self.ptr)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Memory with a key, as a network card's registration is.
    struct Registered {
        key: u32,
        released: Mutex<Vec<usize>>,
    }

    impl Registered {
        fn allocate(self: &Arc<Self>, len: usize) -> Buf {
            let ptr = Heap::allocate(len).expect("memory");
            // SAFETY: an allocation of the heap, ours alone; `release` below gives it back there.
            unsafe { Buf::from_raw_parts(ptr, len, self.clone()) }
        }
    }

    impl Region for Registered {
        unsafe fn release(&self, ptr: NonNull<u8>, len: usize) {
            self.released.lock().expect("nobody panics").push(len);
            // SAFETY: the caller vouches that this is an allocation of ours; ours come from the heap with this length.
            unsafe { Heap.release(ptr, len) }
        }
    }

    fn region(key: u32) -> Arc<Registered> {
        Arc::new(Registered {
            key,
            released: Mutex::default(),
        })
    }

    #[test]
    fn a_buffer_that_is_taken_apart_is_not_released() {
        let mine = region(1);
        let mut buf = mine.allocate(3);
        buf.copy_from_slice(b"abc");
        let (ptr, len, region) = buf.into_raw_parts();
        assert!(mine.released.lock().expect("nobody panics").is_empty());
        // SAFETY: the parts of a buffer that is no more.
        let again = unsafe { Buf::from_raw_parts(ptr, len, region) };
        assert_eq!(again[..], *b"abc");
        drop(again);
        assert_eq!(*mine.released.lock().expect("nobody panics"), [3]);
        assert_eq!(Arc::strong_count(&mine), 1);
    }

    #[test]
    fn a_buffer_leads_to_what_its_region_knows() {
        // Equal in all they say, and still two.
        let (mine, other) = (region(7), region(7));
        let (a, b, c) = (mine.allocate(10), mine.allocate(20), other.allocate(30));
        let key =
            |region: &dyn Region| region.downcast_ref::<Registered>().map(|region| region.key);
        assert_eq!(key(a.region()), Some(7));
        assert!(a.region().is(b.region()) && a.region().is(&*mine));
        assert!(!a.region().is(c.region()));
        let heap = Buf::zeroed(1).expect("memory");
        assert_eq!(key(heap.region()), None);
        assert!(heap.region().is(Buf::zeroed(9).expect("memory").region()));
        let view = b.freeze();
        assert!(view.region().is(&*mine));
        drop((a, view.clone()));
        assert_eq!(*mine.released.lock().expect("nobody panics"), [10]);
        drop(view);
        assert_eq!(*mine.released.lock().expect("nobody panics"), [10, 20]);
        assert!(other.released.lock().expect("nobody panics").is_empty());
    }
}
