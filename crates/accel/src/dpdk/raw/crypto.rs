//! Crypto devices: sessions and queue pairs.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use dpb_core::{SetupError, Unsupported};

use super::Eal;
use super::cipher::{Cipher, SessionRef};
use super::operation::{Device, Digest, Iv, Operation};
use super::pmd::Pmd;
use crate::dpdk::sys::{self, Algorithm, BURST, Done, Ranges, Run, SEGMENT};

/// Operations that a queue pair has room for; a queue uses as many with hardware, and a burst with software, whose
/// operations are then in the caches.
const DESCRIPTORS: u32 = 1024;
/// Sessions that a device has room for at first.
const SESSIONS: u32 = 256;

/// A crypto device.
pub(in crate::dpdk) struct CryptoDevice(Pmd<sys::CryptoQueue>);

/// A key schedule on a device.
pub(in crate::dpdk) struct Session {
    device: Arc<CryptoDevice>,
    session: NonNull<std::ffi::c_void>,
    cipher: Cipher,
}

/// A queue pair, with operations of one cipher.
pub(in crate::dpdk) struct CryptoQueue {
    device: Arc<CryptoDevice>,
    cipher: Cipher,
    /// The session of all operations; without it each operation has its own.
    session: Option<Session>,
    queue_pair: u32,
    queue: NonNull<sys::CryptoQueue>,
    table: &'static sys::Table,
}

// SAFETY: made and freed under EAL's lock, and used by no thread in particular.
unsafe impl Send for Session {}
// SAFETY: a session that threads share is used by the queues of several threads only if `CryptoDevice::shares_sessions`; each queue
// that is bound to one owns it.
unsafe impl Sync for Session {}

impl Deref for CryptoDevice {
    type Target = Pmd<sys::CryptoQueue>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl CryptoDevice {
    /// The names of all that there are.
    pub(in crate::dpdk) fn names(eal: &Eal) -> Vec<String> {
        let devices = eal.devices(eal.table().crypto_devices);
        devices.iter().map(sys::Device::name).collect()
    }

    /// The device of this name.
    ///
    /// # Errors
    /// There is none.
    pub(in crate::dpdk) fn find(eal: &'static Eal, name: &str) -> Result<Self, Unsupported> {
        let devices = eal.devices(eal.table().crypto_devices);
        let found = devices.iter().find(|device| device.name() == name);
        let device = found.ok_or_else(|| Unsupported {
            reason: format!("no crypto device `{name}`"),
        })?;
        Ok(Self(Pmd::new(eal, device)))
    }

    /// Starts it at the first call; the same answer from then on.
    ///
    /// # Errors
    /// The device does not start.
    pub(in crate::dpdk) fn start(&self) -> Result<(), Unsupported> {
        self.0.start(|table, queue_pairs| {
            // SAFETY: a device that there is; EAL runs, and no other thread changes devices.
            unsafe { (table.crypto_start)(self.id(), queue_pairs, 2 * DESCRIPTORS, SESSIONS) }
        })
    }

    /// The lengths that it takes for an algorithm, if it has it.
    pub(in crate::dpdk) fn ranges(&self, algorithm: Algorithm) -> Option<Ranges> {
        let mut ranges = Ranges::default();
        let table = self.eal().table();
        // SAFETY: a device that there is; the ranges are the caller's.
        let result = unsafe { (table.crypto_ranges)(self.id(), algorithm as u32, &mut ranges) };
        (result == 0).then_some(ranges)
    }

    /// Whether queues of several threads may use one session at a time. The driver over OpenSSL keeps state in it that two queues would
    /// write to, in some releases.
    pub(in crate::dpdk) fn shares_sessions(&self) -> bool {
        self.driver() != "crypto_openssl"
    }

    /// Schedules a key.
    ///
    /// # Errors
    /// The device's own reason.
    pub(in crate::dpdk) fn session(
        self: &Arc<Self>,
        cipher: Cipher,
        key: &[u8],
    ) -> Result<Session, Unsupported> {
        self.start()?;
        let mut session = std::ptr::null_mut();
        let made = cipher.for_shim(key);
        let control = self.eal().control();
        // SAFETY: a device that was started; the key lives through the call, and the driver copies what it needs of it.
        let result = unsafe { (self.eal().table().crypto_session)(self.id(), &made, &mut session) };
        drop(control);
        let refused = || Unsupported {
            reason: format!(
                "{} makes no session: {}",
                self.name(),
                self.eal().shim.error(result)
            ),
        };
        Ok(Session {
            device: self.clone(),
            session: NonNull::new(session)
                .filter(|_| result == 0)
                .ok_or_else(refused)?,
            cipher,
        })
    }

    /// A queue pair for operations of a cipher: of one session, or without it each with its own.
    ///
    /// # Errors
    /// All are in use, or there is no memory for operations.
    pub(in crate::dpdk) fn open(
        self: &Arc<Self>,
        cipher: Cipher,
        session: Option<Session>,
    ) -> Result<CryptoQueue, SetupError> {
        if let Some(session) = &session {
            assert!(
                session.reference().is_of(self.id(), &cipher),
                "of this device"
            );
        }
        self.start().map_err(SetupError::Unsupported)?;
        let operations = match self.is_hardware() {
            true => DESCRIPTORS,
            false => BURST as u32,
        };
        let table = self.eal().table();
        let (queue_pair, queue) = self.take(|table, number, queue| {
            // SAFETY: a device that was started, and a queue pair of it that is ours alone.
            unsafe { (table.crypto_open)(self.id(), number, operations, queue) }
        })?;
        let handle = session
            .as_ref()
            .map_or(std::ptr::null_mut(), |session| session.session.as_ptr());
        // SAFETY: ours alone, with nothing in flight; the session is this device's, and the queue keeps it.
        unsafe { (table.crypto_bind)(queue.as_ptr(), &cipher.for_shim(&[]), handle) };
        Ok(CryptoQueue {
            device: self.clone(),
            cipher,
            session,
            queue_pair,
            queue,
            table,
        })
    }
}

impl Session {
    /// The session, for an operation of a queue that is bound to none.
    #[inline]
    pub(in crate::dpdk) fn reference(&self) -> SessionRef<'_> {
        SessionRef {
            session: self.session,
            device: self.device.id(),
            cipher: self.cipher,
            lasts: PhantomData,
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _control = self.device.eal().control();
        // SAFETY: a session of this device; its queues hold it, so there is none.
        unsafe {
            (self.device.eal().table().crypto_session_free)(
                self.device.id(),
                self.session.as_ptr(),
            );
        }
    }
}

impl Device for CryptoQueue {
    #[inline]
    fn admits(&self, operation: &Operation<'_>, item_len: usize, slot_len: usize) -> bool {
        let Operation { src, dst, .. } = operation;
        let cipher = &self.cipher;
        let (digest_len, aad_len) = (cipher.digest_len.into(), usize::from(cipher.aad_len));
        let is_within = |at: usize, len: usize, whole: usize| {
            at.checked_add(len).is_some_and(|end| end <= whole)
        };
        let is_hash = cipher.iv_len == 0;
        src.start <= src.end
            && src.end <= item_len
            && dst.start <= dst.end
            && dst.end <= slot_len
            && src.len().max(dst.len()) <= SEGMENT
            && (is_hash || dst.len() >= src.len())
            && operation.head.is_empty()
            && match operation.session {
                None => self.session.is_some(),
                Some(session) => self.session.is_none() && session.is_of(self.device.id(), cipher),
            }
            && is_within(operation.aad, aad_len, item_len)
            && match operation.iv {
                Iv::Item(at) => is_within(at, cipher.iv_len.into(), item_len),
                Iv::Here(iv) => usize::from(cipher.iv_len) <= iv.len(),
            }
            && match operation.digest {
                Digest::Nowhere => digest_len == 0,
                Digest::Item(at) => cipher.decrypts && is_within(at, digest_len, item_len),
                Digest::Slot(at) => !cipher.decrypts && is_within(at, digest_len, slot_len),
            }
    }

    unsafe fn submit(&mut self, runs: &[Run]) -> usize {
        let n = runs.len() as u32;
        // SAFETY: the caller vouches for the operations; the queue is ours alone, and this thread's, as it is not
        // `Send`.
        unsafe { (self.table.crypto_submit)(self.queue.as_ptr(), runs.as_ptr(), n) as usize }
    }

    fn poll(&mut self, done: &mut [Done]) -> usize {
        let n = done.len().min(BURST) as u32;
        // SAFETY: room for so many; the queue is ours alone, and this thread's, as it is not `Send`.
        unsafe { (self.table.crypto_poll)(self.queue.as_ptr(), done.as_mut_ptr(), n) as usize }
    }
}

impl Drop for CryptoQueue {
    /// Closes a queue without operations in flight; one with them is leaked instead.
    fn drop(&mut self) {
        self.device.give(self.queue_pair, Some(self.queue));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dpdk::Device::{self, Crypto};

    /// The shim copies each operation's IV to a place of 16 bytes.
    #[test]
    fn an_iv_that_has_no_room_is_refused() {
        let found = Eal::start().and_then(|eal| Device::find(eal, "crypto_openssl"));
        let device = match found {
            Ok(Crypto(device)) => device,
            Ok(_) => unreachable!("a crypto device"),
            Err(why) => {
                return println!("skipped: dpdk/crypto_openssl: {why} (Debian: libdpdk-dev)");
            }
        };
        for (iv_len, is_taken) in [(16, true), (17, false), (u16::MAX, false)] {
            let cipher = Cipher {
                algorithm: Algorithm::AesCtr,
                decrypts: false,
                iv_len,
                digest_len: 0,
                aad_len: 0,
            };
            let session = device.session(cipher, &[0; 16]);
            assert_eq!(session.is_ok(), is_taken, "{iv_len}");
        }
    }
}
