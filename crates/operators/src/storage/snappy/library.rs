//! The encoder of the library Snappy, in C++ with an interface for C (`snappy-c.h`, 1.x), where it is installed.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::sync::LazyLock;

use dpb_core::JobError;
use libloading::Library;

use crate::storage::version_of_loaded;

/// The library, loaded: proof that it is there.
#[derive(Clone, Copy, Debug)]
pub struct LibSnappy(Compress);

/// `snappy_compress`: input, its length, output, its room, which becomes its length.
type Compress = unsafe extern "C" fn(*const c_char, usize, *mut c_char, *mut usize) -> c_int;

const SNAPPY_OK: c_int = 0;
const SNAPPY_BUFFER_TOO_SMALL: c_int = 2;

impl LibSnappy {
    /// The requirement, in words.
    pub const NEEDS: &'static str =
        "the library libsnappy.so.1 of version 1.2 or later (libsnappy1v5 of Debian 13)";

    /// The library, if it is installed and not older than 1.2: the crate snap is faster than 1.1.9. It stays loaded.
    pub fn detect() -> Option<Self> {
        static IS_NEW: LazyLock<bool> = LazyLock::new(|| is_new(LibSnappy::version()));
        Self::load().filter(|_| *IS_NEW)
    }

    /// The library, of whatever version.
    pub(super) fn load() -> Option<Self> {
        static LIBRARY: LazyLock<Option<(Compress, Library)>> = LazyLock::new(|| {
            if cfg!(miri) {
                return None;
            }
            // SAFETY: the library's initialisers are those of C++; its name is of one that has nothing else there. The function is
            // declared as in `snappy-c.h`, which has not changed within this version of the ABI.
            unsafe {
                let library = Library::new("libsnappy.so.1").ok()?;
                let compress = *library.get(b"snappy_compress").ok()?;
                Some((compress, library))
            }
        });
        LIBRARY.as_ref().map(|(compress, _)| Self(*compress))
    }

    /// The version in the name of the file that was loaded: `1.1.9` of `libsnappy.so.1.1.9`.
    pub fn version() -> &'static str {
        static VERSION: LazyLock<String> = LazyLock::new(|| {
            let _ = LibSnappy::load();
            version_of_loaded("libsnappy.so.")
        });
        &VERSION
    }

    /// Writes one stream; says how long it is.
    pub(super) fn encode(self, plain: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
        let mut len = slot.len();
        let (from, to) = (plain.as_ptr().cast(), slot.as_mut_ptr().cast());
        // SAFETY: two slices that do not overlap, with their lengths; the function reads the first, and writes to the second as much as
        // the place with its length says at most.
        match unsafe { (self.0)(from, plain.len(), to, &raw mut len) } {
            SNAPPY_OK => Ok(len),
            SNAPPY_BUFFER_TOO_SMALL => Err(JobError::DstTooShort),
            error => Err(JobError::Device(error)),
        }
    }
}

/// True if a version is 1.2 or later.
fn is_new(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    matches!((parts.next(), parts.next()), (Some(Ok(1)), Some(Ok(2..))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        let is = ["1.1.9", "1.2.1", "1.10.0", "2.0.0", "of unknown version"].map(is_new);
        assert_eq!(is, [false, true, true, false, false]);
    }
}
