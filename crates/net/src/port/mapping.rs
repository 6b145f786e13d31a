//! Memory by pages: of this process alone, or shared with the kernel through a file.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// Pages that are mapped until this is dropped. It gives away an address alone: whoever uses that says why nobody else does.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an address and a length; it reads and writes nothing itself.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed pages of this process's own; huge ones where the machine has them.
    pub(super) fn of_process(len: usize) -> io::Result<Self> {
        let mapping = Self::map(len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        // Advice: without huge pages everything works, with more misses in the table of pages.
        // SAFETY: pages that were just mapped.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        Ok(mapping)
    }

    /// Pages that are shared with the kernel, `offset` bytes behind the start of what `file` stands for.
    pub(super) fn of_file(file: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::map(len, flags, file.as_raw_fd(), offset)
    }

    fn map(len: usize, flags: i32, fd: i32, offset: u64) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// The address of the first byte, at the start of a page.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: pages that `map` has mapped, and that are unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
