//! Jobs and completions as bytes.
//!
//! The body of a job; what follows the head are the lists that its forms ask for, and then the bytes of the items:
//!
//! | at | bytes | of a job |
//! |---|---|---|
//! | 0 | 8 | id: the client's own, said again by the completion |
//! | 8 | 1 | form of the items: 0 at a stride from the first byte, 1 one behind another by a list of lengths, 2 by a list of spans |
//! | 9 | 1 | form of the slots: 0 of one length, 1 by a list of lengths |
//! | 10 | 2 | zero |
//! | 12 | 4 | items |
//! | 16, 20 | 4, 4 | length and stride of the items, of form 0 |
//! | 24 | 4 | length of the slots, of form 0 |
//! | 28 | 4 | bytes of the items |
//! | 32 | 4 or 8 an item | lengths of the items, or their spans: start and length |
//! | | 4 an item | lengths of the slots |
//! | | | the items |
//!
//! Where the queue has a transport beside the connection and the items have more than [`INLINE_BYTES_MAX`](crate::bulk::INLINE_BYTES_MAX)
//! bytes, the message is a placed job: the same without the items, which come in pieces of the agent's ring. So it is with the outputs of a
//! placed completion, and the client's ring.
//!
//! Items that lie together in the caller's memory are sent from there, others are gathered. Of items that overlap each byte is sent once: their
//! stride is kept, and of spans in one buffer what they cover is sent.
//!
//! | at | bytes | of a completion |
//! |---|---|---|
//! | 0 | 8 | id |
//! | 8 | 4 | 0, or the job's error |
//! | 12 | 4 | the code of a device's error |
//! | 16 | 4 an item | where outputs are variable: the length of the output; or 2^31 and an error, behind that of a device its code (4 bytes) |
//! | | | the outputs, one behind another |
//!
//! Errors have the numbers of [`number_of`]. After the error of a job nothing follows.

use std::ops::Range;

use dpb_core::{Items, JobError, JobParts, OutputShape, Span, Stride};

use super::codec::{Malformed, Reader};
use super::protocol::{HEADER_BYTES, Header, Tag};

/// Bytes of the front of a job's body.
pub(super) const JOB_HEAD_BYTES: usize = 32;
/// Bytes of the front of a completion's body.
pub(super) const DONE_HEAD_BYTES: usize = 16;
/// The bit of an outcome that is an error.
const IS_ERROR: u32 = 1 << 31;
const DEVICE: u32 = 10;

/// The form in which the places of items cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Form {
    Strided,
    Lengths,
    Spans,
}

/// The front of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JobHead {
    pub(super) id: u64,
    form: Form,
    has_slot_lens: bool,
    pub(super) count: u32,
    item_len: u32,
    item_step: u32,
    slot_len: u32,
    pub(super) input_bytes: u32,
}

/// Bytes that a job has, and where those of its items lie that are sent from the caller's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) input_bytes: usize,
    pub(super) slot_bytes: usize,
    pub(super) body: Body,
}

/// The items or outputs of a message, which are its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    /// Those that are sent from where they lie: in the first buffer. The others are in the message's head.
    pub(super) payload: Range<usize>,
    /// Bytes, of both, that go by another transport: all or none.
    pub(super) placed_bytes: usize,
}

/// The number of an error, and the code of a device's.
pub(super) fn number_of(error: JobError) -> (u32, i32) {
    match error {
        JobError::DstTooShort => (1, 0),
        JobError::Malformed => (2, 0),
        JobError::BadItems => (3, 0),
        JobError::ForeignBuffer => (4, 0),
        JobError::NotInPlace => (5, 0),
        JobError::TooLong => (6, 0),
        JobError::TooManyItems => (7, 0),
        JobError::BadOutcomes => (8, 0),
        JobError::Panicked => (9, 0),
        JobError::Device(code) => (DEVICE, code),
        // Of a newer kind, which has no number here.
        _ => (DEVICE, 0),
    }
}

/// The error that has this number.
pub(super) fn error_of(number: u32, code: i32) -> Result<JobError, Malformed> {
    Ok(match number {
        1 => JobError::DstTooShort,
        2 => JobError::Malformed,
        3 => JobError::BadItems,
        4 => JobError::ForeignBuffer,
        5 => JobError::NotInPlace,
        6 => JobError::TooLong,
        7 => JobError::TooManyItems,
        8 => JobError::BadOutcomes,
        9 => JobError::Panicked,
        DEVICE => JobError::Device(code),
        _ => return Err(Malformed("an error of no kind")),
    })
}

/// Bytes of the slots of a checked job for an operator of `shape`.
pub(super) fn slot_bytes(parts: &JobParts, shape: OutputShape) -> u64 {
    match (shape, &parts.slots) {
        (OutputShape::Fixed(bytes), slots) => bytes as u64 * slots.count() as u64,
        (_, Items::Strided(stride)) => u64::from(stride.len) * u64::from(stride.count),
        (_, Items::Spans(spans)) => spans.iter().map(|span| u64::from(span.len)).sum(),
        (_, slots) => {
            let lens = (0..slots.count()).map(|i| slots.place(i, &parts.dst).len as u64);
            lens.sum()
        }
    }
}

/// Writes the message of a checked job into `head`, but for the payload, which stays where it is and follows. The items are placed if they
/// have more than `inline_bytes_max` bytes.
pub(super) fn put_job(
    parts: &JobParts,
    shape: OutputShape,
    id: u64,
    inline_bytes_max: usize,
    head: &mut Vec<u8>,
) -> Encoded {
    head.clear();
    head.resize(HEADER_BYTES + JOB_HEAD_BYTES, 0);
    let count = small(parts.items.count());
    let mut front = JobHead {
        id,
        form: Form::Strided,
        has_slot_lens: false,
        count,
        item_len: 0,
        item_step: 0,
        slot_len: 0,
        input_bytes: 0,
    };
    let payload = put_items(parts, &mut front, head);
    put_slots(parts, shape, &mut front, head);
    let input_bytes = match payload {
        Some(ref payload) => payload.len(),
        None => gather(parts, &front, head),
    };
    front.input_bytes = small(input_bytes);
    let payload = payload.unwrap_or(0..0);
    let tags = [Tag::Job, Tag::JobPlaced];
    let body = put_header(tags, payload, input_bytes, inline_bytes_max, head);
    head[HEADER_BYTES..][..JOB_HEAD_BYTES].copy_from_slice(&front.bytes());
    Encoded {
        input_bytes,
        slot_bytes: slot_bytes(parts, shape) as usize,
        body,
    }
}

/// Writes the header of a message whose last `body_bytes` are items or outputs: as one of the first tag, or of the second if they are placed.
fn put_header(
    [inline, placed]: [Tag; 2],
    payload: Range<usize>,
    body_bytes: usize,
    inline_bytes_max: usize,
    head: &mut [u8],
) -> Body {
    let (tag, placed_bytes) = match body_bytes > inline_bytes_max {
        true => (placed, body_bytes),
        false => (inline, 0),
    };
    let len = head.len() + payload.len() - HEADER_BYTES - placed_bytes;
    head[..HEADER_BYTES].copy_from_slice(&Header { tag, len }.bytes());
    Body {
        payload,
        placed_bytes,
    }
}

/// Writes the places of the items. Says which bytes of the first buffer are sent; `None` if each item is to be gathered.
fn put_items(parts: &JobParts, front: &mut JobHead, head: &mut Vec<u8>) -> Option<Range<usize>> {
    match &parts.items {
        Items::One => {
            let len = parts.input()[0].len();
            (front.item_len, front.item_step) = (small(len), small(len));
            Some(0..len)
        }
        Items::Strided(stride) => put_stride(stride, front),
        Items::Offsets(offsets) => {
            front.form = Form::Lengths;
            let lens = offsets.windows(2).map(|pair| pair[1] - pair[0]);
            lens.for_each(|len| head.extend(len.to_le_bytes()));
            let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
            Some(first as usize..last as usize)
        }
        Items::Spans(spans) => put_spans(spans, front, head),
    }
}

fn put_stride(stride: &Stride, front: &mut JobHead) -> Option<Range<usize>> {
    let Stride {
        start,
        len,
        step,
        count,
    } = *stride;
    front.item_len = len;
    // One item has no distance to another.
    let step = if count <= 1 { len } else { step };
    front.item_step = step.min(len);
    let start = start as usize;
    let covered = count.saturating_sub(1) as usize * step as usize + len as usize;
    (step <= len).then_some(start..start + covered)
}

fn put_spans(spans: &[Span], front: &mut JobHead, head: &mut Vec<u8>) -> Option<Range<usize>> {
    let end = |span: &Span| u64::from(span.start) + u64::from(span.len);
    let first = spans.first().copied().unwrap_or_default();
    let (mut start, mut stop, mut sum) = (u64::from(first.start), end(&first), 0);
    let (mut is_row, mut is_of_first) = (true, true);
    let mut next = start;
    for span in spans {
        is_of_first &= span.buf == 0;
        is_row &= u64::from(span.start) == next;
        next = end(span);
        (start, stop) = (start.min(span.start.into()), stop.max(next));
        sum += u64::from(span.len);
    }
    let covers_less = is_of_first && stop - start < sum;
    if covers_less {
        front.form = Form::Spans;
        for span in spans {
            head.extend((span.start - start as u32).to_le_bytes());
            head.extend(span.len.to_le_bytes());
        }
    } else {
        front.form = Form::Lengths;
        spans
            .iter()
            .for_each(|span| head.extend(span.len.to_le_bytes()));
    }
    let is_together = covers_less || is_of_first && is_row;
    is_together.then_some(start as usize..stop as usize)
}

fn put_slots(parts: &JobParts, shape: OutputShape, front: &mut JobHead, head: &mut Vec<u8>) {
    match (shape, &parts.slots) {
        (OutputShape::Fixed(bytes), _) => front.slot_len = small(bytes),
        (_, Items::Strided(stride)) => front.slot_len = stride.len,
        (_, slots) => {
            front.has_slot_lens = true;
            let lens = (0..slots.count()).map(|i| small(slots.place(i, &parts.dst).len));
            lens.for_each(|len| head.extend(len.to_le_bytes()));
        }
    }
}

/// Appends every item; says how many bytes they have.
fn gather(parts: &JobParts, front: &JobHead, head: &mut Vec<u8>) -> usize {
    let (before, bufs) = (head.len(), parts.input());
    for i in 0..front.count as usize {
        head.extend_from_slice(parts.items.place(i, bufs).bytes(bufs));
    }
    head.len() - before
}

impl JobHead {
    fn bytes(&self) -> [u8; JOB_HEAD_BYTES] {
        let mut bytes = [0; JOB_HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8] = self.form as u8;
        bytes[9] = self.has_slot_lens.into();
        let words = [
            self.count,
            self.item_len,
            self.item_step,
            self.slot_len,
            self.input_bytes,
        ];
        for (word, place) in words.iter().zip(bytes[12..].as_chunks_mut::<4>().0) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Reads the front of a body of `len` bytes, among which the items are not if they are placed.
    pub(super) fn read(
        bytes: [u8; JOB_HEAD_BYTES],
        len: usize,
        is_placed: bool,
    ) -> Result<Self, Malformed> {
        let mut from = Reader::new(&bytes);
        let id = from.u64()?;
        let form = match from.u8()? {
            0 => Form::Strided,
            1 => Form::Lengths,
            2 => Form::Spans,
            _ => return Err(Malformed("items of no form")),
        };
        let has_slot_lens = from.bool()?;
        if from.u16()? != 0 {
            return Err(Malformed("a job of no form"));
        }
        let head = Self {
            id,
            form,
            has_slot_lens,
            count: from.u32()?,
            item_len: from.u32()?,
            item_step: from.u32()?,
            slot_len: from.u32()?,
            input_bytes: from.u32()?,
        };
        let items = match is_placed {
            true => 0,
            false => u64::from(head.input_bytes),
        };
        let whole = JOB_HEAD_BYTES as u64 + head.list_bytes() + items;
        match whole == len as u64 {
            true => Ok(head),
            false => Err(Malformed("a job of another length than it says")),
        }
    }

    /// Bytes of the lists that follow.
    pub(super) fn list_bytes(&self) -> u64 {
        let of_items = match self.form {
            Form::Strided => 0,
            Form::Lengths => 4,
            Form::Spans => 8,
        };
        let of_slots = if self.has_slot_lens { 4 } else { 0 };
        u64::from(self.count) * (of_items + of_slots)
    }
}

/// The lists of a job at the agent, kept between jobs so that nothing is allocated.
#[derive(Debug, Default)]
pub(super) struct Lists {
    offsets: [Vec<u32>; 2],
    spans: Vec<Span>,
}

impl Lists {
    /// Takes back the lists that a job no longer needs.
    pub(super) fn keep(&mut self, items: Items, slots: Items) {
        for (items, kept) in [items, slots].into_iter().zip(&mut self.offsets) {
            match items {
                Items::Spans(_) => self.spans = items.into_spans(),
                Items::Offsets(_) => *kept = items.into_offsets(),
                Items::One | Items::Strided(_) => {}
            }
        }
    }

    /// The items and the slots of a job, of whose lists `bytes` are all.
    ///
    /// # Errors
    /// If an item does not lie in the input, or bytes of the input are in no item where items lie one behind another.
    pub(super) fn read(
        &mut self,
        head: &JobHead,
        bytes: &[u8],
    ) -> Result<(Items, Items), Malformed> {
        let mut from = Reader::new(bytes);
        let [of_items, of_slots] = &mut self.offsets;
        let items = match head.form {
            Form::Strided => head.strided()?,
            Form::Lengths => {
                let (items, sum) = offsets(&mut from, head.count, of_items)?;
                match sum == head.input_bytes {
                    true => items,
                    false => return Err(Malformed("items of another length than all together")),
                }
            }
            Form::Spans => {
                let mut spans = std::mem::take(&mut self.spans);
                spans.clear();
                for _ in 0..head.count {
                    let (buf, start, len) = (0, from.u32()?, from.u32()?);
                    if u64::from(start) + u64::from(len) > u64::from(head.input_bytes) {
                        return Err(Malformed("an item beyond the input"));
                    }
                    spans.push(Span { buf, start, len });
                }
                Items::Spans(spans)
            }
        };
        let slots = match head.has_slot_lens {
            true => offsets(&mut from, head.count, of_slots)?.0,
            false => Items::fixed(head.slot_len, head.count),
        };
        from.end()?;
        Ok((items, slots))
    }
}

impl JobHead {
    fn strided(&self) -> Result<Items, Malformed> {
        let last = u64::from(self.count.saturating_sub(1)) * u64::from(self.item_step);
        let end = match self.count {
            0 => 0,
            _ => last + u64::from(self.item_len),
        };
        match end == u64::from(self.input_bytes) {
            true => Ok(Items::Strided(Stride {
                start: 0,
                len: self.item_len,
                step: self.item_step,
                count: self.count,
            })),
            false => Err(Malformed("items of another length than all together")),
        }
    }
}

/// Bytes of the slots that were read.
pub(super) fn slots_end(slots: &Items) -> u64 {
    match slots {
        Items::Strided(stride) => u64::from(stride.len) * u64::from(stride.count),
        Items::Offsets(offsets) => offsets.last().copied().unwrap_or(0).into(),
        Items::One | Items::Spans(_) => 0,
    }
}

/// Lengths as offsets, and their sum.
fn offsets(
    from: &mut Reader<'_>,
    count: u32,
    list: &mut Vec<u32>,
) -> Result<(Items, u32), Malformed> {
    let mut offsets = std::mem::take(list);
    offsets.clear();
    let mut end = 0_u32;
    offsets.push(end);
    for _ in 0..count {
        let next = end.checked_add(from.u32()?);
        end = next.ok_or(Malformed("lengths beyond 4 GiB"))?;
        offsets.push(end);
    }
    Ok((Items::Offsets(offsets.into()), end))
}

/// Writes the message of a completed job into `head`, but for the payload, which is in the first buffer of its output. Slots lie one
/// behind another there. The outputs are placed if they have more than `inline_bytes_max` bytes.
pub(super) fn put_done(
    parts: &JobParts,
    result: Result<(), JobError>,
    shape: OutputShape,
    id: u64,
    inline_bytes_max: usize,
    head: &mut Vec<u8>,
) -> Body {
    head.clear();
    head.resize(HEADER_BYTES, 0);
    head.extend(id.to_le_bytes());
    let (number, code) = result.err().map_or((0, 0), number_of);
    head.extend(number.to_le_bytes());
    head.extend(code.to_le_bytes());
    let (payload, output_bytes) = match (result, shape) {
        (Err(_), _) => (0..0, 0),
        (Ok(()), OutputShape::Fixed(bytes)) => {
            let bytes = bytes * parts.items.count();
            (0..bytes, bytes)
        }
        (Ok(()), OutputShape::Variable) => put_outputs(parts, head),
    };
    let tags = [Tag::Done, Tag::DonePlaced];
    put_header(tags, payload, output_bytes, inline_bytes_max, head)
}

/// Writes the outcomes, and the outputs unless there is only one; where that one lies, and the bytes of all.
fn put_outputs(parts: &JobParts, head: &mut Vec<u8>) -> (Range<usize>, usize) {
    for outcome in &parts.outcomes {
        match *outcome {
            Ok(len) => head.extend(len.to_le_bytes()),
            Err(error) => {
                let (number, code) = number_of(error);
                head.extend((IS_ERROR | number).to_le_bytes());
                if number == DEVICE {
                    head.extend(code.to_le_bytes());
                }
            }
        }
    }
    let output = |i: usize| {
        let len = parts.outcomes[i].map_or(0, |len| len as usize);
        let slot = parts.slots.place(i, &parts.dst);
        slot.start..slot.start + len
    };
    if parts.outcomes.len() == 1 {
        return (output(0), output(0).len());
    }
    let before = head.len();
    for i in 0..parts.outcomes.len() {
        head.extend_from_slice(&parts.dst[0][output(i)]);
    }
    (0..0, head.len() - before)
}

/// The front of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DoneHead {
    pub(super) id: u64,
    pub(super) result: Result<(), JobError>,
    /// Bytes that follow.
    pub(super) rest: usize,
}

impl DoneHead {
    /// Reads the front of a body of `len` bytes.
    pub(super) fn read(bytes: [u8; DONE_HEAD_BYTES], len: usize) -> Result<Self, Malformed> {
        let mut from = Reader::new(&bytes);
        let (id, number, code) = (from.u64()?, from.u32()?, from.i32()?);
        let result = match number {
            0 => Ok(()),
            number => Err(error_of(number, code)?),
        };
        let rest = len.checked_sub(DONE_HEAD_BYTES);
        let rest = rest.ok_or(Malformed("a completion that is too short"))?;
        match result.is_err() && rest > 0 {
            true => Err(Malformed("outputs of a job that failed")),
            false => Ok(Self { id, result, rest }),
        }
    }
}

/// One word of the outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The outcome of the next item.
    Outcome(Result<u32, JobError>),
    /// The error of a device, whose code follows.
    CodeFollows,
}

/// The outcome that `word` is.
pub(super) fn read_outcome(word: u32) -> Result<Word, Malformed> {
    if word & IS_ERROR == 0 {
        return Ok(Word::Outcome(Ok(word)));
    }
    match word & !IS_ERROR {
        DEVICE => Ok(Word::CodeFollows),
        number => Ok(Word::Outcome(Err(error_of(number, 0)?))),
    }
}

/// # Panics
/// From 4 GiB on: a job's limits are far below.
fn small(n: usize) -> u32 {
    u32::try_from(n).expect("below 4 GiB")
}

#[cfg(test)]
mod tests;
