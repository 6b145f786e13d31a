//! The decoder, for speed: literals and repeats of a stride or less take one copy and no loop.

use dpb_core::JobError;

use super::plain_len;
use crate::storage::lz77::{STRIDE, Window};

/// Decodes `item` into `slot`; says how many bytes.
pub(super) fn decode(item: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
    let (len, mut rest) = plain_len(item)?;
    if len > slot.len() {
        return Err(JobError::DstTooShort);
    }
    // Strides may write behind the plain bytes, into what is left of the slot.
    let mut window = Window::new(slot);
    while let Some((&tag, after)) = rest.split_first() {
        rest = after;
        let high = usize::from(tag >> 2);
        if tag & 3 == 0 {
            if high < STRIDE
                && let Some(stride) = rest.first_chunk()
                && window.push_stride(stride, high + 1)
            {
                rest = &rest[high + 1..];
                continue;
            }
            let literals = match high {
                0..60 => high,
                _ => number(&mut rest, high - 59)?,
            };
            let bytes = rest.split_at_checked(literals + 1);
            let (bytes, after) = bytes.ok_or(JobError::Malformed)?;
            window.push(bytes)?;
            rest = after;
            continue;
        }
        let (offset, repeated) = match tag & 3 {
            1 => {
                let low = number(&mut rest, 1)?;
                ((high >> 3) << 8 | low, 4 + (high & 7))
            }
            2 => (number(&mut rest, 2)?, 1 + high),
            _ => (number(&mut rest, 4)?, 1 + high),
        };
        window.repeat(offset, repeated)?;
    }
    if window.len() == len {
        Ok(len)
    } else {
        Err(JobError::Malformed)
    }
}

/// A number of `bytes` bytes, the lowest first.
#[inline(always)]
fn number(rest: &mut &[u8], bytes: usize) -> Result<usize, JobError> {
    let (number, after) = rest.split_at_checked(bytes).ok_or(JobError::Malformed)?;
    *rest = after;
    Ok(number
        .iter()
        .rev()
        .fold(0, |all, &byte| all << 8 | usize::from(byte)))
}
