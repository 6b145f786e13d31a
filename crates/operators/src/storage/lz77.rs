//! What the decoders of byte-oriented LZ77 formats share: an item that is read and a slot that fills, copied in strides that may
//! reach further than they must, as long as both have a margin.
#![allow(unsafe_code)]

use dpb_core::JobError;

/// Bytes that one stride copies.
pub(super) const STRIDE: usize = 16;
/// Literals that strides copy faster than a call.
const SHORT: usize = 64;

/// An item that is read, and a slot that fills from the front.
pub(super) struct Copier<'a> {
    item: &'a [u8],
    /// Bytes read, at most all of the item.
    read: usize,
    slot: &'a mut [u8],
    /// Bytes written, at most all of the slot.
    written: usize,
}

impl<'a> Copier<'a> {
    /// At the start of both.
    pub(super) fn new(item: &'a [u8], slot: &'a mut [u8]) -> Self {
        Self {
            item,
            read: 0,
            slot,
            written: 0,
        }
    }

    /// Bytes written.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// Whether the item is at its end.
    pub(super) fn is_read(&self) -> bool {
        self.read == self.item.len()
    }

    /// Whether at least so many bytes are left of the item, and of the slot.
    #[inline(always)]
    pub(super) fn has_margin(&self, of_item: usize, of_slot: usize) -> bool {
        self.item.len() - self.read >= of_item && self.slot.len() - self.written >= of_slot
    }

    /// The word that comes next, little endian; its first `len` bytes count as read.
    ///
    /// # Safety
    /// Four bytes are left of the item.
    #[inline(always)]
    pub(super) unsafe fn word_unchecked(&mut self, len: usize) -> u32 {
        debug_assert!(self.has_margin(4, 0));
        // SAFETY: the caller says so.
        let word = unsafe {
            self.item
                .as_ptr()
                .add(self.read)
                .cast::<u32>()
                .read_unaligned()
        };
        self.read += len;
        u32::from_le(word)
    }

    /// Moves `len` bytes, at most a stride, from the item to the slot.
    ///
    /// # Safety
    /// A stride is left of both.
    #[inline(always)]
    pub(super) unsafe fn literals_unchecked(&mut self, len: usize) {
        debug_assert!(len <= STRIDE && self.has_margin(STRIDE, STRIDE));
        // SAFETY: the caller says so.
        unsafe {
            let from = self.item.as_ptr().add(self.read);
            copy_stride(from, self.slot.as_mut_ptr().add(self.written));
        }
        self.read += len;
        self.written += len;
    }

    /// Appends `len` bytes that start `offset` before the end; they may reach into what is being appended.
    ///
    /// # Errors
    /// [`JobError::Malformed`] if they start before the first byte, or at the end.
    ///
    /// # Safety
    /// `len` bytes and a stride are left of the slot.
    #[inline(always)]
    pub(super) unsafe fn repeat_unchecked(
        &mut self,
        offset: usize,
        len: usize,
    ) -> Result<(), JobError> {
        debug_assert!(self.has_margin(0, len + STRIDE));
        self.check_offset(offset)?;
        // SAFETY: the offset lies inside what is written; the caller says the rest.
        unsafe { self.repeat_strides(offset, len) };
        Ok(())
    }

    /// The byte that comes next.
    ///
    /// # Errors
    /// [`JobError::Malformed`] at the item's end.
    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, JobError> {
        let byte = self.item.get(self.read).ok_or(JobError::Malformed)?;
        self.read += 1;
        Ok(*byte)
    }

    /// The number of `bytes` bytes that comes next, little endian.
    ///
    /// # Errors
    /// [`JobError::Malformed`] at the item's end.
    #[inline]
    pub(super) fn number(&mut self, bytes: usize) -> Result<usize, JobError> {
        let number = self.item[self.read..]
            .get(..bytes)
            .ok_or(JobError::Malformed)?;
        self.read += bytes;
        Ok(number
            .iter()
            .rev()
            .fold(0, |all, &byte| all << 8 | usize::from(byte)))
    }

    /// Moves `len` bytes from the item to the slot.
    ///
    /// # Errors
    /// [`JobError::Malformed`] if the item has fewer; [`JobError::DstTooShort`].
    #[inline(always)]
    pub(super) fn literals(&mut self, len: usize) -> Result<(), JobError> {
        let (left, room) = (self.item.len() - self.read, self.slot.len() - self.written);
        if len <= SHORT && left >= len + STRIDE && room >= len + STRIDE {
            let mut done = 0;
            while done < len {
                // SAFETY: a stride that starts before `len` ends inside what was just seen to be left of both.
                unsafe {
                    let from = self.item.as_ptr().add(self.read + done);
                    copy_stride(from, self.slot.as_mut_ptr().add(self.written + done));
                }
                done += STRIDE;
            }
        } else {
            self.long_literals(len)?;
        }
        self.read += len;
        self.written += len;
        Ok(())
    }

    /// Copies what is long, or near an end.
    fn long_literals(&mut self, len: usize) -> Result<(), JobError> {
        let bytes = self.item[self.read..]
            .get(..len)
            .ok_or(JobError::Malformed)?;
        let room = self.slot[self.written..].get_mut(..len);
        room.ok_or(JobError::DstTooShort)?.copy_from_slice(bytes);
        Ok(())
    }

    /// Like [`Copier::repeat_unchecked`], of any length and wherever the slot ends.
    ///
    /// # Errors
    /// [`JobError::Malformed`] if they start before the first byte, or at the end; [`JobError::DstTooShort`].
    #[inline]
    pub(super) fn repeat(&mut self, offset: usize, len: usize) -> Result<(), JobError> {
        self.check_offset(offset)?;
        let room = self.slot.len() - self.written;
        if len > room {
            return Err(JobError::DstTooShort);
        }
        if room - len >= STRIDE {
            // SAFETY: the offset lies inside what is written; the room was just looked at.
            unsafe { self.repeat_strides(offset, len) };
        } else {
            for _ in 0..len {
                self.slot[self.written] = self.slot[self.written - offset];
                self.written += 1;
            }
        }
        Ok(())
    }

    /// One comparison for both: an offset of 0, and one beyond the first byte.
    #[inline(always)]
    fn check_offset(&self, offset: usize) -> Result<(), JobError> {
        if offset.wrapping_sub(1) < self.written {
            Ok(())
        } else {
            Err(JobError::Malformed)
        }
    }

    /// Appends `len` bytes that start `offset` before the end.
    ///
    /// # Safety
    /// `offset` is 1 to `written`, and the slot has room for `len` bytes and a stride.
    #[inline(always)]
    unsafe fn repeat_strides(&mut self, offset: usize, len: usize) {
        // SAFETY: `written` is inside the slot, and so is `offset` before it; so many bytes behind it are room.
        let (mut to, mut from, end) = unsafe {
            let to = self.slot.as_mut_ptr().add(self.written);
            (to, to.sub(offset), to.add(len))
        };
        self.written += len;
        let mut distance = offset;
        while distance < STRIDE {
            // What follows `from` repeats itself every `distance` bytes, and after this every twice as many.
            // SAFETY: both start before `end`, and behind that is a stride of room.
            unsafe {
                copy_stride(from, to);
                to = to.add(distance);
            }
            distance *= 2;
            if to >= end {
                return;
            }
        }
        loop {
            // SAFETY: both start before `end`, and behind that is a stride of room.
            unsafe {
                copy_stride(from, to);
                (from, to) = (from.add(STRIDE), to.add(STRIDE));
            }
            if to >= end {
                return;
            }
        }
    }
}

/// Reads a stride, then writes it: they may overlap.
///
/// # Safety
/// Both pointers are good for a stride.
#[inline(always)]
unsafe fn copy_stride(from: *const u8, to: *mut u8) {
    // SAFETY: the caller says so.
    unsafe {
        let stride = from.cast::<[u8; STRIDE]>().read_unaligned();
        to.cast::<[u8; STRIDE]>().write_unaligned(stride);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each offset, length and room, against copying byte by byte; whatever is written behind the last byte stays in the slot.
    #[test]
    fn repeats_are_as_if_byte_by_byte() {
        let start: Vec<u8> = (0..40).collect();
        for offset in 0..=41 {
            for len in 1..=100 {
                for slack in [0, 1, STRIDE - 1, STRIDE, 40] {
                    let mut slot = vec![0xA5; start.len() + len + slack];
                    let mut copier = Copier::new(&start, &mut slot);
                    copier.literals(start.len()).expect("room");
                    let repeated = copier.repeat(offset, len);
                    if offset == 0 || offset > start.len() {
                        assert_eq!(repeated, Err(JobError::Malformed));
                        continue;
                    }
                    assert_eq!((repeated, copier.written()), (Ok(()), start.len() + len));
                    let mut right = start.clone();
                    for _ in 0..len {
                        right.push(right[right.len() - offset]);
                    }
                    assert_eq!(slot[..right.len()], right, "offset {offset}, length {len}");
                }
            }
        }
        let mut slot = [0; 9];
        let mut copier = Copier::new(&start, &mut slot);
        copier.literals(8).expect("room");
        assert_eq!(copier.repeat(8, 2), Err(JobError::DstTooShort));
        assert_eq!(copier.literals(2), Err(JobError::DstTooShort));
    }
}
