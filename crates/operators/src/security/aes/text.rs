//! Text that is encrypted or decrypted: read, and written where it was read or somewhere else.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use aes::cipher::inout::InOutBuf;

/// Text as slices, for libraries that ask for them.
#[cfg(feature = "aws-lc")]
pub(super) enum Text<'a> {
    /// Read here, written there.
    Apart(&'a [u8], &'a mut [u8]),
    /// Written where it was read.
    InPlace(&'a mut [u8]),
}

#[cfg(feature = "aws-lc")]
impl<'a> Text<'a> {
    /// The slices of `text`.
    pub(super) fn of(text: InOutBuf<'a, 'a, u8>) -> Self {
        let len = text.len();
        let (from, to) = text.into_raw();
        // SAFETY: both have `len` bytes, are borrowed as long, and are the same or do not overlap.
        unsafe {
            let out = std::slice::from_raw_parts_mut(to, len);
            match std::ptr::eq(from, to) {
                true => Self::InPlace(out),
                false => Self::Apart(std::slice::from_raw_parts(from, len), out),
            }
        }
    }
}

/// Groups of `W` times `B` bytes, and what is left.
#[inline(always)]
pub(super) fn groups<'a, const W: usize, const B: usize>(
    text: InOutBuf<'a, 'a, u8>,
) -> (InOutBuf<'a, 'a, [[u8; B]; W]>, InOutBuf<'a, 'a, u8>) {
    let count = text.len() / (W * B);
    let (groups, rest) = text.split_at(count * W * B);
    let (from, to) = groups.into_raw();
    // SAFETY: as many bytes as `count` groups have, which need no alignment; of one and the same or of separate memory, as before.
    let groups = unsafe { InOutBuf::from_raw(from.cast(), to.cast(), count) };
    (groups, rest)
}

/// Up to `bytes` bytes at a time.
#[inline(always)]
pub(super) fn chunks<'a>(text: InOutBuf<'a, 'a, u8>, bytes: usize) -> Chunks<'a> {
    let len = text.len();
    let (from, to) = text.into_raw();
    Chunks {
        from,
        to,
        len,
        bytes,
        text: PhantomData,
    }
}

/// See [`chunks`]. Addresses rather than a rest that is split, which the compiler keeps in memory.
pub(super) struct Chunks<'a> {
    from: *const u8,
    to: *mut u8,
    len: usize,
    bytes: usize,
    text: PhantomData<InOutBuf<'a, 'a, u8>>,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = InOutBuf<'a, 'a, u8>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let len = self.len.min(self.bytes);
        if len == 0 {
            return None;
        }
        // SAFETY: the first `len` bytes of what is left, which nobody gets again.
        let chunk = unsafe { InOutBuf::from_raw(self.from, self.to, len) };
        self.from = self.from.wrapping_add(len);
        self.to = self.to.wrapping_add(len);
        self.len -= len;
        Some(chunk)
    }
}
