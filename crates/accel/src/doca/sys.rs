//! DOCA's functions as its libraries export them, looked up by name; written by hand from names, types and values.
//!
//! Two families that share symbol names but not prototypes: [`jobs`] up to 2.2, [`tasks`] from 2.5. What both have alike is
//! here. A table holds what works together: if one of its functions is missing, so is the table, and with it what needs it.
#![allow(unsafe_code)]

#[cfg(test)]
mod headers;
pub(super) mod jobs;
pub(super) mod tasks;

use std::ffi::{c_char, c_int, c_void};

use crate::library::{Library, NoSymbol};

/// `doca_error_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::doca) struct Code(pub(in crate::doca) c_int);

impl Code {
    pub(in crate::doca) const SUCCESS: Self = Self(0);
    pub(in crate::doca) const AGAIN: Self = Self(5);
    pub(in crate::doca) const INVALID_VALUE: Self = Self(6);
    pub(in crate::doca) const NO_MEMORY: Self = Self(7);
    pub(in crate::doca) const SHUTDOWN: Self = Self(10);
    pub(in crate::doca) const IO_FAILED: Self = Self(17);
    pub(in crate::doca) const BAD_STATE: Self = Self(18);
    pub(in crate::doca) const OPERATING_SYSTEM: Self = Self(20);
    pub(in crate::doca) const DRIVER: Self = Self(21);
    pub(in crate::doca) const FULL: Self = Self(24);
    pub(in crate::doca) const IN_PROGRESS: Self = Self(26);
    pub(in crate::doca) const TOO_BIG: Self = Self(27);
    /// A code of this crate's: a search found more than it reported.
    pub(in crate::doca) const MATCHES_LOST: Self = Self(-1);
    /// A code of this crate's: a search ended before its input did.
    pub(in crate::doca) const GIVEN_UP: Self = Self(-2);
    /// A code of this crate's: the matches of a search do not fit its slot.
    pub(in crate::doca) const NO_ROOM: Self = Self(-3);
}

/// `union doca_data`, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::doca) union Data {
    pub(in crate::doca) ptr: *mut c_void,
    pub(in crate::doca) u64: u64,
}

/// Types that only DOCA looks into.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* pub(in crate::doca) enum $name {})*
    };
}

pub(in crate::doca) use opaque;

opaque! {
    /// `struct doca_devinfo`.
    DevInfo;
    /// `struct doca_dev`.
    Dev;
    /// `struct doca_mmap`.
    Mmap;
    /// `struct doca_buf_inventory`.
    Inventory;
    /// `struct doca_buf`.
    Buf;
    /// `struct doca_ctx`.
    Ctx;
    /// `struct doca_dma`, `struct doca_sha` and so on: X in the names of functions.
    Engine;
}

/// `DOCA_ACCESS_FLAG_LOCAL_READ_WRITE`, up to 2.2 `DOCA_ACCESS_LOCAL_READ_WRITE`.
pub(in crate::doca) const ACCESS_LOCAL_READ_WRITE: u32 = 1;
/// Bytes of an InfiniBand device's name, its terminator included.
pub(in crate::doca) const IBDEV_NAME_BYTES: usize = 64;
/// Bytes of a PCI address as text, its terminator included.
pub(in crate::doca) const PCI_ADDRESS_BYTES: usize = 13;
/// The names of an engine and its task, which replace X and Y in the names of its functions.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::doca) struct SymbolNames {
    /// `sha`; its library is `libdoca_sha`.
    pub(in crate::doca) engine: &'static str,
    /// `hash`.
    pub(in crate::doca) task: &'static str,
}

impl SymbolNames {
    pub(in crate::doca) fn symbol(self, pattern: &str) -> String {
        pattern.replace('X', self.engine).replace('Y', self.task)
    }
}

/// A table of functions: each with its names, the newest first, and its type.
macro_rules! table {
    ($(#[$doc:meta])* $Table:ident {
        $($field:ident: [$($name:literal),+] fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(in crate::doca) struct $Table {
            $(pub(in crate::doca) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $Table {
            /// Names and types as they are written here, which a test compares with headers.
            #[cfg(test)]
            pub(in crate::doca) const DECLARED: &'static [(&'static [&'static str], &'static str)] = &[
                $((&[$($name),+], stringify!(fn($($argument),*) $(-> $result)?)),)*
            ];

            /// Looks all of them up.
            ///
            /// # Errors
            /// The functions that the library lacks.
            ///
            /// # Safety
            /// The library is DOCA's of that name, of the family that this table is for.
            pub(in crate::doca) unsafe fn load(
                library: &$crate::library::Library,
                of: $crate::doca::sys::SymbolNames,
            ) -> Result<Self, Vec<$crate::library::NoSymbol>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the caller vouches for the library, and with it for each of its functions' types.
                    let $field = unsafe { $crate::doca::sys::find(library, of, &[$($name),+], &mut missing) };
                )*
                match ($($field,)*) {
                    ($(Some($field),)*) => Ok(Self { $($field,)* }),
                    _ => Err(missing),
                }
            }
        }
    };
}
pub(in crate::doca) use table;

/// The function that has one of these names, or a note that it is missing.
///
/// # Safety
/// `F` is the type of a pointer to it.
pub(in crate::doca) unsafe fn find<F: Copy>(
    library: &Library,
    of: SymbolNames,
    patterns: &[&str],
    missing: &mut Vec<NoSymbol>,
) -> Option<F> {
    let names: Vec<String> = patterns.iter().map(|name| of.symbol(name)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // SAFETY: the caller vouches for the type.
    match unsafe { library.function(&names) } {
        Ok(function) => Some(function),
        Err(none) => {
            missing.push(none);
            None
        }
    }
}

table! {
    /// Devices, memory, buffers: alike in both families, under other names.
    Core {
        version_runtime: ["doca_version_runtime"] fn() -> *const c_char;
        error_name: ["doca_error_get_name", "doca_get_error_name"] fn(Code) -> *const c_char;
        error_text: ["doca_error_get_descr", "doca_get_error_string"] fn(Code) -> *const c_char;
        devinfo_create_list: ["doca_devinfo_create_list", "doca_devinfo_list_create"]
            fn(*mut *mut *mut DevInfo, *mut u32) -> Code;
        devinfo_destroy_list: ["doca_devinfo_destroy_list", "doca_devinfo_list_destroy"] fn(*mut *mut DevInfo) -> Code;
        devinfo_ibdev_name: ["doca_devinfo_get_ibdev_name"] fn(*const DevInfo, *mut c_char, u32) -> Code;
        devinfo_pci_address: ["doca_devinfo_get_pci_addr_str"] fn(*const DevInfo, *mut c_char) -> Code;
        dev_open: ["doca_dev_open"] fn(*mut DevInfo, *mut *mut Dev) -> Code;
        dev_close: ["doca_dev_close"] fn(*mut Dev) -> Code;
        dev_as_devinfo: ["doca_dev_as_devinfo"] fn(*const Dev) -> *mut DevInfo;
        mmap_destroy: ["doca_mmap_destroy"] fn(*mut Mmap) -> Code;
        mmap_start: ["doca_mmap_start"] fn(*mut Mmap) -> Code;
        mmap_stop: ["doca_mmap_stop"] fn(*mut Mmap) -> Code;
        mmap_add_dev: ["doca_mmap_add_dev", "doca_mmap_dev_add"] fn(*mut Mmap, *mut Dev) -> Code;
        mmap_set_permissions: ["doca_mmap_set_permissions"] fn(*mut Mmap, u32) -> Code;
        mmap_set_memrange: ["doca_mmap_set_memrange"] fn(*mut Mmap, *mut c_void, usize) -> Code;
        inventory_destroy: ["doca_buf_inventory_destroy"] fn(*mut Inventory) -> Code;
        inventory_start: ["doca_buf_inventory_start"] fn(*mut Inventory) -> Code;
        inventory_stop: ["doca_buf_inventory_stop"] fn(*mut Inventory) -> Code;
        buf_by_args: ["doca_buf_inventory_buf_get_by_args", "doca_buf_inventory_buf_by_args"]
            fn(*mut Inventory, *mut Mmap, *mut c_void, usize, *mut c_void, usize, *mut *mut Buf) -> Code;
        buf_release: ["doca_buf_dec_refcount", "doca_buf_refcount_rm"] fn(*mut Buf, *mut u16) -> Code;
        buf_data_len: ["doca_buf_get_data_len"] fn(*const Buf, *mut usize) -> Code;
        ctx_start: ["doca_ctx_start"] fn(*mut Ctx) -> Code;
        ctx_stop: ["doca_ctx_stop"] fn(*mut Ctx) -> Code;
    }
}

table! {
    /// Functions of every engine's library.
    Created {
        destroy: ["doca_X_destroy"] fn(*mut Engine) -> Code;
        as_ctx: ["doca_X_as_ctx"] fn(*mut Engine) -> *mut Ctx;
    }
}

table! {
    /// The function by which a stand-in is told from DOCA.
    StandIn {
        text: ["dpb_stand_in"] fn() -> *const c_char;
    }
}
