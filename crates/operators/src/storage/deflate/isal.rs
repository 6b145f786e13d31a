//! The compressor of the library ISA-L (igzip), where it is installed.
#![allow(unsafe_code)]

mod sys;

use std::ptr::{null, null_mut};
use std::sync::LazyLock;

use dpb_core::{DeflateFormat, JobError};

use crate::storage::version_of_loaded;

/// The library, loaded: proof that it is there.
#[derive(Clone, Copy)]
pub struct IsaL(&'static sys::Functions);

/// One queue's stream and the memory that its level needs.
pub struct Encoder {
    library: IsaL,
    stream: Box<sys::Stream>,
    /// The stream's `level_buf`, of the number of bytes that its level wants.
    tables: Box<[u8]>,
    level: u8,
}

// SAFETY: the stream's pointers are set at the start of each call and mean nothing behind it; the library keeps no state of
// its own, and nothing in it belongs to a thread.
unsafe impl Send for Encoder {}

impl IsaL {
    /// The requirement, in words.
    pub const NEEDS: &'static str = "the library libisal.so.2 (Debian's libisal2)";
    /// The last of its levels.
    pub const LEVEL_MAX: u8 = 3;

    /// The library, if it is installed.
    pub fn detect() -> Option<Self> {
        static LIBRARY: LazyLock<Option<sys::Functions>> = LazyLock::new(|| {
            // Miri runs no code of others.
            (!cfg!(miri)).then(sys::Functions::load).flatten()
        });
        LIBRARY.as_ref().map(Self)
    }

    /// The version in the name of the file that was loaded: `2.0.30` of `libisal.so.2.0.30`, which is release 2.30.
    pub fn version() -> &'static str {
        static VERSION: LazyLock<String> = LazyLock::new(|| {
            let _ = IsaL::detect();
            version_of_loaded("libisal.so.")
        });
        &VERSION
    }

    fn check(self, format: DeflateFormat, plain: &[u8]) -> u32 {
        let (data, len) = (plain.as_ptr(), plain.len() as u64);
        // SAFETY: a pointer and a length of one slice, which the functions read.
        unsafe {
            match format {
                DeflateFormat::Raw => 0,
                DeflateFormat::Zlib => (self.0.isal_adler32)(1, data, len),
                DeflateFormat::Gzip => (self.0.crc32_gzip_refl)(0, data, len),
            }
        }
    }
}

impl Encoder {
    /// At `level` 1 to [`IsaL::LEVEL_MAX`].
    pub(super) fn new(library: IsaL, level: u8) -> Self {
        let stream = sys::Stream {
            next_in: null(),
            avail_in: 0,
            total_in: 0,
            next_out: null_mut(),
            avail_out: 0,
            total_out: 0,
            hufftables: null(),
            level: 0,
            level_buf_size: 0,
            level_buf: null_mut(),
            end_of_stream: 0,
            flush: sys::NO_FLUSH,
            gzip_flag: sys::IGZIP_DEFLATE,
            hist_bits: 0,
            internal_state: [0; _],
        };
        Self {
            library,
            stream: Box::new(stream),
            tables: vec![0; sys::LEVEL_BYTES[usize::from(level)] as usize].into(),
            level,
        }
    }

    /// What the wrapper of `format` says of `plain`: nothing, Adler-32 or CRC-32.
    pub(super) fn check(&self, format: DeflateFormat, plain: &[u8]) -> u32 {
        self.library.check(format, plain)
    }

    /// Writes one bare stream; says how long it is.
    pub(super) fn deflate(&mut self, plain: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
        let Self {
            library,
            stream,
            tables,
            level,
        } = self;
        // SAFETY: writes to a stream that is borrowed for the call.
        unsafe { (library.0.isal_deflate_stateless_init)(&raw mut **stream) };
        stream.level = u32::from(level_for(*level, plain.len()));
        stream.level_buf = tables.as_mut_ptr();
        stream.level_buf_size = tables.len() as u32;
        stream.end_of_stream = 1;
        stream.next_in = plain.as_ptr();
        stream.avail_in = u32::try_from(plain.len()).map_err(|_| JobError::TooLong)?;
        stream.next_out = slot.as_mut_ptr();
        // Nothing that it writes is longer.
        stream.avail_out = u32::try_from(slot.len()).unwrap_or(u32::MAX);
        // SAFETY: the stream was set up by the call above and names three slices with their lengths, none of which is touched by
        // others during the call: it reads the first, and writes to the other two.
        match unsafe { (library.0.isal_deflate_stateless)(&raw mut **stream) } {
            sys::COMP_OK => Ok(stream.total_out as usize),
            sys::STATELESS_OVERFLOW => Err(JobError::DstTooShort),
            error => Err(JobError::Device(error)),
        }
    }
}

/// The library's level for an item of `len` bytes. Its levels 1 and 2 differ in how far their tables reach, and compress up to 4 KiB
/// alike, the first faster.
fn level_for(level: u8, len: usize) -> u8 {
    match (level, len) {
        (2, ..=4096) => 1,
        _ => level,
    }
}

#[cfg(test)]
mod tests;
