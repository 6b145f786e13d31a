//! AWS-LC's DSA, through its C interface: its safe one has none. Each signature has a random number of its own, from
//! AWS-LC's generator.
#![allow(unsafe_code)]

use std::ptr::{NonNull, null, null_mut};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_sys as sys;
use dpb_core::{JobError, SetupError};

use crate::security::asymmetric::{FAILED, Signer, Verifier, refused};

/// Bytes of *r*, and of *s*: those of the group's order.
const HALF: usize = 32;

/// A key that AWS-LC read, and never changes again.
pub(in crate::security) struct Key(NonNull<sys::DSA>);

// SAFETY: no thread owns a DSA object; AWS-LC may free it on any.
unsafe impl Send for Key {}
// SAFETY: `Key` only calls functions that take a `const DSA *`; `openssl/dsa.h` allows those on many threads at once, as long
// as none changes the object, which nothing does once `Key` is made.
unsafe impl Sync for Key {}

/// Reads a key: `EVP_parse_private_key` or `EVP_parse_public_key`.
type Parse = unsafe extern "C" fn(*mut sys::CBS) -> *mut sys::EVP_PKEY;

impl Key {
    /// Of PKCS#8.
    pub(in crate::security) fn private(pkcs8: &[u8]) -> Result<Self, SetupError> {
        Self::parsed(pkcs8, sys::EVP_parse_private_key)
    }

    /// Of SubjectPublicKeyInfo.
    pub(in crate::security) fn public(spki: &[u8]) -> Result<Self, SetupError> {
        Self::parsed(spki, sys::EVP_parse_public_key)
    }

    fn parsed(der: &[u8], parse: Parse) -> Result<Self, SetupError> {
        // SAFETY: `CBS_init` fills in the place that it is given, with a view of `der`, which outlives it. The parser either
        // gives a key that is ours to free, which happens here and once, or null. `EVP_PKEY_get1_DSA` gives null for another
        // kind of key, else a reference of our own, which `Key` frees.
        let key = unsafe {
            sys::init();
            let mut bytes = std::mem::MaybeUninit::uninit();
            sys::CBS_init(bytes.as_mut_ptr(), der.as_ptr(), der.len());
            let any = parse(bytes.as_mut_ptr());
            if any.is_null() {
                None
            } else {
                let key = NonNull::new(sys::EVP_PKEY_get1_DSA(any)).map(Self);
                sys::EVP_PKEY_free(any);
                key
            }
        };
        let key = key.ok_or_else(|| refused("not one of DSA"))?;
        match key.order_bytes() {
            HALF => Ok(key),
            other => Err(refused(format!(
                "a group whose order has {other} bytes, not {HALF}"
            ))),
        }
    }

    fn order_bytes(&self) -> usize {
        // SAFETY: the key is alive, and so is its q, which its parser demanded.
        unsafe { sys::BN_num_bytes(sys::DSA_get0_q(self.0.as_ptr())) as usize }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the one reference that `parsed` took. AWS-LC overwrites the private number.
        unsafe { sys::DSA_free(self.0.as_ptr()) }
    }
}

impl Signer for Key {
    fn sign(&self, message: &[u8], signature: &mut [u8]) -> Result<(), JobError> {
        let digest = digest(&SHA256, message);
        let (r, s) = signature.split_at_mut(HALF);
        // SAFETY: the digest is as long as said; the key is alive.
        let made = unsafe {
            sys::DSA_do_sign(
                digest.as_ref().as_ptr(),
                digest.as_ref().len(),
                self.0.as_ptr(),
            )
        };
        let made = Signature(NonNull::new(made).ok_or(FAILED)?);
        let (mut made_r, mut made_s) = (null(), null());
        // SAFETY: `DSA_SIG_get0` gives pointers into `made`, which lives until the end of this function; both halves are
        // as long as said.
        let is_written = unsafe {
            sys::DSA_SIG_get0(made.0.as_ptr(), &mut made_r, &mut made_s);
            sys::BN_bn2bin_padded(r.as_mut_ptr(), r.len(), made_r) == 1
                && sys::BN_bn2bin_padded(s.as_mut_ptr(), s.len(), made_s) == 1
        };
        is_written.then_some(()).ok_or(FAILED)
    }
}

impl Verifier for Key {
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let (r, s) = signature.split_at(HALF);
        let Some(signature) = Signature::of(r, s) else {
            return false;
        };
        let digest = digest(&SHA256, message);
        let mut is_valid = 0;
        // SAFETY: the digest is as long as said; signature and key are alive; the answer goes into a place of our own.
        let is_done = unsafe {
            sys::DSA_do_check_signature(
                &mut is_valid,
                digest.as_ref().as_ptr(),
                digest.as_ref().len(),
                signature.0.as_ptr(),
                self.0.as_ptr(),
            )
        };
        is_done == 1 && is_valid == 1
    }
}

/// A pair of numbers, ours.
struct Signature(NonNull<sys::DSA_SIG>);

impl Signature {
    /// Of numbers whose most significant byte is first. `None` without memory.
    fn of(r: &[u8], s: &[u8]) -> Option<Self> {
        // SAFETY: `BN_bin2bn` reads as many bytes as said, and without a number to fill makes one. `DSA_SIG_set0` takes both
        // over if it succeeds, which it does unless one is null; then both are freed here (null is nothing to free).
        unsafe {
            let made = Self(NonNull::new(sys::DSA_SIG_new())?);
            let r = sys::BN_bin2bn(r.as_ptr(), r.len(), null_mut());
            let s = sys::BN_bin2bn(s.as_ptr(), s.len(), null_mut());
            if sys::DSA_SIG_set0(made.0.as_ptr(), r, s) == 1 {
                return Some(made);
            }
            sys::BN_free(r);
            sys::BN_free(s);
        }
        None
    }
}

impl Drop for Signature {
    fn drop(&mut self) {
        // SAFETY: made by `DSA_do_sign` or `DSA_SIG_new` for us alone.
        unsafe { sys::DSA_SIG_free(self.0.as_ptr()) }
    }
}
