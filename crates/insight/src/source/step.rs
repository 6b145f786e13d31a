//! One instruction after another, by ptrace: the native path, also one that emulators hide. What an instruction accesses follows
//! from its bytes and the registers before it.

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(not(target_arch = "x86_64"))]
use elsewhere as here;
#[cfg(target_arch = "x86_64")]
use x86 as here;

pub(super) use here::{check, watch};
