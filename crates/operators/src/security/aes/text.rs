//! Text that is encrypted or decrypted: read, and written where it was read or somewhere else.
#![allow(unsafe_code)]

use aes::cipher::inout::InOutBuf;

/// Bytes to read, and as many to write: the same, or others that do not overlap them.
pub(super) enum Text<'a> {
    /// Read here, written there.
    Apart(&'a [u8], &'a mut [u8]),
    /// Written where it was read.
    InPlace(&'a mut [u8]),
}

impl<'a> Text<'a> {
    /// Bytes of it.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Apart(text, _) => text.len(),
            Self::InPlace(text) => text.len(),
        }
    }

    /// What is written, which holds what was read.
    pub(super) fn copied(self) -> &'a mut [u8] {
        match self {
            Self::Apart(text, to) => {
                to.copy_from_slice(text);
                to
            }
            Self::InPlace(text) => text,
        }
    }

    /// For code that need not know where it writes.
    #[inline(always)]
    pub(super) fn both(self) -> InOutBuf<'a, 'a, u8> {
        match self {
            Self::Apart(text, to) => InOutBuf::new(text, to).expect("as many bytes"),
            Self::InPlace(text) => text.into(),
        }
    }

    /// To be read again, or wiped.
    pub(super) fn reborrow(&mut self) -> Text<'_> {
        match self {
            Self::Apart(text, to) => Text::Apart(text, to),
            Self::InPlace(text) => Text::InPlace(text),
        }
    }

    /// Overwrites what was written with zeros.
    pub(super) fn wipe(self) {
        match self {
            Self::Apart(_, to) => to.fill(0),
            Self::InPlace(text) => text.fill(0),
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
pub(super) fn chunks<'a>(
    text: InOutBuf<'a, 'a, u8>,
    bytes: usize,
) -> impl Iterator<Item = InOutBuf<'a, 'a, u8>> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take().filter(|text| !text.is_empty())?;
        let mid = text.len().min(bytes);
        let (chunk, behind) = text.split_at(mid);
        rest = Some(behind);
        Some(chunk)
    })
}
