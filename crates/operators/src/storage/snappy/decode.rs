//! The decoder, for speed: a table says of each tag how long its repeat is and which bits its offset has, so that the core need not
//! guess which kind of repeat comes next. How far to read on is the tag's own low bits.
#![allow(unsafe_code)]

use dpb_core::JobError;

use super::plain_len;
use crate::storage::lz77::{Copier, STRIDE};

/// A tag, and a stride of literals.
const ITEM_MARGIN: usize = 1 + STRIDE;
/// The longest repeat of a tag, and a stride behind it.
const SLOT_MARGIN: usize = 64 + STRIDE;

/// Decodes `item` into `slot`; says how many bytes.
pub(super) fn decode(item: &[u8], slot: &mut [u8]) -> Result<usize, JobError> {
    let (len, elements) = plain_len(item)?;
    if len > slot.len() {
        return Err(JobError::DstTooShort);
    }
    // Strides may write behind the plain bytes, into what is left of the slot.
    let mut copier = Copier::new(elements, slot);
    loop {
        while copier.has_margin(ITEM_MARGIN, SLOT_MARGIN) {
            // SAFETY: the margin is longer than a word.
            let word = unsafe { copier.word_unchecked(1) };
            let tag = word as u8;
            if tag & 3 == 0 {
                let literals = usize::from(tag >> 2) + 1;
                if literals <= STRIDE {
                    // SAFETY: the margin is for a tag and a stride.
                    unsafe { copier.literals_unchecked(literals) };
                } else {
                    element(&mut copier, tag)?;
                }
            } else if tag & 3 == 3 {
                element(&mut copier, tag)?;
            } else {
                let Repeat { len, mask, high } = REPEATS[usize::from(tag)];
                let offset = (word >> 8) as u16 & mask | high;
                // SAFETY: the margin is for a tag and a word, and for any repeat and a stride.
                unsafe {
                    copier.word_unchecked(usize::from(tag & 3));
                    copier.repeat_unchecked(usize::from(offset), usize::from(len))?;
                }
            }
        }
        if copier.is_read() {
            break;
        }
        let tag = copier.byte()?;
        element(&mut copier, tag)?;
    }
    if copier.written() == len {
        Ok(len)
    } else {
        Err(JobError::Malformed)
    }
}

/// What follows `tag`, wherever item and slot end.
#[inline(always)]
fn element(copier: &mut Copier<'_>, tag: u8) -> Result<(), JobError> {
    let high = usize::from(tag >> 2);
    let (offset, len) = match tag & 3 {
        0 => {
            let literals = match high {
                0..60 => high,
                _ => copier.number(high - 59)?,
            };
            return copier.literals(literals + 1);
        }
        1 => ((high >> 3) << 8 | copier.number(1)?, 4 + (high & 7)),
        2 => (copier.number(2)?, 1 + high),
        _ => (copier.number(4)?, 1 + high),
    };
    copier.repeat(offset, len)
}

/// What a tag says of its repeat, if its offset has one byte or two.
#[derive(Clone, Copy)]
struct Repeat {
    len: u8,
    /// Which bits of the two bytes behind the tag are the offset's.
    mask: u16,
    /// The offset's bits in the tag.
    high: u16,
}

/// By tag.
const REPEATS: [Repeat; 256] = {
    let mut repeats = [Repeat {
        len: 0,
        mask: 0,
        high: 0,
    }; 256];
    let mut tag = 0;
    while tag < 256 {
        let high = (tag >> 2) as u16;
        match tag & 3 {
            1 => {
                repeats[tag] = Repeat {
                    len: 4 + (high & 7) as u8,
                    mask: 0xff,
                    high: (high >> 3) << 8,
                };
            }
            2 => {
                repeats[tag] = Repeat {
                    len: 1 + high as u8,
                    mask: 0xffff,
                    high: 0,
                };
            }
            _ => {}
        }
        tag += 1;
    }
    repeats
};
