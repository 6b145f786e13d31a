//! Asking for memory ahead of its use.
#![allow(unsafe_code)]

/// Asks for the cache line that holds `bytes[at]`, if there is such a byte. Nothing waits for it, and nothing is read.
///
/// On architectures other than x86-64 and 64-bit Arm it does nothing.
#[inline(always)]
pub fn prefetch(bytes: &[u8], at: usize) {
    prefetch_item(bytes, at);
}

/// Asks for the cache line that holds the start of `items[at]`, if there is such an item; else as [`prefetch`].
#[inline(always)]
pub fn prefetch_item<T>(items: &[T], at: usize) {
    if at < items.len() {
        line_of(items, at, 0);
    }
}

/// Asks for every line of `items[at]`, if items begin with lines. It does not look if there is such an item, and is for callers who know: for one that is not
/// there a line is asked for that nobody needs.
#[inline(always)]
pub fn prefetch_lines<T>(items: &[T], at: usize) {
    const LINE: usize = 64;
    for offset in (0..size_of::<T>()).step_by(LINE) {
        line_of(items, at, offset);
    }
}

/// Asks for the line of the byte at `offset` of `items[at]`. An item that is not there is asked for in vain.
#[inline(always)]
fn line_of<T>(items: &[T], at: usize, offset: usize) {
    let line = items.as_ptr().wrapping_add(at).cast::<u8>();
    let line = line.wrapping_add(offset);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees, and never faults; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the instruction changes no register, reads nothing that the program sees, and never faults.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{line}]",
            line = in(reg) line,
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}
