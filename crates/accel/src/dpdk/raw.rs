//! DPDK's environment and memory, behind types whose construction proves what they need. What the devices do is in
//! `raw/`: `queue.rs` owns jobs while a device works on them (`operation.rs`, `flight.rs`, `burst.rs`), `pmd.rs` is a device, `crypto.rs` and `compress.rs` the two kinds of
//! them; `port.rs` is network devices; `libraries.rs`, `routes.rs`, `flows.rs` and `pieces.rs` are DPDK's own libraries.
#![allow(unsafe_code)]

mod burst;
mod cipher;
mod compress;
mod crypto;
mod flight;
mod flows;
mod libraries;
mod operation;
mod pieces;
mod pmd;
mod port;
mod queue;
mod routes;

use std::alloc::Layout;
use std::ffi::{CString, c_char, c_int};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dpb_core::{Buf, Region, SetupError, Unsupported, buf};

pub(super) use cipher::Cipher;
pub(super) use compress::{Check, Coding, CompressDevice, Guard};
pub(super) use crypto::{CryptoDevice, Session};
pub(super) use flight::Over;
pub(super) use flows::{Flows, Received};
pub(super) use libraries::{Hash, Libraries, Sum, Tuples};
pub(super) use operation::{Digest, End, Iv, Operation, Recipe, Step};
pub(super) use pieces::{Pieces, Work};
pub(super) use port::Port;
pub(super) use queue::OperationQueue;
pub(super) use routes::{Routes, Size};

use super::sys::{self, Shim};

/// DPDK's environment abstraction layer, initialised: once in a process, and for as long as it lasts.
pub(super) struct Eal {
    shim: Shim,
    /// The arguments that EAL was started with.
    pub(super) arguments: Vec<String>,
    /// Whether EAL has huge pages, and with them hardware.
    pub(super) has_huge_pages: bool,
    memory: Arc<Memory>,
    /// DPDK's functions that change devices, sessions and pools are for one thread at a time.
    control: Mutex<()>,
}

/// Memory that every device of this process can reach.
pub(super) struct Memory {
    /// The shim's, if it is DPDK's heap of huge pages; else the program's heap, as there are only devices of software.
    eal: Option<&'static sys::Table>,
}

/// Bytes behind each buffer that may be read and are nobody's: devices read a little more than they are told.
const BEHIND: usize = 64;

impl Eal {
    /// Loads the shim and starts the environment at the first call; the same answer from then on.
    ///
    /// # Errors
    /// What is missing for it.
    pub(super) fn start() -> Result<&'static Self, Unsupported> {
        static EAL: OnceLock<Result<Eal, String>> = OnceLock::new();
        let started = EAL.get_or_init(Self::new).as_ref();
        started.map_err(|reason| Unsupported {
            reason: reason.clone(),
        })
    }

    fn new() -> Result<Self, String> {
        let shim = Shim::load()?;
        let has_huge_pages = super::environment::has_huge_pages();
        let arguments = super::environment::arguments(has_huge_pages);
        let table = shim.table;
        let owned: Vec<CString> = arguments
            .iter()
            .map(|argument| CString::new(argument.as_str()))
            .collect::<Result<_, _>>()
            .map_err(|_| "an argument for EAL holds a zero byte".to_owned())?;
        // On a thread of its own: EAL pins the thread that starts it to a core, and takes what that thread may run on
        // for what its own threads may.
        let start = move || {
            // EAL keeps pointers into the strings.
            static ARGUMENTS: OnceLock<Vec<CString>> = OnceLock::new();
            let arguments = ARGUMENTS.get_or_init(|| owned).iter();
            let mut pointers: Vec<_> = arguments.map(|text| text.as_ptr().cast_mut()).collect();
            let count = pointers.len() as c_int;
            pointers.push(std::ptr::null_mut());
            // And it may keep the array, which it reorders.
            static ARRAY: AtomicPtr<*mut c_char> = AtomicPtr::new(std::ptr::null_mut());
            let array = pointers.leak().as_mut_ptr();
            ARRAY.store(array, Ordering::Relaxed);
            // A store that nothing reads is optimised away, and to LeakSanitizer the array is then lost.
            std::hint::black_box(&ARRAY);
            // SAFETY: `count` strings, each with its zero, and a null behind them, all of which stay for ever. `OnceLock`
            // lets one thread of the process in here, once.
            unsafe { (table.eal_init)(count, array) }
        };
        let thread = std::thread::Builder::new().name("dpdk-main".to_owned());
        let started = thread.spawn(start).map_err(|error| error.to_string())?;
        let result = started.join().map_err(|_| "EAL panicked".to_owned())?;
        if result != 0 {
            return Err(format!(
                "DPDK's EAL does not start with `{}`: {}",
                arguments.join(" "),
                shim.error(result)
            ));
        }
        Ok(Self {
            memory: Arc::new(Memory {
                eal: has_huge_pages.then_some(table),
            }),
            shim,
            arguments,
            has_huge_pages,
            control: Mutex::new(()),
        })
    }

    /// The origin of the shim, in words.
    pub(super) fn shim_origin(&self) -> &str {
        &self.shim.origin
    }

    /// `DPDK 22.11.11`.
    pub(super) fn version(&self) -> String {
        self.shim.version()
    }

    /// A crypto device's code in a [`JobError::Device`](dpb_core::JobError::Device), in words.
    pub(super) fn crypto_status(&self, status: i32) -> String {
        self.shim.crypto_status(status)
    }

    /// A compress device's code, in words.
    pub(super) fn compress_status(&self, status: i32) -> String {
        self.shim.compress_status(status)
    }

    /// DPDK's words for an error of its own, negative as functions give it.
    pub(super) fn error(&self, error: i32) -> String {
        self.shim.error(error)
    }

    /// The memory that jobs for its devices lie in.
    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Adds a device of software.
    ///
    /// # Errors
    /// No driver takes that name, or the driver refuses.
    pub(super) fn add_device(&self, name: &str, arguments: &str) -> Result<(), Unsupported> {
        let unsupported = |reason| Unsupported { reason };
        let texts = (CString::new(name), CString::new(arguments));
        let (Ok(name_text), Ok(arguments)) = texts else {
            return Err(unsupported("a device's name holds no zero byte".to_owned()));
        };
        let _control = self.control();
        // SAFETY: two strings with their zeros; EAL runs, as `self` shows, and no other thread changes devices.
        let result =
            unsafe { (self.shim.table.device_add)(name_text.as_ptr(), arguments.as_ptr()) };
        match result {
            0.. => Ok(()),
            error => Err(unsupported(format!(
                "DPDK has no device `{name}` here: {}",
                self.shim.error(error)
            ))),
        }
    }

    /// The devices that one of the shim's lists gives.
    fn devices(
        &self,
        list: unsafe extern "C" fn(*mut sys::Device, u32) -> u32,
    ) -> Vec<sys::Device> {
        let mut devices = vec![sys::Device::EMPTY; 256];
        let _control = self.control();
        // SAFETY: room for as many as are said; EAL runs, and no other thread changes devices.
        let found = unsafe { list(devices.as_mut_ptr(), devices.len() as u32) };
        devices.truncate(found as usize);
        devices
    }

    fn table(&self) -> &'static sys::Table {
        self.shim.table
    }

    fn control(&self) -> MutexGuard<'_, ()> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// Zeroed memory that every device of this process can reach.
    ///
    /// # Errors
    /// [`SetupError::OutOfMemory`].
    pub(super) fn alloc(self: &Arc<Self>, len: usize) -> Result<Buf, SetupError> {
        let memory = self.allocate(len).ok_or(SetupError::OutOfMemory { len })?;
        let home: Arc<dyn Region> = self.clone();
        // SAFETY: an allocation of ours, the buffer's alone, at least `len` bytes long and zeroed; `release` takes it back.
        Ok(unsafe { Buf::from_raw_parts(memory, len, home) })
    }

    /// Whether a buffer with this home is one of [`Memory::alloc`].
    fn is_home_of(&self, home: &dyn Region) -> bool {
        home.is(self)
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.checked_add(BEHIND)?, buf::ALIGNMENT).ok()
    }

    fn allocate(&self, len: usize) -> Option<NonNull<u8>> {
        let layout = Self::layout(len)?;
        NonNull::new(match self.eal {
            // SAFETY: EAL runs, or there were no table here; its heap may be used by any thread.
            Some(table) => unsafe { (table.memory_take)(layout.size()) }.cast(),
            // SAFETY: the layout's size is not zero.
            None => unsafe { std::alloc::alloc_zeroed(layout) },
        })
    }
}

impl Region for Memory {
    unsafe fn release(&self, ptr: NonNull<u8>, len: usize) {
        match self.eal {
            // SAFETY: the caller vouches that this is an allocation of ours; with a table ours are of DPDK's heap.
            Some(table) => unsafe { (table.memory_give)(ptr.as_ptr().cast()) },
            None => {
                let layout = Self::layout(len).expect("was valid when allocated");
                // SAFETY: the caller vouches that this is an allocation of ours; ours have this layout.
                unsafe { std::alloc::dealloc(ptr.as_ptr(), layout) }
            }
        }
    }
}
