//! The shim's table, as `native/dpdk/shim.h` declares it, and how it is found.
#![allow(unsafe_code)]

pub(super) mod libraries;

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};

use crate::library::Library;

/// Most operations of one call.
pub(super) const BURST: usize = 64;
/// Most bytes of an mbuf's buffer.
pub(super) const SEGMENT: usize = 65535;
/// Bytes of a name, the closing zero included.
const NAME: usize = 64;
/// The ABI of the table.
const ABI: u32 = 6;
/// The shim that was built with this program, as bytes of it: no folder that somebody else may write to is loaded from, and a copy
/// of the program has it wherever that runs. Empty where none could be built.
const BUILT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libdpb_dpdk.so"));
/// Names a shim to take instead.
const VARIABLE: &str = "DPB_DPDK_SHIM";
const MFD_CLOEXEC: c_uint = 1;

unsafe extern "C" {
    /// The C library's.
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Device {
    name: [c_char; NAME],
    driver: [c_char; NAME],
    pub(super) id: u32,
    pub(super) queue_pairs_max: u32,
    pub(super) is_hardware: u32,
    pub(super) is_deflate: u32,
    pub(super) is_chained: u32,
    pub(super) checksums: u32,
}

/// An algorithm of crypto devices.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    AesGcm,
    AesCtr,
    AesCbc,
    AesXts,
    Md5,
    Sha1,
    Sha256,
    Sha512,
    HmacMd5,
    HmacSha1,
    HmacSha256,
    HmacSha512,
}

/// Lengths in bytes: from `min` in steps to `max`, or `min` alone without a step.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u16,
    pub(super) max: u16,
    pub(super) step: u16,
}

/// The lengths that a device takes for an algorithm.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    pub(super) key: Range,
    pub(super) iv: Range,
    pub(super) digest: Range,
    pub(super) aad: Range,
}

#[repr(C)]
pub(super) struct Cipher {
    pub(super) algorithm: u32,
    pub(super) decrypts: u32,
    pub(super) key: *const u8,
    pub(super) key_len: u16,
    pub(super) iv_len: u16,
    pub(super) digest_len: u16,
    pub(super) aad_len: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Codec {
    pub(super) decompresses: u32,
    pub(super) level: u32,
    pub(super) checksum: u32,
    pub(super) guard: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) src: *const u8,
    pub(super) dst: *mut u8,
    pub(super) iv: *const u8,
    pub(super) aad: *const u8,
    pub(super) digest: *mut u8,
    pub(super) session: *mut c_void,
    pub(super) user: u64,
    pub(super) item_step: u64,
    pub(super) slot_step: u64,
    pub(super) digest_step: u64,
    pub(super) src_len: u32,
    pub(super) dst_len: u32,
    pub(super) n: u32,
    pub(super) unused: u32,
}

pub(super) const DONE: u32 = 0;
pub(super) const MALFORMED: u32 = 1;
pub(super) const FULL: u32 = 2;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) user: u64,
    pub(super) verdict: u32,
    pub(super) status: i32,
    pub(super) consumed: u32,
    pub(super) produced: u32,
    pub(super) checksum: u32,
    pub(super) n: u32,
}

/// A queue of the shim's; it is only pointed at.
#[repr(C)]
pub(super) struct CryptoQueue {
    _private: [u8; 0],
}

/// A queue of the shim's, likewise.
#[repr(C)]
pub(super) struct CompressQueue {
    _private: [u8; 0],
}

#[repr(C)]
pub(super) struct Table {
    abi: u32,
    size: u32,
    pub(super) version: unsafe extern "C" fn() -> *const c_char,
    pub(super) eal_init: unsafe extern "C" fn(c_int, *mut *mut c_char) -> c_int,
    pub(super) error_text: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(super) crypto_status: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(super) compress_status: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(super) device_add: unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
    pub(super) memory_take: unsafe extern "C" fn(usize) -> *mut c_void,
    pub(super) memory_give: unsafe extern "C" fn(*mut c_void),
    pub(super) crypto_devices: unsafe extern "C" fn(*mut Device, u32) -> u32,
    pub(super) crypto_ranges: unsafe extern "C" fn(u32, u32, *mut Ranges) -> c_int,
    pub(super) crypto_start: unsafe extern "C" fn(u32, u32, u32, u32) -> c_int,
    pub(super) crypto_session: unsafe extern "C" fn(u32, *const Cipher, *mut *mut c_void) -> c_int,
    pub(super) crypto_session_free: unsafe extern "C" fn(u32, *mut c_void),
    pub(super) crypto_open: unsafe extern "C" fn(u32, u32, u32, *mut *mut CryptoQueue) -> c_int,
    pub(super) crypto_bind: unsafe extern "C" fn(*mut CryptoQueue, *const Cipher, *mut c_void),
    pub(super) crypto_submit: unsafe extern "C" fn(*mut CryptoQueue, *const Run, u32) -> u32,
    pub(super) crypto_poll: unsafe extern "C" fn(*mut CryptoQueue, *mut Done, u32) -> u32,
    pub(super) compress_devices: unsafe extern "C" fn(*mut Device, u32) -> u32,
    pub(super) compress_start: unsafe extern "C" fn(u32, u32, u32) -> c_int,
    pub(super) compress_open:
        unsafe extern "C" fn(u32, u32, u32, u32, *mut *mut CompressQueue) -> c_int,
    pub(super) compress_bind: unsafe extern "C" fn(*mut CompressQueue, *const Codec) -> c_int,
    pub(super) compress_submit: unsafe extern "C" fn(*mut CompressQueue, *const Run, u32) -> u32,
    pub(super) compress_poll: unsafe extern "C" fn(*mut CompressQueue, *mut Done, u32) -> u32,
    pub(super) compress_unbind: unsafe extern "C" fn(*mut CompressQueue),
    pub(super) ports: unsafe extern "C" fn(*mut Device, u32) -> u32,
    pub(super) port_start: unsafe extern "C" fn(u32, u32, u32) -> c_int,
    pub(super) port_stop: unsafe extern "C" fn(u32) -> c_int,
    pub(super) port_take: unsafe extern "C" fn(u32, *mut *mut c_void, u32) -> u32,
    pub(super) port_receive: unsafe extern "C" fn(u32, *mut *mut c_void, *mut u32, u32) -> u32,
    pub(super) port_send: unsafe extern "C" fn(u32, *const *mut c_void, *const u32, u32) -> u32,
    pub(super) packet_give: unsafe extern "C" fn(*mut c_void),
    pub(super) libraries: unsafe extern "C" fn(u32) -> *const libraries::Libraries,
    pub(super) port_losses: unsafe extern "C" fn(u32, *mut PortLosses) -> c_int,
}

/// Packets that came and did not arrive, by the reason.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortLosses {
    pub(super) queue_full: u64,
    pub(super) no_memory: u64,
    pub(super) too_long: u64,
    pub(super) errors: u64,
}

// As the C compiler has them.
const _: () = assert!(size_of::<Device>() == 152 && size_of::<Ranges>() == 24);
const _: () = assert!(size_of::<Cipher>() == 24 && size_of::<Codec>() == 16);
const _: () = assert!(size_of::<Run>() == 96 && size_of::<Done>() == 32);

impl Device {
    pub(super) const EMPTY: Self = Self {
        name: [0; NAME],
        driver: [0; NAME],
        id: 0,
        queue_pairs_max: 0,
        is_hardware: 0,
        is_deflate: 0,
        is_chained: 0,
        checksums: 0,
    };

    pub(super) fn name(&self) -> String {
        text_of(&self.name)
    }

    pub(super) fn driver(&self) -> String {
        text_of(&self.driver)
    }
}

fn text_of(name: &[c_char; NAME]) -> String {
    let bytes = name.iter().map(|&c| c as u8).take_while(|&c| c != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// A shim that was loaded.
pub(super) struct Shim {
    pub(super) table: &'static Table,
    /// The origin of the shim, in words.
    pub(super) origin: String,
}

impl Shim {
    /// Loads the shim, and with it DPDK's libraries: the one that the environment names, else the one in this program.
    ///
    /// # Errors
    /// What was tried, or why there is nothing to try.
    pub(super) fn load() -> Result<Self, String> {
        let (library, origin) = match std::env::var_os(VARIABLE) {
            Some(path) => (open(&path)?, path.to_string_lossy().into_owned()),
            None => (built()?, "the shim in this program".to_owned()),
        };
        // SAFETY: as `shim.h` declares it.
        let table: unsafe extern "C" fn() -> *const Table =
            unsafe { library.function(&["dpb_dpdk_shim"]) }
                .map_err(|missing| missing.to_string())?;
        // SAFETY: the shim gives the address of a static table, whose first two words every ABI of it has. The rest is
        // looked at only if it is of this ABI and as long.
        let table = unsafe {
            let table = table();
            let (abi, size) = ((*table).abi, (*table).size);
            if abi != ABI || (size as usize) < size_of::<Table>() {
                return Err(format!(
                    "{origin} has table {abi} of {size} bytes, and this program needs table {ABI} of {}: it is of another \
                     build",
                    size_of::<Table>()
                ));
            }
            &*table
        };
        Ok(Self { table, origin })
    }

    /// DPDK's words for an error of its own, negative as functions give it.
    pub(super) fn error(&self, error: c_int) -> String {
        // SAFETY: DPDK gives text that ends in a zero; this thread's own until it asks again.
        text(unsafe { (self.table.error_text)(-error) })
    }

    /// DPDK's words for a device's status.
    pub(super) fn crypto_status(&self, status: i32) -> String {
        // SAFETY: static text.
        text(unsafe { (self.table.crypto_status)(status) })
    }

    /// DPDK's words for a device's status.
    pub(super) fn compress_status(&self, status: i32) -> String {
        // SAFETY: static text.
        text(unsafe { (self.table.compress_status)(status) })
    }

    /// `DPDK 22.11.11`.
    pub(super) fn version(&self) -> String {
        // SAFETY: static text.
        text(unsafe { (self.table.version)() })
    }
}

/// Text that ends in a zero, from the shim.
fn text(text: *const c_char) -> String {
    // SAFETY: every function of the table that gives text gives such, and none gives null.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// The shim in this program, through a file that exists in memory alone.
fn built() -> Result<Library, String> {
    if BUILT.is_empty() {
        let why = option_env!("DPB_DPDK_SHIM_ABSENT").unwrap_or_default();
        return Err(format!("built without the shim over DPDK: {why}"));
    }
    // SAFETY: the name ends in a zero.
    let file = match unsafe { memfd_create(c"libdpb_dpdk.so".as_ptr(), MFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: a new descriptor, and nobody else's.
        file => Ok(unsafe { File::from_raw_fd(file) }),
    };
    let file = file.and_then(|mut file| file.write_all(BUILT).map(|()| file));
    let file = file.map_err(|error| format!("no memory for the shim over DPDK: {error}"))?;
    // What is loaded stays mapped when the file is closed.
    open(format!("/proc/self/fd/{}", file.as_raw_fd()).as_ref())
}

fn open(path: &OsStr) -> Result<Library, String> {
    // SAFETY: a shim is this project's own; its initialisers are of DPDK's headers and look at the CPU, those of DPDK's
    // libraries only register drivers and log types.
    unsafe { Library::open(&[path]) }.map_err(|missing| missing.to_string())
}
