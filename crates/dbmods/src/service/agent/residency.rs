//! How much of a file the kernel has in its page cache: what `fadvise(DONTNEED)` is asked to drop, and may keep.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uchar, c_void};
use std::fs::File;
use std::io;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of a file that are mapped at once: a multiple of every page size.
const WINDOW_BYTES: u64 = 256 << 20;

unsafe extern "C" {
    /// mincore(2), of the C library that `std` links.
    fn mincore(start: *mut c_void, len: usize, resident: *mut c_uchar) -> c_int;
}

/// A file's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// All of them.
    pub(crate) all: u64,
    /// Those in the page cache. If this user neither owns the file nor may write it, the kernel does not say and counts all.
    pub(crate) cached: u64,
}

impl Pages {
    /// Counts a file's pages.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        let mut pages = Self::default();
        let mut offset = 0;
        while offset < bytes {
            let len = (bytes - offset).min(WINDOW_BYTES);
            let resident = resident(file, offset, len as usize)?;
            pages.all += resident.len() as u64;
            // The other bits are reserved.
            pages.cached += resident.iter().filter(|&&page| page & 1 == 1).count() as u64;
            offset += len;
        }
        Ok(pages)
    }
}

/// A byte a page of this part of the file, the lowest bit set if the page is in the cache.
fn resident(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut resident = vec![0; len.div_ceil(rustix::param::page_size())];
    // Readable, though nobody reads it: emulators of user mode know nothing of pages without access.
    // SAFETY: a new mapping at no given address: nothing can refer to it.
    let start = unsafe {
        mmap(
            std::ptr::null_mut(),
            len,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            offset,
        )
    }?;
    // SAFETY: `start` is the mapping of `len` bytes made above, aligned to pages; `resident` has a byte for each of them.
    let told = match unsafe { mincore(start, len, resident.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the whole mapping made above, to which nothing refers.
    unsafe { munmap(start, len) }?;
    told.map(|()| resident)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    fn filled(mut file: File) -> File {
        file.write_all(&vec![7; 1_000_001]).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        file
    }

    #[test]
    fn pages_that_were_dropped_are_told_from_pages_that_were_read() {
        let program = std::env::current_exe().unwrap();
        let file = filled(tempfile::tempfile_in(program.parent().unwrap()).unwrap());
        let tmpfs = 0x0102_1994;
        if rustix::fs::fstatfs(&file).unwrap().f_type == tmpfs {
            println!("skipped: the build folder is in memory");
            return;
        }
        let all = 1_000_001u64.div_ceil(rustix::param::page_size() as u64);
        let dropped = Pages::of(&file).unwrap();
        assert_eq!(dropped.all, all);
        assert!(dropped.cached * 100 <= all, "{dropped:?}");
        let mut byte = [0];
        rustix::io::pread(&file, &mut byte, 500_000).unwrap();
        let some = Pages::of(&file).unwrap().cached;
        assert!((1..=all).contains(&some));
    }

    #[test]
    fn a_file_in_memory_cannot_be_dropped() {
        let file = match tempfile::tempfile_in("/dev/shm") {
            Ok(file) => filled(file),
            Err(missing) => {
                println!("skipped: /dev/shm: {missing}");
                return;
            }
        };
        let pages = Pages::of(&file).unwrap();
        assert_eq!(pages.cached, pages.all);
        assert!(pages.all > 0);
    }
}
