//! Memory that devices reach: registered, and divided into DOCA's buffers.
#![allow(unsafe_code)]

use std::alloc::{self, Layout};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dpb_core::buf::ALIGNMENT;
use dpb_core::{Buf, Region, SetupError, Unsupported};

use super::super::sys::{self, ACCESS_LOCAL_READ_WRITE, Code};
use super::library::{Doca, Family};
use super::{Device, Refused, say_leaked, setup};

/// One allocation, registered with devices: the region of one buffer.
pub(super) struct Chunk {
    /// Open as long as memory is registered with them.
    devices: Vec<Arc<Device>>,
    mmap: Registered,
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: who holds the buffer decides who accesses the memory; the registration is used by DOCA's own functions alone, which are
// told that several threads may, or are called by one at a time (`Inventory`, `setup`).
unsafe impl Send for Chunk {}
// SAFETY: as above; a chunk itself gives nothing but its registration away.
unsafe impl Sync for Chunk {}

/// A registration, destroyed unless it is forgotten.
#[derive(Clone, Copy)]
pub(super) struct Registered(NonNull<sys::Mmap>);

/// Zeroed memory that all of `devices` reach.
pub(in crate::doca) fn alloc(devices: &[Arc<Device>], len: usize) -> Result<Buf, SetupError> {
    let chunk = Arc::new(Chunk::zeroed(devices, len)?);
    let memory = chunk.memory;
    // SAFETY: the chunk has at least `len` initialised bytes, of which this buffer is the only owner; the chunk goes with it.
    Ok(unsafe { Buf::from_raw_parts(memory, len, chunk) })
}

impl Chunk {
    pub(super) fn zeroed(devices: &[Arc<Device>], len: usize) -> Result<Self, SetupError> {
        let too_long = SetupError::OutOfMemory { len };
        // One byte more at least: where an input ends, an empty item has an address inside.
        let bytes = len
            .checked_add(1)
            .and_then(|bytes| bytes.checked_next_multiple_of(ALIGNMENT));
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, ALIGNMENT).ok());
        let layout = layout.ok_or(too_long.clone())?;
        // SAFETY: the layout's size is not zero.
        let memory = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or(too_long)?;
        // SAFETY: so many bytes, which nobody else knows yet; `Chunk` keeps them as long as they are registered.
        match unsafe { register(devices, memory, layout.size()) } {
            Ok(mmap) => Ok(Self {
                devices: devices.to_vec(),
                mmap,
                memory,
                layout,
            }),
            Err(refused) => {
                // SAFETY: allocated above with this layout; the registration is gone.
                unsafe { alloc::dealloc(memory.as_ptr(), layout) };
                let reason = format!("memory of {len} bytes: {refused}");
                Err(SetupError::Unsupported(Unsupported { reason }))
            }
        }
    }

    pub(super) fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    /// The chunk's registration, if `device` is registered with it.
    pub(super) fn registered_with(&self, device: &Device) -> Option<Registered> {
        let is_known = self.devices.iter().any(|known| known.dev == device.dev);
        is_known.then_some(self.mmap)
    }
}

impl Region for Chunk {
    /// The one buffer holds the chunk: memory and registration go with it.
    unsafe fn release(&self, _ptr: NonNull<u8>, _len: usize) {}
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let device = &self.devices[0];
        // SAFETY: no buffer of DOCA's is over it: a context gives back those over a job's memory before the job.
        match unsafe { unregister(device.doca, self.mmap) } {
            // SAFETY: allocated with this layout, and no device reaches it any more.
            Ok(()) => unsafe { alloc::dealloc(self.memory.as_ptr(), self.layout) },
            Err(refused) => say_leaked(device.name(), &format!("keeps memory ({refused})")),
        }
    }
}

/// # Safety
/// So many bytes at `memory` stay where they are until the registration is destroyed.
unsafe fn register(
    devices: &[Arc<Device>],
    memory: NonNull<u8>,
    len: usize,
) -> Result<Registered, Refused> {
    let doca = devices[0].doca;
    let mut mmap = ptr::null_mut();
    // SAFETY: the handle is written on success.
    let code = setup(|| unsafe {
        match doca.family() {
            Family::Tasks(progress) => (progress.tasks.mmap_create)(&mut mmap),
            Family::Jobs(jobs) => (jobs.mmap_create)(ptr::null(), &mut mmap),
        }
    });
    let made = NonNull::new(mmap).filter(|_| code == Code::SUCCESS);
    let mmap = made.ok_or_else(|| Refused::new(doca, "doca_mmap_create", code))?;
    // SAFETY: made above; the caller vouches for the memory.
    let started = setup(|| unsafe { start(doca, devices, mmap, memory, len) });
    started.map_err(|(call, code)| {
        // SAFETY: made above, and not started.
        setup(|| unsafe { (doca.core.mmap_destroy)(mmap.as_ptr()) });
        Refused::new(doca, call, code)
    })?;
    Ok(Registered(mmap))
}

/// The call that failed, if one did, and its code.
///
/// # Safety
/// As for `register`; `mmap` was made and is not started.
unsafe fn start(
    doca: &Doca,
    devices: &[Arc<Device>],
    mmap: NonNull<sys::Mmap>,
    memory: NonNull<u8>,
    len: usize,
) -> Result<(), (&'static str, Code)> {
    let (core, mmap) = (&doca.core, mmap.as_ptr());
    let checked = |call, code| match code {
        Code::SUCCESS => Ok(()),
        code => Err((call, code)),
    };
    // SAFETY: the caller vouches for handle and memory; the arcs keep the devices open.
    unsafe {
        if let Family::Tasks(progress) = doca.family()
            && let Some(thread_safety) = progress.thread_safety
        {
            let code = (thread_safety.mmap_enable)(mmap);
            checked("doca_mmap_enable_thread_safety", code)?;
        }
        let code = (core.mmap_set_permissions)(mmap, ACCESS_LOCAL_READ_WRITE);
        checked("doca_mmap_set_permissions", code)?;
        let code = (core.mmap_set_memrange)(mmap, memory.as_ptr().cast(), len);
        checked("doca_mmap_set_memrange", code)?;
        for device in devices {
            let code = (core.mmap_add_dev)(mmap, device.dev.as_ptr());
            checked("doca_mmap_add_dev", code)?;
        }
        checked("doca_mmap_start", (core.mmap_start)(mmap))
    }
}

/// # Safety
/// Nothing uses it, now or later.
unsafe fn unregister(doca: &Doca, mmap: Registered) -> Result<(), Refused> {
    let mmap = mmap.0.as_ptr();
    // SAFETY: the caller vouches for it.
    let (call, code) = setup(|| unsafe {
        match (doca.core.mmap_stop)(mmap) {
            Code::SUCCESS => ("doca_mmap_destroy", (doca.core.mmap_destroy)(mmap)),
            code => ("doca_mmap_stop", code),
        }
    });
    match code {
        Code::SUCCESS => Ok(()),
        code => Err(Refused::new(doca, call, code)),
    }
}

/// A pool of DOCA's buffers, of one context.
pub(super) struct Inventory {
    doca: &'static Doca,
    inventory: NonNull<sys::Inventory>,
    /// Whether many threads may make buffers over one registration, as a job's input may be in jobs of several queues.
    is_thread_safe: bool,
}

/// Where DOCA cannot be told that they will (before 2.10), they do so one at a time.
static WINDOWS: Mutex<()> = Mutex::new(());

/// A buffer out of an [`Inventory`]; its context gives it back.
pub(super) type Window = NonNull<sys::Buf>;

impl Inventory {
    /// Makes an inventory of `bufs` buffers.
    pub(super) fn new(doca: &'static Doca, bufs: usize) -> Result<Self, Refused> {
        let mut inventory = ptr::null_mut();
        // SAFETY: the handle is written on success.
        let code = setup(|| unsafe {
            match doca.family() {
                Family::Tasks(progress) => (progress.tasks.inventory_create)(bufs, &mut inventory),
                Family::Jobs(jobs) => (jobs.inventory_create)(ptr::null(), bufs, 0, &mut inventory),
            }
        });
        let made = NonNull::new(inventory).filter(|_| code == Code::SUCCESS);
        let refused = |call, code| Refused::new(doca, call, code);
        let inventory = made.ok_or_else(|| refused("doca_buf_inventory_create", code))?;
        let made = Self {
            doca,
            inventory,
            is_thread_safe: match doca.family() {
                Family::Tasks(progress) => progress.thread_safety.is_some(),
                Family::Jobs(_) => false,
            },
        };
        // SAFETY: made above.
        match setup(|| unsafe { (doca.core.inventory_start)(inventory.as_ptr()) }) {
            Code::SUCCESS => Ok(made),
            code => Err(refused("doca_buf_inventory_start", code)),
        }
    }

    /// A buffer of `len` bytes at `at`, of which the first `data_len` are data.
    ///
    /// # Safety
    /// The bytes lie inside what `mmap` registers, which lives until the buffer is given back.
    pub(super) unsafe fn window(
        &mut self,
        mmap: Registered,
        at: NonNull<u8>,
        len: usize,
        data_len: usize,
    ) -> Result<Window, Code> {
        let at = at.as_ptr().cast();
        let mut buf = ptr::null_mut();
        let _one = self.one_at_a_time();
        // SAFETY: the caller vouches for the range; the handle is written on success.
        let code = unsafe {
            (self.doca.core.buf_by_args)(
                self.inventory.as_ptr(),
                mmap.0.as_ptr(),
                at,
                len,
                at,
                data_len,
                &mut buf,
            )
        };
        NonNull::new(buf)
            .filter(|_| code == Code::SUCCESS)
            .ok_or(code)
    }

    fn one_at_a_time(&self) -> Option<MutexGuard<'static, ()>> {
        let one = || WINDOWS.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.is_thread_safe).then(one)
    }

    /// Bytes of data in a buffer.
    ///
    /// # Safety
    /// It is out of this inventory, and no device uses it.
    pub(super) unsafe fn data_len(&self, window: Window) -> Result<usize, Code> {
        let mut len = 0;
        // SAFETY: the caller vouches for the buffer.
        match unsafe { (self.doca.core.buf_data_len)(window.as_ptr(), &mut len) } {
            Code::SUCCESS => Ok(len),
            code => Err(code),
        }
    }

    /// Takes a buffer back.
    ///
    /// # Safety
    /// It is out of this inventory, and neither a device nor the caller uses it any more.
    pub(super) unsafe fn give_back(&mut self, window: Window) {
        let _one = self.one_at_a_time();
        // SAFETY: the caller vouches for it. The count of references, ours alone, may be null.
        unsafe { (self.doca.core.buf_release)(window.as_ptr(), ptr::null_mut()) };
    }
}

impl Drop for Inventory {
    fn drop(&mut self) {
        // SAFETY: made by `new`; a context gives its buffers back before. One that did not start does not stop, which is no harm.
        setup(|| unsafe {
            (self.doca.core.inventory_stop)(self.inventory.as_ptr());
            (self.doca.core.inventory_destroy)(self.inventory.as_ptr());
        });
    }
}
