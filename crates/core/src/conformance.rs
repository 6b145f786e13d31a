//! The suite that every backend passes, whatever it is: a kernel, a pool, a device, a model.
//!
//! ```
//! use dpb_core::{Backend, JobError, OpSpec, conformance};
//!
//! fn passes(backend: &dyn Backend, oracle: conformance::Oracle<'_>) {
//!     match conformance::check(backend, &[OpSpec::Crc32c], oracle) {
//!         Ok(coverage) => println!("{coverage:?}"),
//!         Err(failure) => panic!("{failure}"),
//!     }
//! }
//! ```
//!
//! Checked: results against an oracle at many lengths, batches, layouts and depths; one completion for each job taken,
//! never more in flight than the depth; tags and buffers that come home untouched; limits that are kept; bad jobs and bad
//! items refused, not crashed on; a busy queue that is dropped and gives every buffer back.

mod drive;
mod input;
pub mod sample;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::buf::Ledger;
use crate::{Backend, Buf, Items, Job, JobError, OpSpec, Operator, OutputShape, SetupError};
use drive::Course;
use input::{Input, Layout};

/// What is right: the output for one item, or why the item is refused. Knows the encoder of each decoder it is asked
/// for ([`OpSpec::fed_by`]) and the decoder of each encoder ([`OpSpec::undone_by`]).
pub type Oracle<'a> = &'a dyn Fn(&OpSpec, &[u8]) -> Result<Vec<u8>, JobError>;

/// What a passed suite rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Jobs that came home.
    pub jobs: u64,
    /// Items whose output was compared.
    pub items: u64,
    /// What could not be checked on this backend, and why.
    pub skipped: Vec<String>,
}

/// What a backend does wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The backend's name.
    pub backend: String,
    /// The operator.
    pub spec: OpSpec,
    /// Lengths, layout and depth, or the rule that is broken.
    pub case: String,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            backend,
            spec,
            case,
            what,
        } = self;
        write!(f, "{backend}, {spec:?}, {case}: {what}")
    }
}

impl std::error::Error for Failure {}

/// Item lengths: nothing, around a word, around one and two vectors, and some that divide by nothing.
const ITEM_LENGTHS: &[usize] = if cfg!(miri) {
    &[0, 9]
} else {
    &[0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000, 4097]
};
/// Items per job.
const BATCHES: &[usize] = if cfg!(miri) { &[1, 3] } else { &[1, 3, 256] };
/// Jobs in flight.
const DEPTHS: &[u32] = if cfg!(miri) { &[1, 3] } else { &[1, 2, 7, 64] };
/// Input that one case may push through one queue; bounds the suite's time with slow operators.
const BYTES_PER_RUN: usize = if cfg!(miri) { 256 } else { 1 << 20 };
/// The same where `DPB_QEMU` says that instructions are emulated.
const BYTES_PER_RUN_EMULATED: usize = 1 << 16;
/// Longest input that is allocated only to see it refused.
const BYTES_TOO_LONG: usize = 64 << 20;

/// Runs the whole suite on each of `specs`.
///
/// A spec that the backend does not support is skipped, with its reason in [`Coverage::skipped`].
///
/// # Errors
/// The first thing that is wrong.
pub fn check(
    backend: &dyn Backend,
    specs: &[OpSpec],
    oracle: Oracle<'_>,
) -> Result<Coverage, Failure> {
    let mut coverage = Coverage::default();
    for spec in specs {
        let failure = |(case, what): (String, String)| Failure {
            backend: backend.name().to_string(),
            spec: spec.clone(),
            case,
            what,
        };
        memory(backend).map_err(|what| failure(("memory".into(), what)))?;
        let Some(operator) = admission(backend, spec, &mut coverage)
            .map_err(|what| failure(("limits".into(), what)))?
        else {
            continue;
        };
        let mut bench = Bench {
            backend,
            spec,
            oracle,
            operator,
            coverage: &mut coverage,
        };
        bench.results().map_err(failure)?;
        bench.refused_items().map_err(failure)?;
        bench.bad_jobs().map_err(failure)?;
        bench.busy_drop().map_err(failure)?;
    }
    Ok(coverage)
}

/// Memory is as long as asked, zeroed, aligned; no length is not a special case.
fn memory(backend: &dyn Backend) -> Result<(), String> {
    for len in [0, 1, 63, 4097] {
        let buf = backend
            .alloc(len)
            .map_err(|e| format!("alloc({len}): {e}"))?;
        if buf[..] != vec![0; len] {
            return Err(format!("alloc({len}) gave {buf:?}, or not zeroed"));
        }
        if buf.as_ptr().addr() % crate::buf::ALIGNMENT != 0 {
            return Err(format!("alloc({len}) is not aligned"));
        }
    }
    Ok(())
}

/// `limits` and `prepare` tell the same story, and `open` keeps to it. `None` if the spec is not supported.
fn admission(
    backend: &dyn Backend,
    spec: &OpSpec,
    coverage: &mut Coverage,
) -> Result<Option<Arc<dyn Operator>>, String> {
    let (limits, operator) = match (backend.limits(spec), backend.prepare(spec)) {
        (Ok(limits), Ok(operator)) => (limits, operator),
        (Err(unsupported), Err(SetupError::Unsupported(again))) => {
            if unsupported != again || unsupported.reason.is_empty() {
                return Err(format!(
                    "`limits` refuses with {unsupported:?}, `prepare` with {again:?}"
                ));
            }
            coverage
                .skipped
                .push(format!("{} {spec:?}: {unsupported}", backend.name()));
            return Ok(None);
        }
        (Ok(_), Err(e)) => return Err(format!("`limits` promises, `prepare` refuses: {e}")),
        (Err(e), Ok(_)) => return Err(format!("`limits` refuses ({e}), `prepare` does not")),
        (Err(e), Err(other)) => {
            return Err(format!("`limits` refuses ({e}), `prepare` fails: {other}"));
        }
    };
    if operator.spec() != spec {
        return Err(format!("prepared {:?} instead", operator.spec()));
    }
    if let Some(deeper) = limits.depth_max.checked_add(1) {
        let expected = SetupError::TooDeep {
            asked: deeper.get(),
            depth_max: limits.depth_max.get(),
        };
        match operator.clone().open(deeper) {
            Err(e) if e == expected => {}
            Err(e) => return Err(format!("too deep, refused with {e:?}")),
            Ok(_) => return Err(format!("opened {deeper} deep, beyond its own limit")),
        }
    }
    Ok(Some(operator))
}

/// One spec on one backend.
struct Bench<'a> {
    backend: &'a dyn Backend,
    spec: &'a OpSpec,
    oracle: Oracle<'a>,
    operator: Arc<dyn Operator>,
    coverage: &'a mut Coverage,
}

/// The case, and what is wrong with it.
type Wrong = (String, String);

impl Bench<'_> {
    /// Every length, batch, layout and depth against the oracle.
    fn results(&mut self) -> Result<(), Wrong> {
        for &item_len in ITEM_LENGTHS {
            for &batch in BATCHES {
                for layout in Layout::ALL {
                    if layout == Layout::One && batch != 1 {
                        continue;
                    }
                    let case = format!("{batch} items of about {item_len} bytes ({layout:?})");
                    // Two inputs, so that jobs that are mixed up show.
                    let mut inputs = [1, 2].map(|seed| {
                        Input::new(self.spec, self.oracle, layout, item_len, batch, seed)
                    });
                    for &depth in DEPTHS {
                        let at = |what| (format!("{case}, depth {depth}"), what);
                        self.compare(&mut inputs, depth).map_err(at)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Items that are malformed, or whose output is longer than its slot, among good ones: refused, each alone.
    fn refused_items(&mut self) -> Result<(), Wrong> {
        if self.operator.shape() != OutputShape::Variable {
            return Ok(());
        }
        for &item_len in ITEM_LENGTHS {
            let at = |what| (format!("bad items of about {item_len} bytes"), what);
            let mut inputs = [1, 2]
                .map(|seed| Input::spoiled(self.spec, self.oracle, item_len, BATCHES[1], seed));
            self.compare(&mut inputs, DEPTHS[1]).map_err(at)?;
            for slot in [0, 1, item_len / 2] {
                let at = |what| (format!("{item_len} bytes in, slots of {slot}"), what);
                let mut inputs = [1, 2].map(|seed| {
                    let layout = Layout::Offsets;
                    Input::new(self.spec, self.oracle, layout, item_len, BATCHES[1], seed)
                        .with_slot(slot)
                });
                self.compare(&mut inputs, DEPTHS[1]).map_err(at)?;
            }
        }
        Ok(())
    }

    /// Drives jobs over `inputs` in turn through a queue and judges every item.
    fn compare(&mut self, inputs: &mut [Input; 2], depth: u32) -> Result<(), String> {
        let limits = self.backend.limits(self.spec).map_err(|e| e.to_string())?;
        let longest = inputs.iter().map(|i| i.bytes.len()).max().unwrap_or(0);
        if longest > limits.input_bytes_max || depth > limits.depth_max.get() {
            let name = self.backend.name();
            let note = format!("{name} {:?}: depth {depth}, {longest} bytes", self.spec);
            self.coverage.skipped.push(note);
            return Ok(());
        }
        let shape = self.operator.shape();
        let mut course = Course::open(&self.operator, depth)?;
        let most = 2 * depth as usize + 1;
        let bytes_per_run = match std::env::var_os("DPB_QEMU") {
            Some(_) => BYTES_PER_RUN_EMULATED.min(BYTES_PER_RUN),
            None => BYTES_PER_RUN,
        };
        let jobs = (bytes_per_run / longest.max(1)).clamp(3, most.max(3));
        let sources = [self.source(&inputs[0])?, self.source(&inputs[1])?];
        for tag in 0..jobs {
            let input = &inputs[tag % 2];
            let dst = self.dst(input)?;
            course.add(Job {
                tag: tag as u64,
                src: sources[tag % 2].clone(),
                items: input.items.clone(),
                dst,
                outcomes: Vec::with_capacity(input.items.count()),
            });
        }
        for completion in course.finish()? {
            let tag = completion.job.tag;
            let input = &mut inputs[tag as usize % 2];
            completion
                .result
                .map_err(|e| format!("job {tag} failed: {e}"))?;
            input
                .judge(&completion.job, shape, &*self.operator, self.oracle)
                .map_err(|what| format!("job {tag}, {what}"))?;
            self.coverage.jobs += 1;
            self.coverage.items += input.items.count() as u64;
        }
        Ok(())
    }

    /// `input` in memory that the backend can reach.
    fn source(&self, input: &Input) -> Result<crate::View, String> {
        let alloc = self.backend.alloc(input.bytes.len());
        let mut src = alloc.map_err(|e| format!("alloc: {e}"))?;
        src.copy_from_slice(&input.bytes);
        Ok(src.freeze())
    }

    /// Room for the outputs of `input`, and some bytes more that must stay as they are.
    fn dst(&self, input: &Input) -> Result<Buf, String> {
        let len = input.dst_len(self.operator.shape(), &*self.operator);
        let mut dst = self.backend.alloc(len).map_err(|e| format!("alloc: {e}"))?;
        dst.fill(input::GUARD);
        Ok(dst)
    }

    /// Jobs that cannot be carried out: each comes home with its error and its buffers, and the queue goes on.
    fn bad_jobs(&mut self) -> Result<(), Wrong> {
        let limits = self
            .backend
            .limits(self.spec)
            .map_err(|e| ("limits".to_string(), e.to_string()))?;
        let shape = self.operator.shape();
        let fixed = |len, count| Items::Fixed { len, count };
        let offsets = |list: &[u32]| Items::Offsets(list.into());
        let mut bad = vec![
            (
                "fixed items beyond the input",
                fixed(9, 8),
                64,
                8,
                JobError::BadItems,
            ),
            (
                "more bytes than fit a word",
                fixed(u32::MAX, u32::MAX),
                64,
                8,
                JobError::BadItems,
            ),
            (
                "an offset beyond the input",
                offsets(&[0, 8, 65]),
                64,
                8,
                JobError::BadItems,
            ),
            (
                "offsets that fall",
                offsets(&[0, 9, 8, 10]),
                64,
                8,
                JobError::BadItems,
            ),
            ("no offset at all", offsets(&[]), 64, 8, JobError::BadItems),
        ];
        match shape {
            OutputShape::Fixed(_) => {
                bad.push(("a short dst", fixed(8, 8), 64, 7, JobError::DstTooShort));
            }
            OutputShape::Variable => {
                bad.push((
                    "room for few outcomes",
                    fixed(1, 64),
                    64,
                    8,
                    JobError::BadItems,
                ));
            }
        }
        match limits.input_bytes_max.checked_add(1) {
            Some(len) if len <= BYTES_TOO_LONG => {
                bad.push(("a long input", Items::One, len, 1, JobError::TooLong));
            }
            _ => self.coverage.skipped.push(format!(
                "{} {:?}: inputs beyond {} bytes",
                self.backend.name(),
                self.spec,
                limits.input_bytes_max
            )),
        }
        for (case, items, src_len, slots, expected) in bad {
            self.bad_job(items, src_len, slots, expected)
                .map_err(|what| (case.to_string(), what))?;
        }
        let nothing = [fixed(0, 0), fixed(8, 0), offsets(&[0]), offsets(&[3])];
        for items in nothing {
            let case = format!("no items ({items:?})");
            self.empty_job(items).map_err(|what| (case, what))?;
        }
        Ok(())
    }

    /// A job of `slots` slots that fails with `expected`, and a good one after it.
    fn bad_job(
        &mut self,
        items: Items,
        src_len: usize,
        slots: usize,
        expected: JobError,
    ) -> Result<(), String> {
        let alloc = |len| self.backend.alloc(len).map_err(|e| format!("alloc: {e}"));
        let slot = match self.operator.shape() {
            OutputShape::Fixed(bytes) => bytes,
            OutputShape::Variable => self.operator.dst_len(64),
        };
        let mut course = Course::open(&self.operator, 1)?;
        let src = alloc(src_len)?.freeze();
        let dst = alloc(slots * slot)?;
        let (src_at, dst_at) = (src.as_ptr(), dst.as_ptr());
        course.add(Job {
            tag: u64::MAX,
            src,
            items: items.clone(),
            dst,
            outcomes: Vec::with_capacity(slots),
        });
        let done = course.finish()?;
        let completion = done.first().ok_or("nothing came home")?;
        self.coverage.jobs += 1;
        if completion.result != Err(expected) {
            let result = completion.result;
            return Err(format!("expected {expected:?}, got {result:?}"));
        }
        let job = &completion.job;
        let home = job.src.as_ptr() == src_at
            && job.src.len() == src_len
            && job.dst.as_ptr() == dst_at
            && job.dst.len() == slots * slot
            && job.outcomes.capacity() >= slots
            && job.tag == u64::MAX
            && job.items == items;
        if !home {
            return Err("its buffers, items or tag came home changed".into());
        }
        let mut inputs =
            [1, 2].map(|seed| Input::new(self.spec, self.oracle, Layout::Fixed, 9, 3, seed));
        self.compare(&mut inputs, 1)
            .map_err(|what| format!("afterwards: {what}"))
    }

    /// A job without items is carried out and gives nothing.
    fn empty_job(&mut self, items: Items) -> Result<(), String> {
        let alloc = |len| self.backend.alloc(len).map_err(|e| format!("alloc: {e}"));
        let mut course = Course::open(&self.operator, 1)?;
        course.add(Job {
            tag: 7,
            src: alloc(64)?.freeze(),
            items,
            dst: alloc(0)?,
            outcomes: Vec::new(),
        });
        let done = course.finish()?;
        self.coverage.jobs += 1;
        match done.first() {
            Some(c) if c.result == Ok(()) && c.job.outcomes.is_empty() => Ok(()),
            other => Err(format!("expected nothing done, got {other:?}")),
        }
    }

    /// Queues dropped at once, half polled, and with everything finished: every buffer is home when `drop` returns.
    fn busy_drop(&mut self) -> Result<(), Wrong> {
        for &depth in DEPTHS {
            for polls in [0, 1, 50] {
                let at = |what| (format!("dropped after {polls} polls, depth {depth}"), what);
                self.dropped_after(depth, polls).map_err(at)?;
            }
        }
        Ok(())
    }

    fn dropped_after(&mut self, depth: u32, polls: usize) -> Result<(), String> {
        let limits = self.backend.limits(self.spec).map_err(|e| e.to_string())?;
        let depth = NonZeroU32::new(depth.min(limits.depth_max.get())).ok_or("depth 0")?;
        let ledger = Ledger::default();
        let zeroed = |len| {
            let alloc = self.backend.alloc(len);
            let mut buf = alloc.map_err(|e| format!("alloc: {e}"))?;
            ledger.enter(&mut buf);
            Ok::<_, String>(buf)
        };
        let item_len = if cfg!(miri) { 4 } else { 64 };
        let slot = match self.operator.shape() {
            OutputShape::Fixed(bytes) => bytes,
            OutputShape::Variable => self.operator.dst_len(item_len),
        };
        let mut ready = std::collections::VecDeque::new();
        for tag in 0..2 * u64::from(depth.get()) {
            ready.push_back(Job {
                tag,
                src: zeroed(3 * item_len)?.freeze(),
                items: Items::Fixed {
                    len: item_len as u32,
                    count: 3,
                },
                dst: zeroed(3 * slot)?,
                outcomes: Vec::with_capacity(3),
            });
        }
        let mut done = Vec::new();
        let opened = self.operator.clone().open(depth);
        let mut queue = opened.map_err(|e| format!("open: {e}"))?;
        let mut taken = queue.submit(&mut ready);
        for _ in 0..polls {
            queue.poll(&mut done);
            taken += queue.submit(&mut ready);
        }
        drop(queue);
        let mine = 2 * (ready.len() + done.len());
        let out = ledger.outstanding();
        if out != mine {
            return Err(format!(
                "{taken} jobs taken, {} came home; {mine} buffers are here, {out} are not released",
                done.len()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
