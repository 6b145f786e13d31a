//! x86-64.

pub(super) mod gfni;
mod line;
pub(super) mod shuffles;
