//! Machines on which registers do not tell what an instruction accesses.

use std::sync::atomic::AtomicBool;

use super::super::{Program, WatchError, Watched};
use crate::trace::{Isa, Options};

pub(in super::super) fn check(_: Isa) -> Result<(), WatchError> {
    Err(WatchError::Missing(
        "single steps are for x86-64: elsewhere accesses to memory are not decoded".to_owned(),
    ))
}

pub(in super::super) fn watch(
    program: &Program,
    _: Options,
    _: &AtomicBool,
) -> Result<Watched, WatchError> {
    Err(check(program.isa).expect_err("never here"))
}
