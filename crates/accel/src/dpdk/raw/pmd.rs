//! What crypto and compress devices have in common: DPDK's poll-mode drivers, and their queue pairs.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use dpb_core::{SetupError, Unsupported};

use super::Eal;
use crate::dpdk::sys;

/// A device of a poll-mode driver. Once started it stays so.
pub(in crate::dpdk) struct Pmd<Q> {
    eal: &'static Eal,
    name: String,
    driver: String,
    id: u32,
    is_hardware: bool,
    /// Queue pairs that the device is started with, and the ones that nobody holds.
    queue_pairs: u32,
    free: Mutex<Vec<QueuePair<Q>>>,
    /// The result of starting the device.
    started: OnceLock<i32>,
}

/// A queue pair of a device, which is its holder's alone.
struct QueuePair<Q> {
    number: u32,
    /// The shim's part, once it was needed.
    queue: Option<NonNull<Q>>,
}

// SAFETY: what the shim keeps for a queue pair is used by its holder alone, and by no thread in particular.
unsafe impl<Q> Send for QueuePair<Q> {}

impl<Q> Pmd<Q> {
    /// A device as the shim lists it.
    pub(super) fn new(eal: &'static Eal, device: &sys::Device) -> Self {
        let queue_pairs = queue_pairs(device.queue_pairs_max);
        let free = |number| QueuePair {
            number,
            queue: None,
        };
        Self {
            eal,
            name: device.name(),
            driver: device.driver(),
            id: device.id,
            is_hardware: device.is_hardware != 0,
            queue_pairs,
            free: Mutex::new((0..queue_pairs).rev().map(free).collect()),
            started: OnceLock::new(),
        }
    }

    pub(in crate::dpdk) fn eal(&self) -> &'static Eal {
        self.eal
    }

    pub(in crate::dpdk) fn name(&self) -> &str {
        &self.name
    }

    /// The driver's name in DPDK: `crypto_aesni_mb`, `mlx5_pci`.
    pub(in crate::dpdk) fn driver(&self) -> &str {
        &self.driver
    }

    /// Whether the device works while nobody asks for its answers; software works when it is asked.
    pub(in crate::dpdk) fn is_hardware(&self) -> bool {
        self.is_hardware
    }

    /// The number that DPDK knows it by.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Starts it with its queue pairs at the first call; gives the same answer from then on.
    ///
    /// # Errors
    /// The device does not start.
    pub(super) fn start(
        &self,
        start: impl FnOnce(&sys::Table, u32) -> c_int,
    ) -> Result<(), Unsupported> {
        let result = *self.started.get_or_init(|| {
            let _control = self.eal.control();
            start(self.eal.table(), self.queue_pairs)
        });
        match result {
            0 => Ok(()),
            error => Err(Unsupported {
                reason: format!(
                    "{} does not start: {}",
                    self.name,
                    self.eal.shim.error(error)
                ),
            }),
        }
    }

    /// The queue pair that was given back last, which `open` opens if it never was. That of a device that does not answer
    /// never comes back.
    ///
    /// # Errors
    /// All are in use, or it does not open.
    pub(super) fn take(
        &self,
        open: impl FnOnce(&sys::Table, u32, *mut *mut Q) -> c_int,
    ) -> Result<(u32, NonNull<Q>), SetupError> {
        let unsupported = |reason| SetupError::Unsupported(Unsupported { reason });
        let taken = self
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let QueuePair { number, queue } = taken.ok_or_else(|| {
            unsupported(format!(
                "all {} queue pairs of {} are in use",
                self.queue_pairs, self.name
            ))
        })?;
        if let Some(queue) = queue {
            return Ok((number, queue));
        }
        let mut opened = std::ptr::null_mut();
        let control = self.eal.control();
        let result = open(self.eal.table(), number, &mut opened);
        drop(control);
        match NonNull::new(opened) {
            Some(queue) if result == 0 => Ok((number, queue)),
            _ => {
                self.give(number, None);
                let error = self.eal.shim.error(result);
                Err(unsupported(format!(
                    "{} opens no queue: {error}",
                    self.name
                )))
            }
        }
    }

    /// Takes a queue pair back on which nothing is in flight.
    pub(super) fn give(&self, number: u32, queue: Option<NonNull<Q>>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(QueuePair { number, queue });
    }
}

/// Those to ask for of a device that has up to `max`, 0 being any number: enough for a queue on each core, and one more each
/// while the old one is dropped.
fn queue_pairs(max: u32) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let wanted = (2 * cores).clamp(8, 64);
    if max == 0 { wanted } else { wanted.min(max) }
}
