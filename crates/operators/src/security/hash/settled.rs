//! Sums in the order in which they are written.
#![allow(unsafe_code)]

/// `sum`, computed before what is added to it later. The compiler may order additions as it likes, and would put constants and
/// loads last, where a step of a hash function waits for them: one more cycle in each, of five or six.
#[inline(always)]
pub(crate) fn settled(sum: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut sum = sum;
        // SAFETY: no instruction: the value stays as it is.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) sum, options(pure, nomem, nostack, preserves_flags));
        }
        sum
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        sum
    }
}

/// `sum`, computed where it is written. Where a step's result is not needed at once, the compiler moves what makes it behind later steps
/// and past branches, and the steps' registers run out.
#[inline(always)]
pub(crate) fn computed_here(sum: u64) -> u64 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        let mut sum = sum;
        // SAFETY: no instruction: the value stays as it is.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) sum, options(nomem, nostack, preserves_flags));
        }
        sum
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        sum
    }
}
