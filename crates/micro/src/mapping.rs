//! Memory from the kernel by pages: of the size that was asked for, zeroed, and with word of what the kernel really gave.
#![allow(unsafe_code)]

use std::fs;
use std::ptr::{NonNull, null_mut};
use std::slice;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A huge page of the usual size, on x86-64 and on 64-bit Arm with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// The pages that memory lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// The machine's ordinary ones.
    Normal,
    /// Huge ones: reserved ones (`MAP_HUGETLB`), else those that the kernel puts together (`MADV_HUGEPAGE`).
    Huge,
}

/// Memory of this process's own, aligned to 2 MiB.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// What was mapped, with inaccessible memory around what is used, so that the kernel joins it with no other.
    whole: (NonNull<u8>, usize),
    is_reserved_huge: bool,
}

// SAFETY: the mapping is this value's alone.
unsafe impl Send for Mapping {}

impl Mapping {
    /// `len` bytes of zeros. The pages come when they are touched first.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn new(len: usize, pages: Pages) -> Result<Self, String> {
        let rounded = len.max(1).checked_next_multiple_of(HUGE_PAGE);
        let rounded = rounded.ok_or_else(|| format!("{len} bytes are too many"))?;
        if pages == Pages::Huge
            && let Some(mapping) = Self::reserved_huge(len, rounded)
        {
            return Ok(mapping);
        }
        let failed = |error| format!("cannot map {len} bytes: {error}");
        // One more behind and before, whatever the alignment.
        let reserved = rounded + 2 * HUGE_PAGE;
        // SAFETY: a new mapping at an address that the kernel chooses; nobody may touch it yet.
        let whole = unsafe {
            mmap_anonymous(
                null_mut(),
                reserved,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let whole = NonNull::new(whole.map_err(failed)?.cast::<u8>()).ok_or("mapped at null")?;
        let before = HUGE_PAGE - whole.as_ptr().addr() % HUGE_PAGE;
        // SAFETY: `before` is at most a huge page, and there are two more than `rounded`.
        let start = unsafe { whole.add(before) };
        let mapping = Self {
            start,
            len,
            whole: (whole, reserved),
            is_reserved_huge: false,
        };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: over a part of the mapping just made, which nobody has seen.
        let used = unsafe { mmap_anonymous(start.as_ptr().cast(), rounded, protection, flags) };
        used.map_err(failed)?;
        let advice = match pages {
            Pages::Normal => Advice::LinuxNoHugepage,
            Pages::Huge => Advice::LinuxHugepage,
        };
        // A kernel without huge pages refuses; what came of it is asked later.
        // SAFETY: the mapping is this value's, and the advice changes no content.
        let _ = unsafe { madvise(start.as_ptr().cast(), rounded, advice) };
        Ok(mapping)
    }

    /// From the pool of huge pages that the machine's owner has reserved, if it has enough.
    fn reserved_huge(len: usize, rounded: usize) -> Option<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // Populated, because a pool that runs dry would end the process at the first touch.
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(null_mut(), rounded, protection, flags) }.ok()?;
        let start = NonNull::new(start.cast::<u8>())?;
        Some(Self {
            start,
            len,
            whole: (start, rounded),
            is_reserved_huge: true,
        })
    }

    /// The bytes in huge pages now, at most [`Mapping::new`]'s `len`: what `/proc/self/smaps` says. `None` if it does not.
    pub(crate) fn huge_bytes(&self) -> Option<u64> {
        if self.is_reserved_huge {
            return Some(self.len as u64);
        }
        let smaps = fs::read_to_string("/proc/self/smaps").ok()?;
        huge_bytes_in(&smaps, self.start.as_ptr().addr()).map(|bytes| bytes.min(self.len as u64))
    }

    /// As bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes that are mapped for reading and writing, zeroed by the kernel, and borrowed through `self`.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// As words; what does not fill one is left out.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as for bytes; the start is aligned to a page, and any bits are a word.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 8) }
    }

    /// As numbers; what does not fill one is left out.
    pub(crate) fn floats_mut(&mut self) -> &mut [f64] {
        // SAFETY: as for bytes; the start is aligned to a page, and any bits are a number.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 8) }
    }

    /// The address, for the kernel, which writes there while no reference into the mapping lives.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (start, len) = self.whole;
        // SAFETY: mapped by `new`, and no borrow of it outlives this value.
        let _ = unsafe { munmap(start.as_ptr().cast(), len) };
    }
}

/// The bytes in huge pages of the mapping that starts at `start`.
fn huge_bytes_in(smaps: &str, start: usize) -> Option<u64> {
    let head = format!("{start:x}-");
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&head));
    lines.next()?;
    let of_it = lines.take_while(|line| {
        let first = line.split_whitespace().next().unwrap_or_default();
        first.ends_with(':')
    });
    let line = of_it
        .into_iter()
        .find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_aligned_and_of_its_size() {
        for pages in [Pages::Normal, Pages::Huge] {
            let mut mapping = Mapping::new(5000, pages).expect("mapped");
            assert_eq!(mapping.as_ptr().addr() % 4096, 0);
            assert!(mapping.bytes_mut().iter().all(|&byte| byte == 0));
            assert_eq!(
                (mapping.bytes_mut().len(), mapping.words_mut().len()),
                (5000, 625)
            );
            mapping.floats_mut().fill(1.0);
            assert_eq!(mapping.words_mut()[624], 1.0f64.to_bits());
        }
        assert!(Mapping::new(usize::MAX, Pages::Normal).is_err());
    }

    #[test]
    fn normal_pages_are_not_huge() {
        let mut mapping = Mapping::new(8 << 20, Pages::Normal).expect("mapped");
        mapping.words_mut().fill(1);
        assert_eq!(mapping.huge_bytes(), Some(0));
    }

    #[test]
    fn the_kernel_says_how_much_is_huge() {
        let smaps = "7f00-7fff rw-p 0 00:00 0 \nSize: 4 kB\nAnonHugePages:      0 kB\n\
                     200000-a00000 rw-p 00000000 00:00 0 \nSize:               8192 kB\nAnonHugePages:      6144 kB\n\
                     VmFlags: rd wr mr\nb000-c000 r--p 0 00:00 0 \nAnonHugePages:      2048 kB\n";
        assert_eq!(huge_bytes_in(smaps, 0x20_0000), Some(6144 * 1024));
        assert_eq!(huge_bytes_in(smaps, 0x7f00), Some(0));
        assert_eq!(huge_bytes_in(smaps, 0x1234), None);
    }
}
