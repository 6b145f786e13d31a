//! The C library's functions. Where each half's last byte is zero its string ends inside it, and the functions without a bound serve, which
//! take up to half the instructions; else those with a bound, and a string without a zero byte ends with its half.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

// SAFETY: as ISO C and POSIX declare them; `size_t` is `usize` on every target of Rust's standard library.
unsafe extern "C" {
    fn strcmp(first: *const c_char, second: *const c_char) -> c_int;
    fn stpcpy(to: *mut c_char, from: *const c_char) -> *mut c_char;
    fn strncmp(first: *const c_char, second: *const c_char, bytes_max: usize) -> c_int;
    fn strnlen(string: *const c_char, bytes_max: usize) -> usize;
}

/// True if a half's last byte is zero.
#[inline(always)]
pub(super) fn ends(half: &[u8]) -> bool {
    half.last() == Some(&0)
}

/// The order of two strings in halves of the same length, as `strcmp` says it: below, at or above zero.
#[inline(always)]
pub(super) fn order(first: &[u8], second: &[u8]) -> c_int {
    if first.len() == second.len() && ends(first) {
        // SAFETY: the first string ends inside its half, so no byte is compared behind that place, in neither half.
        return unsafe { strcmp(first.as_ptr().cast(), second.as_ptr().cast()) };
    }
    bounded_order(first, second)
}

/// Out of line, so that what calls [`order`] stays small enough to be inlined into its loops: with both calls it was called for each item, and
/// items of 64 bytes took 1.6 times as long.
#[cold]
#[inline(never)]
fn bounded_order(first: &[u8], second: &[u8]) -> c_int {
    let bytes_max = first.len().min(second.len());
    // SAFETY: both slices have so many bytes, and the function reads none behind them.
    unsafe { strncmp(first.as_ptr().cast(), second.as_ptr().cast(), bytes_max) }
}

/// Both strings, and a zero byte, into `slot`: how many bytes. `None` if the slot is too short.
#[inline(always)]
pub(super) fn join(first: &[u8], second: &[u8], slot: &mut [u8]) -> Option<usize> {
    if ends(first) && ends(second) && slot.len() >= first.len() + second.len() {
        let start: *mut c_char = slot.as_mut_ptr().cast();
        // SAFETY: both strings end inside their slices, so no more bytes are written than those have, and the slot has as many; the end that
        // `stpcpy` returns lies in what it wrote.
        let end = unsafe {
            let end = stpcpy(start, first.as_ptr().cast());
            stpcpy(end, second.as_ptr().cast())
        };
        return Some(end as usize - start as usize + 1);
    }
    bounded_join(first, second, slot)
}

/// Out of line, as [`bounded_order`].
#[cold]
#[inline(never)]
fn bounded_join(first: &[u8], second: &[u8], slot: &mut [u8]) -> Option<usize> {
    let (first, second) = (string(first), string(second));
    let (len, bytes) = (first.len(), first.len() + second.len());
    let slot = slot.get_mut(..=bytes)?;
    slot[..len].copy_from_slice(first);
    slot[len..bytes].copy_from_slice(second);
    slot[bytes] = 0;
    Some(bytes + 1)
}

/// The bytes in front of the first zero byte, or all of them.
fn string(half: &[u8]) -> &[u8] {
    // SAFETY: the slice has so many bytes, and the function reads none behind them.
    &half[..unsafe { strnlen(half.as_ptr().cast(), half.len()) }]
}
