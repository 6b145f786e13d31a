//! Devices, and what their engines can do.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use dpb_core::WallClock;

use super::super::kind::Kind;
use super::super::sys::{Code, Dev, DevInfo, Engine, IBDEV_NAME_BYTES, PCI_ADDRESS_BYTES};
use super::library::{Calls, Doca, JobCalls, JobForm, TaskCalls, TaskForm};
use super::{Refused, setup};

/// Tasks of a context, and the depth of a work queue, where the library does not say how many there may be.
const TASKS_UNTOLD: u32 = 256;
/// The length of a nonce, in bytes.
const IV_BYTES: u32 = 12;

/// A device that is open.
pub(in crate::doca) struct Device {
    pub(super) doca: &'static Doca,
    pub(super) dev: NonNull<Dev>,
    name: String,
    pci: String,
    /// The limits of each kind, in the order of [`Kind::ALL`], or the reason that the device cannot do it.
    bounds: [Result<Bounds, String>; Kind::COUNT],
    /// The backend's, by which its patience with the device is counted.
    clock: Arc<WallClock>,
}

// SAFETY: a handle that DOCA lets any thread use for what `setup` keeps apart; the rest is immutable.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// The limits that a device promises for a kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::doca) struct Bounds {
    /// Most bytes of a task's source, or of each of its blocks if it [has blocks](Kind::has_blocks).
    pub(in crate::doca) item_bytes_max: u64,
    /// Tasks in flight in one context, at most.
    pub(in crate::doca) tasks_max: u32,
}

/// A device by its name, or why it does not open.
pub(in crate::doca) type NamedDevice = (String, Result<Device, Refused>);

impl Device {
    /// Every device of this machine, opened. Their backends have this clock.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub(in crate::doca) fn all(
        doca: &'static Doca,
        clock: &Arc<WallClock>,
    ) -> Result<Vec<NamedDevice>, Refused> {
        setup(|| Self::list(doca, clock))
    }

    fn list(doca: &'static Doca, clock: &Arc<WallClock>) -> Result<Vec<NamedDevice>, Refused> {
        let (mut list, mut count) = (ptr::null_mut(), 0);
        // SAFETY: both are written on success.
        let code = unsafe { (doca.core.devinfo_create_list)(&mut list, &mut count) };
        if code != Code::SUCCESS {
            return Err(Refused::new(doca, "doca_devinfo_create_list", code));
        }
        // SAFETY: a list of so many, which lives until it is destroyed below.
        let infos = (0..count as usize).map(|i| unsafe { *list.add(i) });
        let opened = infos.map(|info| Self::open(doca, info, clock)).collect();
        // SAFETY: of `doca_devinfo_create_list`, and used no more: an open device has its own.
        unsafe { (doca.core.devinfo_destroy_list)(list) };
        Ok(opened)
    }

    /// `info` is of a list that is not destroyed yet.
    fn open(doca: &'static Doca, info: *mut DevInfo, clock: &Arc<WallClock>) -> NamedDevice {
        let mut name = [0; IBDEV_NAME_BYTES];
        let mut pci = [0; PCI_ADDRESS_BYTES];
        let mut dev = ptr::null_mut();
        // SAFETY: `all` keeps the list; the texts have room for what DOCA says is their length.
        let code = unsafe {
            (doca.core.devinfo_ibdev_name)(info, name.as_mut_ptr(), IBDEV_NAME_BYTES as u32);
            (doca.core.devinfo_pci_address)(info, pci.as_mut_ptr());
            (doca.core.dev_open)(info, &mut dev)
        };
        let (name, pci) = (text(&name), text(&pci));
        let name = if name.is_empty() { pci.clone() } else { name };
        let Some(dev) = NonNull::new(dev).filter(|_| code == Code::SUCCESS) else {
            return (name, Err(Refused::new(doca, "doca_dev_open", code)));
        };
        // SAFETY: the device is open; its info lives as long as it does.
        let info = unsafe { (doca.core.dev_as_devinfo)(dev.as_ptr()) };
        let bounds = Kind::ALL.map(|kind| match doca.calls(kind)? {
            Calls::Job(calls) => job_bounds(doca, &calls, info),
            Calls::Task(calls) => task_bounds(doca, &calls, kind, dev, info),
        });
        let device = Self {
            doca,
            dev,
            name: name.clone(),
            pci,
            bounds,
            clock: clock.clone(),
        };
        (name, Ok(device))
    }

    /// The name of the card's InfiniBand device: `mlx5_0`.
    pub(in crate::doca) fn name(&self) -> &str {
        &self.name
    }

    /// The clock of its backend.
    pub(in crate::doca) fn clock(&self) -> &WallClock {
        &self.clock
    }

    /// The device's PCI address: `0000:03:00.0`.
    pub(in crate::doca) fn pci(&self) -> &str {
        &self.pci
    }

    /// The limits that the device promises for `kind`, or why it cannot do it.
    pub(in crate::doca) fn bounds(&self, kind: Kind) -> Result<Bounds, &str> {
        self.bounds[kind as usize]
            .as_ref()
            .copied()
            .map_err(String::as_str)
    }

    /// Whether the device has an engine that dpb knows.
    pub(in crate::doca) fn is_useful(&self) -> bool {
        self.bounds.iter().any(Result::is_ok)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened by `open`; whatever uses a device holds it, so nothing does.
        setup(|| unsafe { (self.doca.core.dev_close)(self.dev.as_ptr()) });
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {})", self.name, self.pci)
    }
}

/// `info` is of an open device.
fn job_bounds(doca: &Doca, calls: &JobCalls, info: *mut DevInfo) -> Result<Bounds, String> {
    let asked = |call, code| answer(doca, call, code);
    let mut item_bytes_max = 0;
    // SAFETY: the caller vouches for `info`; the length is written on success.
    unsafe {
        match calls.form {
            JobForm::Memcpy(limits) => {
                asked("job_get_supported", (limits.is_supported)(info, calls.kind))?;
                asked(
                    "get_max_buf_size",
                    (limits.max_buf_size)(info, &mut item_bytes_max),
                )?;
            }
            JobForm::Deflate(limits) => {
                asked("job_get_supported", (limits.is_supported)(info, calls.kind))?;
                let code = (limits.max_buf_size)(info, calls.kind, &mut item_bytes_max);
                asked("get_max_buf_size", code)?;
            }
            JobForm::Sha(limits) => {
                asked("job_get_supported", (limits.is_supported)(info, calls.kind))?;
                // Without an engine, libdoca_sha up to 2.2 has OpenSSL compute.
                asked("get_hardware_supported", (limits.is_in_hardware)(info))?;
                asked(
                    "get_max_src_buffer_size",
                    (limits.max_buf_size)(info, &mut item_bytes_max),
                )?;
            }
            JobForm::Search(searching) => {
                asked(
                    "job_get_supported",
                    (searching.is_supported)(info, calls.kind),
                )?;
                asked("get_hardware_supported", (searching.is_in_hardware)(info))?;
                // Longer ones are taken too, cut into pieces; what matches over a cut is not found.
                asked(
                    "get_maximum_non_huge_job_size",
                    (searching.max_buf_size)(info, &mut item_bytes_max),
                )?;
            }
        }
    }
    Ok(Bounds {
        item_bytes_max,
        tasks_max: TASKS_UNTOLD,
    })
}

/// `info` is of `dev`, which is open.
fn task_bounds(
    doca: &Doca,
    calls: &TaskCalls,
    kind: Kind,
    dev: NonNull<Dev>,
    info: *mut DevInfo,
) -> Result<Bounds, String> {
    let asked = |call, code| answer(doca, call, code);
    let mut item_bytes_max = 0;
    // SAFETY: the caller vouches for `info`; numbers are written on success.
    unsafe {
        match calls.form {
            TaskForm::Plain(configured, _) => {
                asked("is_supported", (configured.is_supported)(info))?;
                let code = (configured.max_buf_size)(info, &mut item_bytes_max);
                asked("get_max_buf_size", code)?;
            }
            TaskForm::Hash(hash, algorithm) => {
                asked("get_supported", (hash.is_supported)(info, algorithm))?;
                let code = (hash.max_buf_size)(info, &mut item_bytes_max);
                asked("get_max_src_buf_size", code)?;
                let mut min = 0;
                let code = (hash.min_dst_size)(info, algorithm, &mut min);
                asked("get_min_dst_buf_size", code)?;
                holds_digest(kind, min)?;
            }
            TaskForm::Authenticated(configured, gcm, key) => {
                asked("is_supported", (configured.is_supported)(info))?;
                let code = (gcm.is_key_type_supported)(info, key);
                asked("is_key_type_supported", code)?;
                asked("is_tag_128_supported", (gcm.is_tag_128_supported)(info))?;
                let code = (configured.max_buf_size)(info, &mut item_bytes_max);
                asked("get_max_buf_size", code)?;
                let mut max = 0;
                asked("get_max_iv_len", (gcm.max_iv_len)(info, &mut max))?;
                if max < IV_BYTES {
                    return Err(format!("takes nonces of {max} bytes, not of {IV_BYTES}"));
                }
            }
            TaskForm::Coding(coding) => {
                asked("is_supported", (coding.is_supported)(info))?;
                let code = (coding.max_block_size)(info, &mut item_bytes_max);
                asked("get_max_block_size", code)?;
            }
        }
    }
    let tasks_max = tasks_max(doca, calls, dev)?;
    Ok(Bounds {
        item_bytes_max,
        tasks_max: match calls.form {
            // Configured by the logarithm.
            TaskForm::Hash(..) => 1 << tasks_max.ilog2(),
            _ => tasks_max,
        },
    })
}

/// Whether a digest of `kind` is as long as the room that the device wants for one.
fn holds_digest(kind: Kind, min_bytes: u32) -> Result<(), String> {
    match kind.digest_bytes() {
        Some(bytes) if bytes < min_bytes as usize => Err(format!(
            "wants room of {min_bytes} bytes for a digest, more than the digest has"
        )),
        _ => Ok(()),
    }
}

/// Only an engine knows; one is made to be asked. `dev` is open.
fn tasks_max(doca: &Doca, calls: &TaskCalls, dev: NonNull<Dev>) -> Result<u32, String> {
    let Some(tasks_max) = calls.tasks_max else {
        return Ok(TASKS_UNTOLD);
    };
    let mut engine: *mut Engine = ptr::null_mut();
    let mut max = 0;
    // SAFETY: the caller vouches for the device; the engine is destroyed as it was made.
    let code = unsafe {
        answer(
            doca,
            "create",
            (calls.create.create)(dev.as_ptr(), &mut engine),
        )?;
        let code = (tasks_max.query)(engine, &mut max);
        (calls.created.destroy)(engine);
        code
    };
    answer(doca, "get_max_num_tasks", code)?;
    Ok(max.max(1))
}

fn answer(doca: &Doca, call: &str, code: Code) -> Result<(), String> {
    match code {
        Code::SUCCESS => Ok(()),
        code => Err(format!("{call} says {}", doca.describe(code))),
    }
}

/// Text up to its zero, or to its end.
fn text(bytes: &[c_char]) -> String {
    // SAFETY: characters are bytes.
    let bytes = unsafe { &*(ptr::from_ref(bytes) as *const [u8]) };
    let text = CStr::from_bytes_until_nul(bytes).map(CStr::to_string_lossy);
    text.unwrap_or_default().into_owned()
}
