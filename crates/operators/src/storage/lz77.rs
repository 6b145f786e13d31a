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

    /// The same for at most 18 bytes. Moves of eight bytes find what was written shortly before more often in one piece than strides do.
    ///
    /// # Errors
    /// As those of [`Copier::repeat_unchecked`].
    ///
    /// # Safety
    /// As that of [`Copier::repeat_unchecked`].
    #[inline(always)]
    pub(super) unsafe fn repeat_short_unchecked(
        &mut self,
        offset: usize,
        len: usize,
    ) -> Result<(), JobError> {
        debug_assert!(len <= 18 && self.has_margin(0, len + STRIDE));
        self.check_offset(offset)?;
        if offset < 8 {
            // SAFETY: the offset lies inside what is written; the caller says the rest.
            unsafe { self.repeat_strides(offset, len) };
            return Ok(());
        }
        // SAFETY: the offset lies inside what is written, and 18 bytes are less than `len`, 4 or more, and a stride.
        unsafe {
            let to = self.slot.as_mut_ptr().add(self.written);
            let from = to.sub(offset);
            for at in [0, 8] {
                let eight = from.add(at).cast::<[u8; 8]>().read_unaligned();
                to.add(at).cast::<[u8; 8]>().write_unaligned(eight);
            }
            let two = from.add(16).cast::<[u8; 2]>().read_unaligned();
            to.add(16).cast::<[u8; 2]>().write_unaligned(two);
        }
        self.written += len;
        Ok(())
    }

    /// The byte that comes next.
    ///
    /// # Errors
    /// [`JobError::Malformed`] at the item's end.
    #[inline(always)]
    pub(super) fn byte(&mut self) -> Result<u8, JobError> {
        let byte = self.item.get(self.read).ok_or(JobError::Malformed)?;
        self.read += 1;
        Ok(*byte)
    }

    /// The number of `bytes` bytes that comes next, little endian.
    ///
    /// # Errors
    /// [`JobError::Malformed`] at the item's end.
    #[inline(always)]
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
        if len <= SHORT && left.min(room) >= len + 2 * STRIDE {
            let mut done = 0;
            while done < len {
                // SAFETY: a stride that starts before `len` ends inside what was just seen to be left of both.
                unsafe {
                    let from = self.item.as_ptr().add(self.read + done);
                    let to = self.slot.as_mut_ptr().add(self.written + done);
                    copy_stride(from, to);
                    copy_stride(from.add(STRIDE), to.add(STRIDE));
                }
                done += 2 * STRIDE;
            }
        } else {
            self.long_literals(len)?;
        }
        self.read += len;
        self.written += len;
        Ok(())
    }

    /// Copies what is long, or near an end.
    #[inline(always)]
    fn long_literals(&mut self, len: usize) -> Result<(), JobError> {
        let bytes = self.item[self.read..].get(..len);
        let bytes = bytes.ok_or(JobError::Malformed)?;
        let room = self.slot[self.written..].get_mut(..len);
        let room = room.ok_or(JobError::DstTooShort)?;
        if len <= 2 * STRIDE {
            // SAFETY: both slices have `len` bytes, and share none.
            unsafe { copy_exact(bytes.as_ptr(), room.as_mut_ptr(), len) };
        } else {
            room.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Like [`Copier::repeat_unchecked`], of any length and wherever the slot ends.
    ///
    /// # Errors
    /// [`JobError::Malformed`] if they start before the first byte, or at the end; [`JobError::DstTooShort`].
    #[inline(always)]
    pub(super) fn repeat(&mut self, offset: usize, len: usize) -> Result<(), JobError> {
        self.check_offset(offset)?;
        if self.slot.len() - self.written >= len + STRIDE {
            // SAFETY: the offset lies inside what is written; the room was just looked at.
            unsafe { self.repeat_strides(offset, len) };
            Ok(())
        } else {
            // By parts: whoever is called with all of this keeps it out of registers.
            repeat_to_the_end(self.slot, self.written, offset, len)?;
            self.written += len;
            Ok(())
        }
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

/// Appends `len` bytes that start `offset`, 1 to `written`, before the end of what is written, and writes nothing behind them.
#[inline(never)]
fn repeat_to_the_end(
    slot: &mut [u8],
    written: usize,
    offset: usize,
    len: usize,
) -> Result<(), JobError> {
    let (done, room) = slot.split_at_mut(written);
    let room = room.get_mut(..len).ok_or(JobError::DstTooShort)?;
    let from = &done[done.len() - offset..];
    if len <= offset && len <= 2 * STRIDE {
        // SAFETY: `len` bytes begin at either, and share none: one is before what was written last, the other behind.
        unsafe { copy_exact(from.as_ptr(), room.as_mut_ptr(), len) };
    } else {
        for i in 0..len {
            room[i] = if i < offset {
                from[i]
            } else {
                room[i - offset]
            };
        }
    }
    Ok(())
}

/// Copies `len` bytes, at most two strides, and touches no others: two moves, which overlap if `len` is not twice as long as one.
///
/// # Safety
/// Both pointers are good for `len` bytes, which are not the same.
#[inline(always)]
unsafe fn copy_exact(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(len <= 2 * STRIDE);
    macro_rules! ends {
        ($move:ty) => {
            // SAFETY: a move has at most `len` bytes, so both lie inside them; the caller says the rest.
            unsafe {
                let last = len - size_of::<$move>();
                let (first, end) = (
                    from.cast::<$move>().read_unaligned(),
                    from.add(last).cast::<$move>().read_unaligned(),
                );
                to.cast::<$move>().write_unaligned(first);
                to.add(last).cast::<$move>().write_unaligned(end);
            }
        };
    }
    match len {
        0 => {}
        1 => ends!(u8),
        2..4 => ends!([u8; 2]),
        4..8 => ends!([u8; 4]),
        8..16 => ends!([u8; 8]),
        _ => ends!([u8; STRIDE]),
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
