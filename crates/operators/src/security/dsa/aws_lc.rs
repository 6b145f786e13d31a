//! AWS-LC's DSA, through its C interface: its safe one has none. Each signature has a random number of its own, from
//! AWS-LC's generator.
#![allow(unsafe_code)]

use std::ptr::{NonNull, null};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_sys as sys;
use dpb_core::{JobError, SetupError};

use crate::security::asymmetric::{FAILED, Signer, refused};

mod numbers;
mod verifier;

use numbers::Number;
pub(in crate::security) use verifier::Prepared;

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
    fn public(spki: &[u8]) -> Result<Self, SetupError> {
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

    /// *p*, *q*, *g* and *y*.
    fn public_numbers(&self) -> Option<[Number; 4]> {
        let (mut p, mut q, mut g, mut y) = (null(), null(), null(), null());
        // SAFETY: the key is alive, and so are its numbers, which are copied.
        unsafe {
            sys::DSA_get0_pqg(self.0.as_ptr(), &mut p, &mut q, &mut g);
            sys::DSA_get0_key(self.0.as_ptr(), &mut y, std::ptr::null_mut());
            Some([
                Number::copy(p)?,
                Number::copy(q)?,
                Number::copy(g)?,
                Number::copy(y)?,
            ])
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

/// A pair of numbers, ours.
struct Signature(NonNull<sys::DSA_SIG>);

impl Drop for Signature {
    fn drop(&mut self) {
        // SAFETY: made by `DSA_do_sign` for us alone.
        unsafe { sys::DSA_SIG_free(self.0.as_ptr()) }
    }
}
