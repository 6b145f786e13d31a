//! What an item is made of, in each mode.

use aes::cipher::inout::InOutBuf;
use dpb_core::sessions::{self, NUMBER_BYTES};
use dpb_core::{
    Batch, BatchIter, BatchOut, Direction, InPlace, JobError, OpSpec, Overlay, Overlays,
    SetupError, SlotIter, match_spec,
    spec::{self},
};

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
    /// Bytes of the number of a session, with which an item begins.
    number_bytes: usize,
}

/// An item, taken apart, and where its output goes.
pub(super) struct Parts<'a> {
    /// Nonce, counter block, initialisation vector or tweak.
    pub(super) iv: &'a [u8],
    pub(super) aad: &'a [u8],
    pub(super) text: InOutBuf<'a, 'a, u8>,
    /// Of GCM, where it is to be checked.
    pub(super) tag: &'a [u8],
    /// Of GCM, where it is to be made.
    pub(super) tag_to: &'a mut [u8],
}

/// Items, where their outputs go, and their outcomes. The code is made for each kind of [`Places`]: a short item is over in ten
/// nanoseconds.
pub(super) struct Work<'a, P> {
    pub(super) places: P,
    pub(super) outcomes: &'a mut Vec<Result<u32, JobError>>,
}

/// Items and where their outputs go.
pub(super) trait Places<'a> {
    /// The number of items that are left.
    fn count(&self) -> usize;
    /// The parts of the next item.
    ///
    /// # Errors
    /// If the mode has no such item, or its slot is too short.
    fn next(&mut self, form: Form) -> Result<Parts<'a>, JobError>;
    /// The same places, if all items are of one length, which the mode has, and all lie at a stride, as slots do: items are not checked one by one
    /// then, and the compiler knows how they lie. All other calls get the same form.
    ///
    /// # Errors
    /// Themselves, if they are others, or none.
    fn alike(self, form: Form) -> Result<Self, Self>
    where
        Self: Sized;
    /// Bytes of the output of each item that is not refused, of items that are [alike](Self::alike).
    fn output_bytes(&self) -> Option<u32>;
    /// The number of the session of the item that comes `ahead` items behind the next one. `None` if there is no such item, or if it is too
    /// short for a number.
    fn session(&self, ahead: usize) -> Option<u32>;
}

/// Items, and slots that are somewhere else.
pub(super) struct Apart<'a> {
    items: BatchIter<'a>,
    slots: SlotIter<'a>,
    /// See [`Places::output_bytes`].
    output_bytes: Option<u32>,
}

/// See [`Form::items`].
pub(super) struct Each<'a, P> {
    form: Form,
    places: P,
    outcomes: std::slice::IterMut<'a, Result<u32, JobError>>,
}

impl<'a, P: Places<'a>> Iterator for Each<'a, P> {
    type Item = (Parts<'a>, &'a mut Result<u32, JobError>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let outcome = self.outcomes.next()?;
            match self.places.next(self.form) {
                Ok(parts) => {
                    *outcome = self.form.bytes_made(parts.text.len());
                    if outcome.is_ok() {
                        return Some((parts, outcome));
                    }
                }
                Err(error) => *outcome = Err(error),
            }
        }
    }
}

impl<'a> Work<'a, Apart<'a>> {
    /// Outputs go somewhere else.
    pub(super) fn apart(batch: Batch<'a>, out: BatchOut<'a>) -> Self {
        let places = Apart {
            items: batch.iter(),
            slots: out.slots.into_iter(),
            output_bytes: None,
        };
        let outcomes = out.outcomes;
        Self { places, outcomes }
    }
}

impl<'a> Work<'a, Overlays<'a>> {
    /// Outputs take the place of their texts.
    pub(super) fn in_place(items: InPlace<'a>) -> Self {
        Self {
            places: items.items,
            outcomes: items.outcomes,
        }
    }
}

impl<'a> Places<'a> for Apart<'a> {
    fn count(&self) -> usize {
        self.items.len()
    }

    #[inline(always)]
    fn next(&mut self, form: Form) -> Result<Parts<'a>, JobError> {
        let pair = self.items.next().zip(self.slots.next());
        let (item, slot) = pair.expect("one for each item");
        if self.output_bytes.is_none() {
            form.text_bytes(item.len())?;
        }
        form.apart(item, slot)
    }

    #[inline(always)]
    fn alike(self, form: Form) -> Result<Self, Self> {
        let bytes = |item: &[u8]| form.bytes_made(form.text_bytes(item.len())?);
        let (Some(items), Some(Ok(output_bytes))) =
            (self.items.strided(), self.items.peek(0).map(bytes))
        else {
            return Err(self);
        };
        match self.slots.strided() {
            Ok(slots) => Ok(Self {
                items,
                slots,
                output_bytes: Some(output_bytes),
            }),
            Err(slots) => Err(Self { slots, ..self }),
        }
    }

    #[inline(always)]
    fn output_bytes(&self) -> Option<u32> {
        self.output_bytes
    }

    #[inline(always)]
    fn session(&self, ahead: usize) -> Option<u32> {
        match self.items.peek(ahead) {
            Some(item) => sessions::number(item),
            None => None,
        }
    }
}

impl<'a> Places<'a> for Overlays<'a> {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn next(&mut self, form: Form) -> Result<Parts<'a>, JobError> {
        let overlay = Iterator::next(self).expect("one for each item");
        form.overlaid(overlay)
    }

    /// Overlays are checked one by one.
    #[inline(always)]
    fn alike(self, _form: Form) -> Result<Self, Self> {
        Err(self)
    }

    #[inline(always)]
    fn output_bytes(&self) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn session(&self, ahead: usize) -> Option<u32> {
        match ahead < self.len() {
            true => sessions::number(self.item(ahead)),
            false => None,
        }
    }
}

impl Form {
    /// The form that `spec` says, and its key, which has a length that there is.
    ///
    /// # Errors
    /// If it is no spec of AES, the key is not as long as it should be, or the two keys of XTS are equal.
    pub(super) fn of(spec: &OpSpec) -> Result<(Self, &[u8]), SetupError> {
        let (mode, direction, aad_bytes, key) = match_spec!(spec, {
            spec::AesGcm { direction, aad_bytes, key } => (Mode::Gcm, *direction, *aad_bytes, key),
            spec::AesCtr { key } => (Mode::Ctr, Direction::Encrypt, 0, key),
            spec::AesCbc { direction, key } => (Mode::Cbc, *direction, 0, key),
            spec::AesXts { direction, key } => (Mode::Xts, *direction, 0, key),
        } else {
            return Err(SetupError::Parameter(format!("{spec} is not AES")));
        });
        let form = Self {
            mode,
            direction,
            aad_bytes: usize::from(aad_bytes),
            number_bytes: 0,
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

    /// Itself, of a mode and a direction that the compiler knows, and so the bytes of additional data where the mode has none.
    #[inline(always)]
    pub(super) fn known(self, mode: Mode, direction: Direction) -> Self {
        debug_assert!(self.mode == mode);
        let aad_bytes = match mode {
            Mode::Gcm => self.aad_bytes,
            Mode::Ctr | Mode::Cbc | Mode::Xts => 0,
        };
        Self {
            mode,
            direction,
            aad_bytes,
            ..self
        }
    }

    /// Itself, of items that begin with the number of a session, or do not.
    #[inline(always)]
    pub(super) fn numbered(self, has_number: bool) -> Self {
        let number_bytes = if has_number { NUMBER_BYTES } else { 0 };
        Self {
            number_bytes,
            ..self
        }
    }

    /// The number of keys that it takes.
    pub(super) fn keys(self) -> usize {
        match self.mode {
            Mode::Gcm | Mode::Ctr | Mode::Cbc => 1,
            Mode::Xts => 2,
        }
    }

    /// Bytes in front of the text.
    pub(super) fn head_bytes(self) -> usize {
        self.number_bytes + self.iv_bytes() + self.aad_bytes
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

    /// Bytes of the text in an item of `item_len` bytes.
    ///
    /// # Errors
    /// If the mode has no such item.
    #[inline(always)]
    fn text_bytes(self, item_len: usize) -> Result<usize, JobError> {
        let others = self.head_bytes() + self.tag_bytes(Direction::Decrypt);
        let text = item_len.checked_sub(others).ok_or(JobError::Malformed)?;
        let is_right = match self.mode {
            Mode::Gcm | Mode::Ctr => true,
            Mode::Cbc => text.is_multiple_of(BLOCK),
            Mode::Xts => text >= BLOCK,
        };
        match is_right {
            false => Err(JobError::Malformed),
            true if self.mode == Mode::Xts && text > XTS_BYTES_MAX => Err(JobError::TooLong),
            true => Ok(text),
        }
    }

    /// Bytes of the output of an item with so many bytes of text.
    ///
    /// # Errors
    /// If they are too many for an outcome.
    #[inline(always)]
    pub(super) fn bytes_made(self, text_bytes: usize) -> Result<u32, JobError> {
        let bytes = text_bytes + self.tag_bytes(Direction::Encrypt);
        u32::try_from(bytes).map_err(|_| JobError::TooLong)
    }

    /// The parts of an item that the mode has, with those of its slot.
    ///
    /// # Errors
    /// If the slot is too short.
    ///
    /// # Panics
    /// If the mode has no such item.
    #[inline(always)]
    fn apart<'a>(self, item: &'a [u8], slot: &'a mut [u8]) -> Result<Parts<'a>, JobError> {
        // All lengths follow from the item's, so the compiler checks it once.
        let (head, rest) = item.split_at(self.head_bytes());
        let (iv, aad) = head[self.number_bytes..].split_at(self.iv_bytes());
        let text_bytes = rest.len() - self.tag_bytes(Direction::Decrypt);
        let (text, tag) = rest.split_at(text_bytes);
        let len = text_bytes + self.tag_bytes(Direction::Encrypt);
        let to = slot.get_mut(..len).ok_or(JobError::DstTooShort)?;
        let (to, tag_to) = to.split_at_mut(text_bytes);
        let text = InOutBuf::new(text, to).expect("as many bytes");
        Ok(Parts {
            iv,
            aad,
            text,
            tag,
            tag_to,
        })
    }

    /// The parts of an item over which its output is written.
    ///
    /// # Errors
    /// If the mode has no such item, or the slot is too short.
    #[inline(always)]
    fn overlaid(self, overlay: Overlay<'_>) -> Result<Parts<'_>, JobError> {
        let text_bytes = self.text_bytes(overlay.item_len)?;
        let made = self.tag_bytes(Direction::Encrypt);
        if overlay.slot_len < text_bytes + made {
            return Err(JobError::DstTooShort);
        }
        let (head, rest) = overlay.bytes.split_at_mut(self.head_bytes());
        let (iv, aad) = head[self.number_bytes..].split_at(self.iv_bytes());
        let (text, rest) = rest.split_at_mut(text_bytes);
        let (tag_to, rest) = rest.split_at_mut(made);
        Ok(Parts {
            iv,
            aad,
            text: text.into(),
            tag: &rest[..self.tag_bytes(Direction::Decrypt)],
            tag_to,
        })
    }

    /// The parts of each item that the mode has, and its outcome, which is that all is well.
    #[inline(always)]
    fn items<'a, P: Places<'a>>(self, work: Work<'a, P>) -> Each<'a, P> {
        // At once, so that the list is not asked for room at each item.
        work.outcomes.resize(work.places.count(), Ok(0));
        Each {
            form: self,
            places: work.places,
            outcomes: work.outcomes.iter_mut(),
        }
    }

    /// Runs `code` on each item's parts, and notes each outcome.
    #[inline(always)]
    pub(super) fn each<'a>(
        self,
        work: Work<'a, impl Places<'a>>,
        mut code: impl FnMut(Parts<'a>) -> Result<(), JobError>,
    ) {
        for (parts, outcome) in self.items(work) {
            if let Err(error) = code(parts) {
                *outcome = Err(error);
            }
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
