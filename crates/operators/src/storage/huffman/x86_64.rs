//! x86-64: the same code with BMI2's shifts, which take their count from any register and leave no flags, and a count of
//! leading zeros that knows zero.
#![allow(unsafe_code)]

use dpb_core::JobError;

use super::{encode, tables};
use crate::isa::Bmi2;

/// See [`encode::encode`].
pub(super) fn encode(
    _proof: Bmi2,
    plain: &[u8],
    slot: &mut [u8],
    scratch: &mut encode::Scratch,
) -> Result<usize, JobError> {
    #[target_feature(enable = "bmi1,bmi2,lzcnt")]
    fn with_bmi2(
        plain: &[u8],
        slot: &mut [u8],
        scratch: &mut encode::Scratch,
    ) -> Result<usize, JobError> {
        encode::encode(plain, slot, scratch)
    }
    // SAFETY: the token says that this CPU has these instructions.
    unsafe { with_bmi2(plain, slot, scratch) }
}

/// See [`tables::decode`].
pub(super) fn decode(
    _proof: Bmi2,
    item: &[u8],
    slot: &mut [u8],
    table: &mut tables::Table,
) -> Result<usize, JobError> {
    #[target_feature(enable = "bmi1,bmi2,lzcnt")]
    fn with_bmi2(
        item: &[u8],
        slot: &mut [u8],
        table: &mut tables::Table,
    ) -> Result<usize, JobError> {
        tables::decode(item, slot, table)
    }
    // SAFETY: the token says that this CPU has these instructions.
    unsafe { with_bmi2(item, slot, table) }
}
