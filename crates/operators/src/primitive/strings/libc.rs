//! The C library's functions on strings of bounded length. A half that has no zero byte ends where the bound says.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

// SAFETY: as ISO C and POSIX declare them; `size_t` is `usize` on every target of Rust's standard library.
unsafe extern "C" {
    fn strncmp(first: *const c_char, second: *const c_char, bytes_max: usize) -> c_int;
    fn strnlen(string: *const c_char, bytes_max: usize) -> usize;
}

/// The order of two strings, as `strncmp` says it: below, at or above zero.
pub(super) fn order(first: &[u8], second: &[u8]) -> c_int {
    let bytes_max = first.len().min(second.len());
    // SAFETY: both slices have so many bytes, and the function reads none behind them.
    unsafe { strncmp(first.as_ptr().cast(), second.as_ptr().cast(), bytes_max) }
}

/// The bytes in front of the first zero byte, or all of them.
pub(super) fn string(half: &[u8]) -> &[u8] {
    // SAFETY: the slice has so many bytes, and the function reads none behind them.
    &half[..unsafe { strnlen(half.as_ptr().cast(), half.len()) }]
}
