//! Bits, first the lowest of a byte.

use dpb_core::JobError;

/// A slot that fills bit by bit.
pub(super) struct Bits<'a> {
    out: &'a mut [u8],
    /// Whole bytes written.
    len: usize,
    /// Bits that wait for their byte.
    word: u64,
    /// How many; below 8 after a flush.
    waiting: u32,
}

impl<'a> Bits<'a> {
    /// Most bits that may be put between two flushes.
    pub(super) const WORD: u32 = 64 - 7;
    /// Bytes that a flush touches beyond those that it completes.
    pub(super) const MARGIN: usize = 8;

    pub(super) fn new(out: &'a mut [u8]) -> Self {
        Self {
            out,
            len: 0,
            word: 0,
            waiting: 0,
        }
    }

    /// The same, into other memory: what waits goes along.
    pub(super) fn detour<'b>(&self, out: &'b mut [u8]) -> Bits<'b> {
        Bits {
            out,
            len: 0,
            word: self.word,
            waiting: self.waiting,
        }
    }

    /// Takes over what a detour wrote.
    ///
    /// # Errors
    /// [`JobError::DstTooShort`].
    pub(super) fn rejoin(&mut self, other: &Bits<'_>) -> Result<(), JobError> {
        self.push(&other.out[..other.len])?;
        (self.word, self.waiting) = (other.word, other.waiting);
        if self.len() > self.out.len() {
            return Err(JobError::DstTooShort);
        }
        Ok(())
    }

    /// Runs `code` on this in registers: what is behind a reference is written back again and again.
    #[inline(always)]
    pub(super) fn in_registers(&mut self, code: impl FnOnce(&mut Bits<'_>)) {
        let mut bits = Bits {
            out: &mut *self.out,
            ..*self
        };
        code(&mut bits);
        (self.len, self.word, self.waiting) = (bits.len, bits.word, bits.waiting);
    }

    /// Bytes that are left, those not yet whole included.
    pub(super) fn room(&self) -> usize {
        self.out.len() - self.len
    }

    /// Bytes written, the last one perhaps not whole.
    pub(super) fn len(&self) -> usize {
        self.len + usize::from(self.waiting > 0)
    }

    /// Bits that wait for their byte.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Appends the low `count` bits of `bits`, the others being 0.
    #[inline(always)]
    pub(super) fn put(&mut self, bits: u32, count: u32) {
        self.word |= u64::from(bits) << self.waiting;
        self.waiting += count;
    }

    /// Writes what is whole. There must be room for it and for [`Bits::MARGIN`].
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        self.out[self.len..self.len + 8].copy_from_slice(&self.word.to_le_bytes());
        self.len += (self.waiting / 8) as usize;
        self.word >>= self.waiting & !7;
        self.waiting &= 7;
    }

    /// Goes on at the next whole byte, with `bytes`.
    ///
    /// # Errors
    /// [`JobError::DstTooShort`].
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), JobError> {
        let room = self.out[self.len..].get_mut(..bytes.len());
        room.ok_or(JobError::DstTooShort)?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Fills the byte up with zeros.
    ///
    /// # Errors
    /// [`JobError::DstTooShort`].
    pub(super) fn align(&mut self) -> Result<(), JobError> {
        let word = self.word.to_le_bytes();
        let whole = self.waiting.div_ceil(8) as usize;
        self.push(&word[..whole])?;
        (self.word, self.waiting) = (0, 0);
        Ok(())
    }

    /// The length, after the last bit. Room for it was seen.
    pub(super) fn finish(mut self) -> Result<usize, JobError> {
        self.align()?;
        Ok(self.len)
    }
}
