//! x86-64.

pub(super) mod gfni;
pub(super) mod shuffles;
