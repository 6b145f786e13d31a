//! AWS-LC's integers of any length (`openssl/bn.h`), owned. What is computed with them here is public.

use std::ptr::{NonNull, null_mut};

use aws_lc_sys as sys;

/// A number, ours.
pub(super) struct Number(NonNull<sys::BIGNUM>);

// SAFETY: no thread owns a BIGNUM; AWS-LC may free it on any.
unsafe impl Send for Number {}
// SAFETY: what takes `&Number` only passes it as a `const BIGNUM *`, which AWS-LC reads.
unsafe impl Sync for Number {}

impl Number {
    /// Zero. `None` without memory, as everywhere here.
    pub(super) fn new() -> Option<Self> {
        // SAFETY: makes one, ours to free.
        NonNull::new(unsafe { sys::BN_new() }).map(Self)
    }

    /// Of bytes, the most significant first.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        // SAFETY: reads as many bytes as said, and without a number to fill makes one.
        NonNull::new(unsafe { sys::BN_bin2bn(bytes.as_ptr(), bytes.len(), null_mut()) }).map(Self)
    }

    /// A copy of a number of AWS-LC's.
    ///
    /// # Safety
    /// `number` is null or lives.
    pub(super) unsafe fn copy(number: *const sys::BIGNUM) -> Option<Self> {
        let number = NonNull::new(number.cast_mut())?;
        // SAFETY: lives, as the caller says; the copy is ours to free.
        NonNull::new(unsafe { sys::BN_dup(number.as_ptr()) }).map(Self)
    }

    /// Another one like it.
    pub(super) fn twin(&self) -> Option<Self> {
        // SAFETY: lives.
        unsafe { Self::copy(self.0.as_ptr()) }
    }

    /// Its bytes, the most significant first. `None` if it takes more.
    pub(super) fn bytes<const N: usize>(&self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        // SAFETY: writes as many bytes as said, or none.
        let fits = unsafe { sys::BN_bn2bin_padded(bytes.as_mut_ptr(), N, self.0.as_ptr()) };
        (fits == 1).then_some(bytes)
    }

    pub(super) fn is_zero(&self) -> bool {
        // SAFETY: reads a number that lives.
        unsafe { sys::BN_is_zero(self.0.as_ptr()) == 1 }
    }

    pub(super) fn is_below(&self, other: &Self) -> bool {
        // SAFETY: reads two numbers that live.
        unsafe { sys::BN_cmp(self.0.as_ptr(), other.0.as_ptr()) < 0 }
    }

    /// Its remainder by `modulus`, never negative.
    pub(super) fn modulo(&self, modulus: &Self, room: &mut Room) -> Option<Self> {
        let result = Self::new()?;
        // SAFETY: all live; the result is a number of its own.
        let done = unsafe {
            let [to, from, modulus] = [&result, self, modulus].map(|number| number.0.as_ptr());
            sys::BN_nnmod(to, from, modulus, room.0.as_ptr())
        };
        (done == 1).then_some(result)
    }

    /// Its inverse modulo the odd `modulus`. `None` if it has none.
    pub(super) fn inverse(&self, modulus: &Self, room: &mut Room) -> Option<Self> {
        let result = Self::new()?;
        // SAFETY: all live; the result is a number of its own.
        let done = unsafe {
            let [to, from, modulus] = [&result, self, modulus].map(|number| number.0.as_ptr());
            sys::BN_mod_inverse(to, from, modulus, room.0.as_ptr())
        };
        (!done.is_null()).then_some(result)
    }

    /// Its product with `other` modulo `modulus`.
    pub(super) fn times(&self, other: &Self, modulus: &Self, room: &mut Room) -> Option<Self> {
        let result = Self::new()?;
        // SAFETY: all live; the result is a number of its own.
        let done = unsafe {
            let [to, a, b, modulus] =
                [&result, self, other, modulus].map(|number| number.0.as_ptr());
            sys::BN_mod_mul(to, a, b, modulus, room.0.as_ptr())
        };
        (done == 1).then_some(result)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: made for us alone.
        unsafe { sys::BN_free(self.0.as_ptr()) }
    }
}

/// Room for what is computed on the way, of one thread.
pub(super) struct Room(NonNull<sys::BN_CTX>);

impl Room {
    pub(super) fn new() -> Option<Self> {
        // SAFETY: makes one, ours to free.
        NonNull::new(unsafe { sys::BN_CTX_new() }).map(Self)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: made for us alone.
        unsafe { sys::BN_CTX_free(self.0.as_ptr()) }
    }
}

/// What Montgomery's multiplication needs of a modulus.
pub(super) struct Montgomery(NonNull<sys::BN_MONT_CTX>);

// SAFETY: no thread owns it; AWS-LC may free it on any.
unsafe impl Send for Montgomery {}
// SAFETY: only passed as a `const BN_MONT_CTX *`, which AWS-LC reads.
unsafe impl Sync for Montgomery {}

impl Montgomery {
    /// Of an odd modulus; `None` of an even one.
    pub(super) fn new(modulus: &Number, room: &mut Room) -> Option<Self> {
        // SAFETY: reads a number that lives; makes one, ours to free.
        let made = unsafe { sys::BN_MONT_CTX_new_for_modulus(modulus.0.as_ptr(), room.0.as_ptr()) };
        NonNull::new(made).map(Self)
    }

    /// `number`, which is below the modulus, in Montgomery's form.
    pub(super) fn enter(&self, number: &Number, room: &mut Room) -> Option<Number> {
        let result = Number::new()?;
        // SAFETY: all live; the result is a number of its own.
        let done = unsafe {
            let [to, from] = [&result, number].map(|number| number.0.as_ptr());
            sys::BN_to_montgomery(to, from, self.0.as_ptr(), room.0.as_ptr())
        };
        (done == 1).then_some(result)
    }

    /// A number of Montgomery's form in the usual one.
    pub(super) fn leave(&self, number: &Number, room: &mut Room) -> Option<Number> {
        let result = Number::new()?;
        // SAFETY: all live; the result is a number of its own.
        let done = unsafe {
            let [to, from] = [&result, number].map(|number| number.0.as_ptr());
            sys::BN_from_montgomery(to, from, self.0.as_ptr(), room.0.as_ptr())
        };
        (done == 1).then_some(result)
    }

    /// The product of two numbers in Montgomery's form, in `to`, which may be any number.
    pub(super) fn multiply(
        &self,
        to: &mut Number,
        a: &Number,
        b: &Number,
        room: &mut Room,
    ) -> Option<()> {
        // SAFETY: all live; `to` is ours alone.
        let done = unsafe {
            let [to, a, b] = [to, a, b].map(|number| number.0.as_ptr());
            sys::BN_mod_mul_montgomery(to, a, b, self.0.as_ptr(), room.0.as_ptr())
        };
        (done == 1).then_some(())
    }
}

impl Drop for Montgomery {
    fn drop(&mut self) {
        // SAFETY: made for us alone.
        unsafe { sys::BN_MONT_CTX_free(self.0.as_ptr()) }
    }
}
