//! Memory that asks for huge pages: random reads of small pages miss the TLB, and have 0.7 times the speed.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const HUGE_PAGE: usize = 2 << 20;

/// Bytes that begin at a huge page. Fresh ones are zero, and take no memory until they are written.
#[derive(Debug)]
pub(super) struct Huge {
    start: NonNull<u8>,
    len: usize,
    /// What the kernel gave, `start` and more.
    mapped: NonNull<u8>,
}

// SAFETY: it owns its bytes, and gives them out as slices alone.
unsafe impl Send for Huge {}
// SAFETY: as above.
unsafe impl Sync for Huge {}

impl Huge {
    /// So many zeroes.
    ///
    /// # Panics
    /// If the kernel has no memory.
    pub(super) fn zeroed(len: usize) -> Self {
        let read_and_write = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where, so nothing that is there is replaced. Asking for huge pages changes no content, and refusal only
        // costs speed.
        unsafe {
            let mapped = mmap_anonymous(
                std::ptr::null_mut(),
                mapped_len(len),
                read_and_write,
                MapFlags::PRIVATE,
            )
            .expect("memory for a routing table");
            let start = mapped.byte_add(mapped.align_offset(HUGE_PAGE));
            let _refused = madvise(
                start,
                len.next_multiple_of(HUGE_PAGE),
                Advice::LinuxHugepage,
            );
            let not_null = "the kernel gave it";
            Self {
                start: NonNull::new(start.cast()).expect(not_null),
                len,
                mapped: NonNull::new(mapped.cast()).expect(not_null),
            }
        }
    }
}

/// Bytes of a mapping in which `len` bytes begin at a huge page and end with one.
fn mapped_len(len: usize) -> usize {
    len.next_multiple_of(HUGE_PAGE) + HUGE_PAGE
}

impl Drop for Huge {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody has any of it.
        let unmapped = unsafe { munmap(self.mapped.as_ptr().cast(), mapped_len(self.len)) };
        debug_assert!(unmapped.is_ok());
    }
}

impl Deref for Huge {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped from there, all of them initialised; who has the slice has `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Huge {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}
