//! What an item is made of, in each mode.

use dpb_core::{Batch, BatchOut, Direction, JobError, OpSpec, SetupError};

/// Bytes of a block.
pub(super) const BLOCK: usize = 16;
/// Bytes of GCM's nonce: the length for which SP 800-38D needs no hashing, and which every protocol uses.
const NONCE: usize = 12;
/// Bytes of GCM's tag.
pub(super) const TAG: usize = 16;
/// The longest data unit of XTS (SP 800-38E, 4).
const XTS_BYTES_MAX: usize = BLOCK << 20;

/// A mode of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Gcm,
    Ctr,
    Cbc,
    Xts,
}

/// A mode, which way, and how much of an item is additional data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) mode: Mode,
    pub(super) direction: Direction,
    aad_bytes: usize,
}

/// An item, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    /// All of it.
    pub(super) item: &'a [u8],
    /// Nonce, counter block, initialisation vector or tweak.
    pub(super) iv: &'a [u8],
    pub(super) aad: &'a [u8],
    pub(super) text: &'a [u8],
    /// Of GCM, where it is to be checked.
    pub(super) tag: &'a [u8],
}

impl Form {
    /// What `spec` says, and its key, which has a length that there is.
    ///
    /// # Errors
    /// If it is no spec of AES, the key is not as long as it should be, or the two keys of XTS are equal.
    pub(super) fn of(spec: &OpSpec) -> Result<(Self, &[u8]), SetupError> {
        let (mode, direction, aad_bytes, key) = match spec {
            OpSpec::AesGcm {
                direction,
                aad_bytes,
                key,
            } => (Mode::Gcm, *direction, *aad_bytes, key),
            OpSpec::AesCtr { key } => (Mode::Ctr, Direction::Encrypt, 0, key),
            OpSpec::AesCbc { direction, key } => (Mode::Cbc, *direction, 0, key),
            OpSpec::AesXts { direction, key } => (Mode::Xts, *direction, 0, key),
            other => return Err(SetupError::Parameter(format!("{other} is not AES"))),
        };
        let form = Self {
            mode,
            direction,
            aad_bytes: usize::from(aad_bytes),
        };
        let key = key.bytes();
        let len = key.len();
        match (form.keys(), len) {
            (1, 16 | 32) => {}
            (2, 32 | 64) if differ(&key[..len / 2], &key[len / 2..]) => {}
            (2, 32 | 64) => {
                return Err(SetupError::Parameter(format!(
                    "{spec}: its two keys are equal, which SP 800-38E forbids"
                )));
            }
            (keys, _) => {
                return Err(SetupError::Parameter(format!(
                    "{spec}: a key of {len} bytes, {} or {} are needed",
                    16 * keys,
                    32 * keys
                )));
            }
        }
        Ok((form, key))
    }

    /// Itself, said so that the compiler knows mode and direction.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn known(self, mode: Mode, direction: Direction) -> Self {
        debug_assert!(self.mode == mode);
        Self {
            mode,
            direction,
            ..self
        }
    }

    /// How many keys it takes.
    pub(super) fn keys(self) -> usize {
        match self.mode {
            Mode::Gcm | Mode::Ctr | Mode::Cbc => 1,
            Mode::Xts => 2,
        }
    }

    /// Bytes in front of the text.
    pub(super) fn head_bytes(self) -> usize {
        self.iv_bytes() + self.aad_bytes
    }

    /// The text that carries `plain`: itself, with zeros behind it where the mode takes no text of that length.
    pub(super) fn text(self, plain: &[u8]) -> Vec<u8> {
        let mut text = plain.to_vec();
        match self.mode {
            Mode::Gcm | Mode::Ctr => {}
            Mode::Cbc => text.resize(plain.len().next_multiple_of(BLOCK), 0),
            Mode::Xts => text.resize(plain.len().max(BLOCK), 0),
        }
        text
    }

    /// Bytes of the output of an item of `item_len` bytes, if it is valid.
    pub(super) fn output_bytes_max(self, item_len: usize) -> usize {
        let text = item_len.saturating_sub(self.head_bytes() + self.tag_bytes(Direction::Decrypt));
        text.saturating_add(self.tag_bytes(Direction::Encrypt))
    }

    /// Takes an item apart.
    ///
    /// # Errors
    /// If the mode has no such item.
    #[inline(always)]
    pub(super) fn parts(self, item: &[u8]) -> Result<Parts<'_>, JobError> {
        let short = JobError::Malformed;
        let (iv, rest) = item.split_at_checked(self.iv_bytes()).ok_or(short)?;
        let (aad, rest) = rest.split_at_checked(self.aad_bytes).ok_or(short)?;
        let text = rest.len().checked_sub(self.tag_bytes(Direction::Decrypt));
        let (text, tag) = rest.split_at(text.ok_or(short)?);
        let is_right = match self.mode {
            Mode::Gcm | Mode::Ctr => true,
            Mode::Cbc => text.len().is_multiple_of(BLOCK),
            Mode::Xts => text.len() >= BLOCK,
        };
        if !is_right {
            return Err(JobError::Malformed);
        }
        if self.mode == Mode::Xts && text.len() > XTS_BYTES_MAX {
            return Err(JobError::TooLong);
        }
        Ok(Parts {
            item,
            iv,
            aad,
            text,
            tag,
        })
    }

    /// An item's parts, and so many bytes at the start of its slot as its output has.
    ///
    /// # Errors
    /// If the mode has no such item, or the slot is too short.
    #[inline(always)]
    pub(super) fn place<'a, 'b>(
        self,
        item: &'a [u8],
        slot: &'b mut [u8],
    ) -> Result<(Parts<'a>, &'b mut [u8]), JobError> {
        let parts = self.parts(item)?;
        let len = parts.text.len() + self.tag_bytes(Direction::Encrypt);
        let to = slot.get_mut(..len).ok_or(JobError::DstTooShort)?;
        Ok((parts, to))
    }

    /// Runs `code` on each item's parts and on as much of its slot as its output has, and notes each outcome.
    #[inline(always)]
    pub(super) fn each(
        self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        mut code: impl FnMut(Parts<'_>, &mut [u8]) -> Result<(), JobError>,
    ) {
        // At once, so that the list is not asked for room at each item.
        out.outcomes.resize(batch.len(), Ok(0));
        for ((i, to), outcome) in out.slots.into_iter().enumerate().zip(out.outcomes) {
            *outcome = self.place(batch.item(i), to).and_then(|(parts, to)| {
                code(parts, to)?;
                u32::try_from(to.len()).map_err(|_| JobError::TooLong)
            });
        }
    }

    fn iv_bytes(self) -> usize {
        match self.mode {
            Mode::Gcm => NONCE,
            Mode::Ctr | Mode::Cbc | Mode::Xts => BLOCK,
        }
    }

    /// Bytes of the tag behind the text that `direction` writes, or reads.
    fn tag_bytes(self, writes_or_reads: Direction) -> usize {
        match self.mode == Mode::Gcm && self.direction == writes_or_reads {
            true => TAG,
            false => 0,
        }
    }
}

/// In the same time wherever they do.
fn differ(a: &[u8], b: &[u8]) -> bool {
    a.iter().zip(b).fold(0, |bits, (a, b)| bits | (a ^ b)) != 0
}
