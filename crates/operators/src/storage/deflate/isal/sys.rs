//! The part of ISA-L's C API (`isa-l/igzip_lib.h`, `isa-l/crc.h`; versions 2.30 to 2.32) that dpb calls, declared by hand, and a table
//! of functions that is filled from a library found at run time. The only thing that this file does with `unsafe` is to load it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use libloading::Library;

pub(super) const COMP_OK: c_int = 0;
pub(super) const STATELESS_OVERFLOW: c_int = -1;
/// `NO_FLUSH`: the stream ends with the item.
pub(super) const NO_FLUSH: u16 = 0;
/// `IGZIP_DEFLATE`: no wrapper.
pub(super) const IGZIP_DEFLATE: u16 = 0;
/// Bytes of `level_buf` at the levels 0 to 3: `ISAL_DEF_LVLx_DEFAULT`.
pub(super) const LEVEL_BYTES: [u32; 4] = [0, 282_624, 331_776, 348_160];

/// `struct isal_zstream`. Whoever compiles against the header holds it by value, so a library of the same ABI version, 2, cannot
/// change it.
#[repr(C)]
pub(super) struct Stream {
    pub(super) next_in: *const u8,
    pub(super) avail_in: u32,
    pub(super) total_in: u32,
    pub(super) next_out: *mut u8,
    pub(super) avail_out: u32,
    pub(super) total_out: u32,
    /// Set by [`Functions::isal_deflate_stateless_init`].
    pub(super) hufftables: *const c_void,
    pub(super) level: u32,
    pub(super) level_buf_size: u32,
    pub(super) level_buf: *mut u8,
    pub(super) end_of_stream: u16,
    pub(super) flush: u16,
    pub(super) gzip_flag: u16,
    /// The window's logarithm; 0 is 15, the most.
    pub(super) hist_bits: u16,
    /// The library's own.
    pub(super) internal_state: [u64; 10_290],
}

/// The library's name with the version of its ABI, which the declarations here are of.
pub(super) const NAME: &str = "libisal.so.2";

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library, which stays loaded for as long as this lives.
        pub(super) struct Functions {
            $($(#[$doc])* pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: Library,
        }

        impl Functions {
            /// Looks the functions up in the library called [`NAME`].
            pub(super) fn load() -> Option<Self> {
                // SAFETY: the library has no initialisers; its name is of one that has nothing else there. Each function is declared
                // as in the headers, which have not changed within this version of the ABI.
                unsafe {
                    let library = Library::new(NAME).ok()?;
                    Some(Self {
                        $($name: *library.get(stringify!($name).as_bytes()).ok()?,)*
                        _library: library,
                    })
                }
            }
        }

        /// What C's compiler is to find true of the functions: that pointers of our types take them.
        #[cfg(test)]
        pub(super) const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];
    };
}

functions! {
    /// Sets everything but what `hist_bits` and the library's own state hold.
    isal_deflate_stateless_init: fn(*mut Stream);
    /// Compresses all that there is in one call.
    isal_deflate_stateless: fn(*mut Stream) -> c_int;
    /// Start, data, length. The start is 0.
    crc32_gzip_refl: fn(u32, *const u8, u64) -> u32;
    /// Start, data, length. The start is 1.
    isal_adler32: fn(u32, *const u8, u64) -> u32;
}
