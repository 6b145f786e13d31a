//! What the decoders of byte-oriented LZ77 formats share: literals and repeats, copied in strides where a stride may write
//! further than it must.

use dpb_core::JobError;

/// Bytes that one stride copies.
pub(super) const STRIDE: usize = 16;

/// A slot that fills from the front.
pub(super) struct Window<'a> {
    slot: &'a mut [u8],
    len: usize,
}

impl<'a> Window<'a> {
    /// An empty one.
    pub(super) fn new(slot: &'a mut [u8]) -> Self {
        Self { slot, len: 0 }
    }

    /// Bytes in it.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that still fit.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.slot.len() - self.len
    }

    /// Appends the first `len` bytes of `stride`, which is whole, if there is room for all of it.
    #[inline(always)]
    pub(super) fn push_stride(&mut self, stride: &[u8; STRIDE], len: usize) -> bool {
        let room = self
            .slot
            .get_mut(self.len..)
            .and_then(|rest| rest.first_chunk_mut());
        room.is_some_and(|room| {
            *room = *stride;
            self.len += len;
            true
        })
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`JobError::DstTooShort`].
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), JobError> {
        let room = self.slot.get_mut(self.len..self.len + bytes.len());
        room.ok_or(JobError::DstTooShort)?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Appends `len` of the bytes that start `offset` before the end; they may reach into what is being appended.
    ///
    /// # Errors
    /// [`JobError::Malformed`] if they start before the first byte, or at the end; [`JobError::DstTooShort`].
    #[inline(always)]
    pub(super) fn repeat(&mut self, offset: usize, len: usize) -> Result<(), JobError> {
        let from = self.len.wrapping_sub(offset);
        // One comparison for both: an offset of 0, and one beyond the first byte.
        if from >= self.len {
            return Err(JobError::Malformed);
        }
        if len > self.room() {
            return Err(JobError::DstTooShort);
        }
        if self.room() - len < STRIDE {
            self.repeat_bytes(from, len);
        } else if offset >= STRIDE {
            self.repeat_strides(from, len);
        } else {
            self.repeat_pattern(from, offset, len);
        }
        self.len += len;
        Ok(())
    }

    /// Source and destination are a stride apart at least, and there is room for a stride behind the last byte.
    #[inline(always)]
    fn repeat_strides(&mut self, from: usize, len: usize) {
        let mut done = 0;
        loop {
            let stride: [u8; STRIDE] =
                *self.slot[from + done..].first_chunk().expect("room for it");
            let to = self.slot[self.len + done..].first_chunk_mut();
            *to.expect("room for a stride behind the last byte") = stride;
            done += STRIDE;
            if done >= len {
                break;
            }
        }
    }

    /// The bytes overlap what they become: as many whole periods as a stride holds are written again and again.
    fn repeat_pattern(&mut self, from: usize, offset: usize, len: usize) {
        let mut pattern = [0; STRIDE];
        let period = &self.slot[from..self.len];
        for (at, byte) in pattern.iter_mut().enumerate() {
            *byte = period[at % offset];
        }
        let whole = STRIDE - STRIDE % offset;
        let mut done = 0;
        while done < len {
            let to = self.slot[self.len + done..].first_chunk_mut();
            *to.expect("room for a stride behind the last byte") = pattern;
            done += whole;
        }
    }

    /// Near the slot's end, where nothing may be written behind the last byte.
    #[cold]
    fn repeat_bytes(&mut self, from: usize, len: usize) {
        for at in 0..len {
            self.slot[self.len + at] = self.slot[from + at];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each offset, length and room, against copying byte by byte.
    #[test]
    fn repeats_are_as_if_byte_by_byte() {
        let start: Vec<u8> = (0..40).collect();
        for offset in 0..=41 {
            for len in 0..70 {
                for slack in [0, 1, STRIDE - 1, STRIDE, 40] {
                    let mut slot = vec![0xA5; start.len() + len + slack];
                    let mut window = Window::new(&mut slot);
                    window.push(&start).expect("room");
                    let repeated = window.repeat(offset, len);
                    if offset == 0 || offset > start.len() {
                        assert_eq!(repeated, Err(JobError::Malformed));
                        continue;
                    }
                    assert_eq!((repeated, window.len()), (Ok(()), start.len() + len));
                    let mut right = start.clone();
                    for _ in 0..len {
                        right.push(right[right.len() - offset]);
                    }
                    assert_eq!(slot[..right.len()], right, "offset {offset}, length {len}");
                }
            }
        }
        let mut slot = [0; 9];
        let mut window = Window::new(&mut slot);
        window.push(&start[..8]).expect("room");
        assert_eq!(window.repeat(8, 2), Err(JobError::DstTooShort));
        assert_eq!(window.push(&start[..2]), Err(JobError::DstTooShort));
    }
}
