//! Jobs that a backend must not carry out, and jobs that have nothing to carry out.

use std::sync::Arc;

use super::input::Layout;
use super::{BYTES_TOO_LONG, Bench, Wrong};
use crate::buf::Island;
use crate::{Buf, Buffers, Items, Job, JobError, Memory, OutputShape, Span, Stride};

/// A job that must fail: the case, its items, bytes of each buffer of its input, slots, and the error.
type BadJob = (&'static str, Items, Vec<usize>, usize, JobError);

impl Bench<'_> {
    /// Jobs that cannot be carried out: each comes home with its error and its buffers, and the queue goes on.
    pub(super) fn bad_jobs(&mut self) -> Result<(), Wrong> {
        let limits = self.limits;
        let shape = self.operator.shape();
        let fixed = Items::fixed;
        let offsets = |list: &[u32]| Items::Offsets(list.to_vec().into());
        let slot = self.slot_of(64);
        let span = |buf, start, len| Span { buf, start, len };
        let spans = |list: &[Span]| Items::Spans(list.to_vec());
        let strided = |start, step| {
            Items::Strided(Stride {
                start,
                len: 8,
                step,
                count: 8,
            })
        };
        let outside = |case, items| (case, items, vec![64], 8, JobError::BadItems);
        let mut bad: Vec<BadJob> = vec![
            outside("fixed items beyond the input", fixed(9, 8)),
            outside("more bytes than fit a word", fixed(u32::MAX, u32::MAX)),
            outside("strided items beyond the input", strided(1, 8)),
            outside("strided items far beyond it", strided(u32::MAX, u32::MAX)),
            outside("an offset beyond the input", offsets(&[0, 8, 65])),
            outside("offsets that fall", offsets(&[0, 9, 8, 10])),
            outside("no offset at all", offsets(&[])),
            outside("a span beyond the input", spans(&[span(0, 57, 8)])),
            outside(
                "a span that wraps round",
                spans(&[span(0, u32::MAX, u32::MAX)]),
            ),
            outside("a span of no buffer", spans(&[span(1, 0, 8)])),
        ];
        let several = |case, items| (case, items, vec![64, 8], 8, JobError::BadItems);
        bad.extend([
            several("a span beyond its buffer", spans(&[span(1, 8, 1)])),
            several("a span of a third buffer", spans(&[span(2, 0, 8)])),
            several("offsets in several buffers", offsets(&[0, 8])),
            several("one item in several buffers", Items::One),
        ]);
        match shape {
            OutputShape::Fixed(_) => {
                let items = fixed(8, 8);
                bad.push(("a short dst", items, vec![64], 7, JobError::DstTooShort));
            }
            OutputShape::Variable => {
                bad.push(outside("room for few outcomes", fixed(1, 64)));
            }
        }
        let name = self.backend.name();
        let mut beyond = |what: &str, max: usize, case: Option<BadJob>| match case {
            Some(case) => bad.push(case),
            // No limit, so nothing is beyond it.
            None if max == usize::MAX => {}
            None => {
                let note = format!("{name} {:?}: beyond {max} {what}", self.spec);
                self.coverage.skipped.push(note);
            }
        };
        let affordable = |max: usize| max.checked_add(1).filter(|&len| len <= BYTES_TOO_LONG);
        let long = affordable(limits.input_bytes_max)
            .map(|len| ("a long input", Items::One, vec![len], 1, JobError::TooLong));
        beyond("bytes in a job", limits.input_bytes_max, long);
        let long = affordable(limits.item_bytes_max).map(|len| {
            let items = offsets(&[0, 1, 1 + len as u32]);
            ("a long item", items, vec![1 + len], 2, JobError::TooLong)
        });
        if limits.item_bytes_max < limits.input_bytes_max {
            beyond("bytes in an item", limits.item_bytes_max, long);
        }
        let many = affordable(limits.items_max)
            .filter(|&count| count.saturating_mul(slot) <= BYTES_TOO_LONG)
            .map(|count| {
                let items = fixed(0, count as u32);
                ("many items", items, vec![0], count, JobError::TooManyItems)
            });
        beyond("items in a job", limits.items_max, many);
        for (case, items, src_lens, slots, expected) in bad {
            self.bad_job(items, &src_lens, slots, expected)
                .map_err(|what| (case.to_string(), what))?;
        }
        self.bad_slots()?;
        let nothing = [
            fixed(0, 0),
            fixed(8, 0),
            offsets(&[0]),
            offsets(&[3]),
            spans(&[]),
        ];
        for items in nothing {
            let case = format!("no items ({items:?})");
            self.empty_job(items).map_err(|what| (case, what))?;
        }
        Ok(())
    }

    /// Slots that lie outside of their buffer, that overlap, or that are not one for each item.
    fn bad_slots(&mut self) -> Result<(), Wrong> {
        if self.limits.items_max < 2 {
            return Ok(());
        }
        let len = u32::try_from(self.slot_of(8).max(1)).expect("a short slot");
        let span = |buf, start| Span { buf, start, len };
        let spans = |list: [Span; 2]| Items::Spans(list.to_vec());
        let strided = |start, step, count| {
            Items::Strided(Stride {
                start,
                len,
                step,
                count,
            })
        };
        let (room, short, bad) = (2 * len as usize, JobError::DstTooShort, JobError::BadItems);
        let cases = [
            ("one slot too few", vec![room], strided(0, len, 1), bad),
            (
                "one slot too many",
                vec![room + len as usize],
                strided(0, len, 3),
                bad,
            ),
            (
                "slots that overlap",
                vec![room],
                strided(0, len - 1, 2),
                bad,
            ),
            (
                "slots beyond the output",
                vec![room],
                strided(1, len, 2),
                short,
            ),
            (
                "the last slot first",
                vec![room],
                spans([span(0, len), span(0, 0)]),
                bad,
            ),
            (
                "spans that overlap",
                vec![room],
                spans([span(0, 0), span(0, len - 1)]),
                bad,
            ),
            (
                "a slot of no buffer",
                vec![room],
                spans([span(0, 0), span(1, 0)]),
                short,
            ),
            (
                "a slot beyond its buffer",
                vec![room, room],
                spans([span(0, 0), span(1, len + 1)]),
                short,
            ),
            (
                "the last buffer first",
                vec![room, room],
                spans([span(1, 0), span(0, 0)]),
                bad,
            ),
            (
                "several buffers, one stride",
                vec![room, room],
                strided(0, len, 2),
                short,
            ),
        ];
        for (case, dst_lens, slots, expected) in cases {
            let at = |what| (case.to_string(), what);
            let bufs: Result<Vec<_>, _> = dst_lens.iter().map(|len| self.alloc(*len)).collect();
            let src = self.alloc(16).map_err(at)?;
            let outcomes = Vec::with_capacity(2);
            let mut bufs = bufs.map_err(at)?;
            let dst: Buffers = match bufs.len() {
                1 => bufs.remove(0).into(),
                _ => bufs.into(),
            };
            let job = Job::with_slots(1, src, Items::fixed(8, 2), dst, slots, outcomes);
            self.refused(job, expected).map_err(at)?;
        }
        Ok(())
    }

    /// A job of `slots` slots that fails with `expected`, and a good one after it.
    fn bad_job(
        &mut self,
        items: Items,
        src_lens: &[usize],
        slots: usize,
        expected: JobError,
    ) -> Result<(), String> {
        let slot = self.slot_of(64);
        let src: Result<Vec<_>, _> = src_lens.iter().map(|len| self.alloc(*len)).collect();
        let mut src = src?;
        let src: Buffers = match src.len() {
            1 => src.remove(0).into(),
            _ => src.into(),
        };
        let dst = self.alloc(slots * slot)?;
        let usual = self.operator.shape().slots(dst.len(), items.count());
        let outcomes = Vec::with_capacity(slots);
        let job = Job::with_slots(u64::MAX, src, items, dst, usual, outcomes);
        self.refused(job, expected)
    }

    /// `job` fails with `expected`, and a good one after it does not.
    pub(super) fn refused(&mut self, job: Job, expected: JobError) -> Result<(), String> {
        let mut checked = self.checked_queue(1)?;
        checked.add(job);
        let done = checked.finish()?;
        self.coverage.jobs += 1;
        let result = done[0].result;
        if result != Err(expected) {
            return Err(format!("expected {expected:?}, got {result:?}"));
        }
        self.works_afterwards()
    }

    fn works_afterwards(&mut self) -> Result<(), String> {
        let mut inputs = self.inputs([1, 2], Layout::Fixed, 9, 3)?;
        self.compare(&mut inputs, 1)
            .map_err(|what| format!("afterwards: {what}"))
    }

    /// A job without items is carried out and gives nothing.
    fn empty_job(&mut self, items: Items) -> Result<(), String> {
        let mut checked = self.checked_queue(1)?;
        let (src, dst) = (self.alloc(64)?, self.alloc(0)?);
        let slots = self.operator.shape().slots(0, 0);
        checked.add(Job::with_slots(7, src, items, dst, slots, Vec::new()));
        let done = checked.finish()?;
        self.coverage.jobs += 1;
        match &done[0] {
            c if c.result == Ok(()) && c.job.outcomes.is_empty() => Ok(()),
            other => Err(format!("expected nothing done, got {other:?}")),
        }
    }

    /// Memory that is not from `alloc`, and that no device knows: its job is refused as such, or carried out right.
    pub(super) fn foreign_memory(&mut self) -> Result<(), Wrong> {
        for (case, layout, is_src) in [
            ("foreign src", Layout::Fixed, true),
            ("foreign dst", Layout::Fixed, false),
            (
                "one foreign buffer of many to read",
                Layout::Scattered,
                true,
            ),
            (
                "one foreign buffer of many to write",
                Layout::Scattered,
                false,
            ),
        ] {
            self.foreign_job(layout, is_src)
                .map_err(|what| (case.to_string(), what))?;
        }
        Ok(())
    }

    fn foreign_job(&mut self, layout: Layout, is_src: bool) -> Result<(), String> {
        let mut inputs = self.inputs([1, 2], layout, 9, 3)?;
        if self.is_beyond(&inputs, 1) {
            return Ok(());
        }
        let island = Arc::new(Island::default());
        let foreign = |buf: &mut Buf| {
            let mut copy = island.zeroed(buf.len()).ok_or("no memory")?;
            copy.copy_from_slice(buf);
            *buf = copy;
            Ok::<_, String>(())
        };
        let (mut src, (mut dst, slots)) = (self.source(&inputs[0])?, self.destination(&inputs[0])?);
        if let (true, Memory::Shared(view)) = (is_src, &src) {
            // Shared memory cannot be replaced where it is.
            let mut copy = self.alloc(view.buf().len())?;
            copy.copy_from_slice(view.buf());
            src = copy.into();
        }
        let bufs = match &mut src {
            Memory::Own(bufs) if is_src => bufs,
            _ => &mut dst,
        };
        // Not the first, so that all must be looked at.
        foreign(bufs.iter_mut().take(2).last().expect("a buffer"))?;
        let mut checked = self.checked_queue(1)?;
        checked.add(inputs[0].job(0, src, (dst, slots)));
        let done = checked.finish()?;
        match done[0].result {
            Err(JobError::ForeignBuffer) => self.coverage.jobs += 1,
            Err(other) => return Err(format!("expected ForeignBuffer, got {other:?}")),
            Ok(()) => self.judge(done, &mut inputs)?,
        }
        self.works_afterwards()
    }
}
