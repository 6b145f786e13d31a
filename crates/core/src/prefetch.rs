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
    if at >= items.len() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address lies in `items`; a prefetch reads nothing that the program sees, and SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().add(at).cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the address lies in `items`; the instruction changes no register and reads nothing that the program sees.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{line}]",
            line = in(reg) items.as_ptr().add(at),
            options(nostack, preserves_flags, readonly),
        );
    }
}
