//! The part of Hyperscan's C API (`hs.h`, 5.x) that dpb calls, declared by hand: types, constants, and a table of functions
//! that is filled from a library found at run time. Vectorscan exports the same. The only thing that this file does with
//! `unsafe` is to load it.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use libloading::Library;

/// `hs_database_t`.
pub(super) type Database = c_void;
/// `hs_scratch_t`.
pub(super) type Scratch = c_void;
/// `match_event_handler`: id, start, end, flags, context.
pub(super) type OnMatch =
    extern "C" fn(c_uint, c_ulonglong, c_ulonglong, c_uint, *mut c_void) -> c_int;

/// `hs_compile_error_t`.
#[repr(C)]
pub(super) struct CompileError {
    pub(super) message: *const c_char,
    /// The expression's number; negative if it is nobody's fault.
    pub(super) expression: c_int,
}

pub(super) const HS_SUCCESS: c_int = 0;
pub(super) const HS_NOMEM: c_int = -2;
pub(super) const HS_MODE_BLOCK: c_uint = 1;
pub(super) const HS_FLAG_DOTALL: c_uint = 2;
pub(super) const HS_FLAG_SINGLEMATCH: c_uint = 8;
pub(super) const HS_FLAG_ALLOWEMPTY: c_uint = 16;

/// Debian's name for both libraries, and what a developer's package adds.
const NAMES: [&str; 2] = ["libhs.so.5", "libhs.so"];

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of the library, which stays loaded for as long as this lives.
        pub(super) struct Functions {
            $($(#[$doc])* pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            _library: Library,
        }

        impl Functions {
            /// Looks the functions up in the library of one of [`NAMES`].
            pub(super) fn load() -> Option<Self> {
                NAMES.iter().find_map(|name| {
                    // SAFETY: the library runs initialisers of its own when it is loaded, as it would if it were linked
                    // in; its names are of one that has nothing else there. Each function is declared as in `hs.h`, which
                    // has not changed within 5.x.
                    unsafe {
                        let library = Library::new(*name).ok()?;
                        Some(Self {
                            $($name: *library.get(stringify!($name).as_bytes()).ok()?,)*
                            _library: library,
                        })
                    }
                })
            }
        }
    };
}

functions! {
    /// Version and date.
    hs_version: fn() -> *const c_char;
    /// Whether this CPU is one that the library runs on.
    hs_valid_platform: fn() -> c_int;
    /// Expressions, their flags, their ids, how many, mode, platform, where the database and an error go.
    hs_compile_multi: fn(
        *const *const c_char, *const c_uint, *const c_uint, c_uint, c_uint, *const c_void,
        *mut *mut Database, *mut *mut CompileError
    ) -> c_int;
    /// Ends an error.
    hs_free_compile_error: fn(*mut CompileError) -> c_int;
    /// Ends a database.
    hs_free_database: fn(*mut Database) -> c_int;
    /// Room for scanning with a database, one call at a time.
    hs_alloc_scratch: fn(*const Database, *mut *mut Scratch) -> c_int;
    /// Makes as much room again.
    hs_clone_scratch: fn(*const Scratch, *mut *mut Scratch) -> c_int;
    /// Ends it.
    hs_free_scratch: fn(*mut Scratch) -> c_int;
    /// Database, payload, its length, no flags, room, what to call for each match, and with what.
    hs_scan: fn(
        *const Database, *const c_char, c_uint, c_uint, *mut Scratch, OnMatch, *mut c_void
    ) -> c_int;
}
