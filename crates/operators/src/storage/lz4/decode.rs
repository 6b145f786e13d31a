//! The decoder, for speed: most sequences have few literals and a short repeat, and take a stride for the first and one or two for
//! the second.
#![allow(unsafe_code)]

use dpb_core::JobError;

use super::MATCH_BYTES_MIN;
use crate::storage::lz77::{Copier, STRIDE};

/// Literals of a token that has no more of them behind it.
const LITERALS_MAX: usize = 14;
/// A repeat of such a token.
const REPEAT_MAX: usize = 14 + MATCH_BYTES_MIN;
/// A token, a stride of literals, of which a word is left behind the last that counts.
const ITEM_MARGIN: usize = 1 + LITERALS_MAX + STRIDE;
/// Literals, a repeat, and a stride behind it.
const SLOT_MARGIN: usize = LITERALS_MAX + REPEAT_MAX + STRIDE;

/// Decodes `item` into `slot`; says how many bytes.
pub(super) fn decode(item: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
    let mut copier = Copier::new(item, slot);
    loop {
        while copier.has_margin(ITEM_MARGIN, SLOT_MARGIN) {
            // SAFETY: the margin is longer than a word.
            let token = unsafe { copier.word_unchecked(1) } as u8;
            let literals = token >> 4;
            if literals < 15 {
                // SAFETY: the margin is for a token and a stride.
                unsafe { copier.literals_unchecked(usize::from(literals)) };
            } else {
                // SAFETY: behind a token the margin is for a word.
                let literals = unsafe { long_length(&mut copier)? };
                copier.literals(literals)?;
                if !copier.has_margin(ITEM_MARGIN, SLOT_MARGIN) {
                    if repeat(&mut copier, token)? {
                        return Ok(copier.written());
                    }
                    break;
                }
            }
            // SAFETY: behind a token and its literals the margin is for a stride, so a word.
            let offset = unsafe { copier.word_unchecked(2) } as u16;
            let (offset, len) = (usize::from(offset), usize::from(token & 15));
            if len < 15 {
                // SAFETY: the margin is for the literals, this repeat, and a stride.
                unsafe { copier.repeat_short_unchecked(offset, len + MATCH_BYTES_MIN)? };
            } else {
                // SAFETY: behind a token, its literals and its offset the margin is for a word.
                let len = unsafe { long_length(&mut copier)? };
                copier.repeat(offset, len + MATCH_BYTES_MIN)?;
            }
        }
        let token = copier.byte()?;
        let literals = length(token >> 4, &mut copier)?;
        copier.literals(literals)?;
        if repeat(&mut copier, token)? {
            return Ok(copier.written());
        }
    }
}

/// What follows the literals of `token`, wherever item and slot end; says whether they were the last. Inlined, as all that takes the
/// copier: behind a reference it would never be in registers.
#[inline(always)]
fn repeat(copier: &mut Copier<'_>, token: u8) -> Result<bool, JobError> {
    if copier.is_read() {
        // The last sequence has literals alone.
        return if token & 15 == 0 {
            Ok(true)
        } else {
            Err(JobError::Malformed)
        };
    }
    let offset = copier.number(2)?;
    let len = length(token & 15, copier)?;
    copier.repeat(offset, len + MATCH_BYTES_MIN)?;
    Ok(false)
}

/// A length that starts as 15 and goes on in one byte, if that is not 255.
///
/// # Safety
/// A word is left of the item.
#[inline(always)]
unsafe fn long_length(copier: &mut Copier<'_>) -> Result<usize, JobError> {
    // SAFETY: the caller says so.
    match unsafe { copier.word_unchecked(1) } as u8 {
        255 => Ok(255 + length(15, copier)?),
        more => Ok(15 + usize::from(more)),
    }
}

/// A length that starts as `nibble`, and goes on in whole bytes if that is 15.
#[inline(always)]
fn length(nibble: u8, copier: &mut Copier<'_>) -> Result<usize, JobError> {
    let mut length = usize::from(nibble);
    if nibble == 15 {
        loop {
            let more = copier.byte()?;
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Ok(length)
}
