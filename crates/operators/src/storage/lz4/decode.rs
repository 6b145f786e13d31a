//! The decoder, for speed: most sequences have few literals and a short repeat, and take a stride for the first and two for
//! the second, without a loop.

use dpb_core::JobError;

use super::MATCH_BYTES_MIN;
use crate::storage::lz77::{STRIDE, Window};

/// Decodes `item` into `slot`; says how many bytes.
pub(super) fn decode(item: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
    let mut window = Window::new(slot);
    let mut rest = item;
    loop {
        let (&token, after) = rest.split_first().ok_or(JobError::Malformed)?;
        rest = after;
        let literals = usize::from(token >> 4);
        let stride = rest.first_chunk();
        if literals < 15
            && let Some(stride) = stride
            && window.push_stride(stride, literals)
        {
            rest = &rest[literals..];
        } else {
            let literals = length(literals, &mut rest)?;
            if literals > window.room() {
                return Err(JobError::DstTooShort);
            }
            let (bytes, after) = rest.split_at_checked(literals).ok_or(JobError::Malformed)?;
            window.push(bytes)?;
            rest = after;
            if rest.is_empty() {
                // The last sequence has literals alone.
                return if token & 15 == 0 {
                    Ok(window.len())
                } else {
                    Err(JobError::Malformed)
                };
            }
        }
        let (offset, after) = rest.split_first_chunk().ok_or(JobError::Malformed)?;
        rest = after;
        let offset = usize::from(u16::from_le_bytes(*offset));
        let repeated = length(usize::from(token & 15), &mut rest)? + MATCH_BYTES_MIN;
        window.repeat(offset, repeated)?;
    }
}

/// A length that starts as `nibble`, and goes on in whole bytes if that is 15.
#[inline(always)]
fn length(nibble: usize, rest: &mut &[u8]) -> Result<usize, JobError> {
    let mut length = nibble;
    if nibble == 15 {
        loop {
            let (&more, after) = rest.split_first().ok_or(JobError::Malformed)?;
            *rest = after;
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Ok(length)
}

const _: () = assert!(STRIDE > 14, "a stride holds the literals of a token");
