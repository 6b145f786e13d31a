//! The parameters of crypto sessions, and references to sessions.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::dpdk::sys::{self, Algorithm};

/// The parameters of a session, but for the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dpdk) struct Cipher {
    pub(in crate::dpdk) algorithm: Algorithm,
    pub(in crate::dpdk) decrypts: bool,
    pub(in crate::dpdk) iv_len: u16,
    pub(in crate::dpdk) digest_len: u16,
    pub(in crate::dpdk) aad_len: u16,
}

impl Cipher {
    pub(super) fn for_shim(&self, key: &[u8]) -> sys::Cipher {
        sys::Cipher {
            algorithm: self.algorithm as u32,
            decrypts: self.decrypts.into(),
            key: key.as_ptr(),
            key_len: key.len() as u16,
            iv_len: self.iv_len,
            digest_len: self.digest_len,
            aad_len: self.aad_len,
        }
    }
}

/// A session of a device, while it lasts.
#[derive(Clone, Copy, Debug)]
pub(in crate::dpdk) struct SessionRef<'a> {
    pub(super) session: NonNull<c_void>,
    /// The number that DPDK knows the session's device by.
    pub(super) device: u32,
    pub(super) cipher: Cipher,
    pub(super) lasts: PhantomData<&'a ()>,
}

impl SessionRef<'_> {
    /// Whether it is a session of this device for this cipher.
    #[inline]
    pub(super) fn is_of(&self, device: u32, cipher: &Cipher) -> bool {
        (self.device, &self.cipher) == (device, cipher)
    }
}
