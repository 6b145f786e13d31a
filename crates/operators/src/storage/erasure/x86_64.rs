//! x86-64.

pub(super) mod avx2;
pub(super) mod gfni;
