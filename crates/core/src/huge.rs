//! Memory that asks for huge pages: random reads of small pages miss the TLB, and have 0.7 times the speed.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const HUGE_PAGE: usize = 2 << 20;

/// A slice that begins at a huge page, of a length that never changes. The kernel may have none: then it is as other memory is.
pub struct Huge<T = u8> {
    start: NonNull<T>,
    len: usize,
    /// What the kernel gave, `start` and more.
    mapped: NonNull<u8>,
    of: PhantomData<T>,
}

// SAFETY: it owns its items, and gives them out by references alone.
unsafe impl<T: Send> Send for Huge<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Huge<T> {}

impl Huge<u8> {
    /// So many zeroes, which take no memory until they are written.
    ///
    /// # Panics
    /// If the kernel gives none.
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).expect("memory for a table")
    }

    /// As [`Huge::zeroed`]; `None` if the kernel gives none.
    pub fn try_zeroed(len: usize) -> Option<Self> {
        let (start, mapped) = map(len)?;
        Some(Self {
            start,
            len,
            mapped,
            of: PhantomData,
        })
    }
}

impl<T: Copy> Huge<T> {
    /// So many copies of `value`, all of whose memory is there at once; `None` if the kernel gives none.
    ///
    /// # Panics
    /// If `T` has to lie at multiples of more than a huge page.
    pub fn filled(value: T, len: usize) -> Option<Self> {
        assert!(align_of::<T>() <= HUGE_PAGE, "no place for such a type");
        let (start, mapped) = map(len.checked_mul(size_of::<T>())?)?;
        let start = start.cast::<T>();
        for i in 0..len {
            // SAFETY: so many items are mapped from there, aligned to a huge page, and nobody else has them.
            unsafe { start.add(i).write(value) };
        }
        Some(Self {
            start,
            len,
            mapped,
            of: PhantomData,
        })
    }
}

/// Maps `len` bytes that begin at a huge page: where they are, and where the mapping is.
fn map(len: usize) -> Option<(NonNull<u8>, NonNull<u8>)> {
    let read_and_write = ProtFlags::READ | ProtFlags::WRITE;
    let mapped_len = mapped_len(len)?;
    // SAFETY: the kernel chooses where, so nothing that is there is replaced. Asking for huge pages changes no content, and refusal only
    // costs speed.
    unsafe {
        let mapped = mmap_anonymous(
            std::ptr::null_mut(),
            mapped_len,
            read_and_write,
            MapFlags::PRIVATE,
        );
        let mapped = mapped.ok()?;
        let start = mapped.byte_add(mapped.align_offset(HUGE_PAGE));
        // Of less than a page half and more would be given away.
        if len >= HUGE_PAGE / 2 {
            let _refused = madvise(
                start,
                len.next_multiple_of(HUGE_PAGE),
                Advice::LinuxHugepage,
            );
        }
        Some((NonNull::new(start.cast())?, NonNull::new(mapped.cast())?))
    }
}

/// Bytes of a mapping in which `len` bytes begin at a huge page and end with one.
fn mapped_len(len: usize) -> Option<usize> {
    (len.checked_next_multiple_of(HUGE_PAGE)?).checked_add(HUGE_PAGE)
}

impl<T> Drop for Huge<T> {
    fn drop(&mut self) {
        // Items need no drop: they are `Copy`.
        let mapped_len = mapped_len(self.len * size_of::<T>()).expect("it was mapped");
        // SAFETY: it was mapped with this length, and nobody has any of it.
        let unmapped = unsafe { munmap(self.mapped.as_ptr().cast(), mapped_len) };
        debug_assert!(unmapped.is_ok());
    }
}

impl<T> Deref for Huge<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: so many items are mapped from there, all of them initialised; who has the slice has `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Huge<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> fmt::Debug for Huge<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.len * size_of::<T>();
        write!(f, "Huge({} items, {bytes} bytes)", self.len)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn items_begin_at_a_huge_page_and_are_there() {
        for len in [0, 1, 1000, HUGE_PAGE / 16, HUGE_PAGE / 16 + 1] {
            let mut items = Huge::filled([len as u64, 7], len).expect("memory");
            assert_eq!(items.as_ptr().addr() % HUGE_PAGE, 0);
            assert_eq!(items.len(), len);
            assert!(items.iter().all(|item| *item == [len as u64, 7]));
            if let Some(last) = items.last_mut() {
                *last = [0, 0];
                assert_eq!(items[len - 1], [0, 0]);
            }
        }
        let zeroes = Huge::zeroed(3 * HUGE_PAGE + 5);
        assert_eq!(zeroes.len(), 3 * HUGE_PAGE + 5);
        assert!(zeroes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn more_than_there_is_is_none() {
        assert!(Huge::filled(0u8, usize::MAX).is_none());
        assert!(Huge::filled([0u64; 8], usize::MAX / 2).is_none());
        assert!(Huge::filled([0u64; 8], 1 << 57).is_none());
    }
}
