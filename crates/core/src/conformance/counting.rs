//! An allocator that counts, for tests that assert that nothing is allocated.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, with a count of the calls that give memory. A test program that installs it is exact about one thread
/// whatever others do:
///
/// ```
/// use dpb_core::conformance::Counting;
///
/// #[global_allocator]
/// static COUNTING: Counting = Counting;
///
/// let before = Counting::here();
/// let list = vec![1, 2, 3];
/// assert_eq!(Counting::here() - before, 1);
/// # drop(list);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Counting;

static EVERYWHERE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Without a destructor and made by the compiler, so that it allocates nothing itself.
    static HERE: Cell<u64> = const { Cell::new(0) };
}

impl Counting {
    /// Allocations of this thread so far.
    pub fn here() -> u64 {
        HERE.get()
    }

    /// Allocations of all threads so far.
    pub fn everywhere() -> u64 {
        EVERYWHERE.load(Ordering::Relaxed)
    }
}

fn count() {
    HERE.set(HERE.get() + 1);
    EVERYWHERE.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: every call is the system allocator's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}
