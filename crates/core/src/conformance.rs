//! The suite that every backend passes, whatever it is: a kernel, a pool, a device, a model.
//!
//! ```
//! use dpb_core::{Backend, Workload, conformance};
//!
//! fn passes(backend: &dyn Backend, workload: &dyn Workload) {
//!     match conformance::check(backend, &[workload]) {
//!         Ok(coverage) => println!("{coverage:?}"),
//!         Err(failure) => panic!("{failure}"),
//!     }
//! }
//! ```
//!
//! Checked: results, at many lengths, batches, layouts and depths, against what the [`Workload`] calls right, whose answers are remembered
//! ([`Remembered`]); one completion for each job taken, never more in flight than the depth, none left after a poll where that is promised; tags and buffers
//! that come home untouched; limits that are kept; bad jobs, bad items and memory that the device cannot reach refused, not
//! crashed on; properties that agree with the clock; queues beside each other, on one thread and on two; a busy queue that is dropped and gives every
//! buffer back. A test program that counts its allocations has them checked too ([`Suite::counting`]).

mod allocations;
mod counting;
mod drive;
mod in_place;
mod input;
mod queues;
mod refusals;
mod remembered;
pub mod sample;

use std::fmt;
use std::sync::Arc;

use crate::{
    Backend, Buf, Buffers, ClockKind, Completion, Evidence, Items, Job, Limits, Memory, OpSpec,
    Operator, OutputShape, SetupError, View, Workload,
};
pub use counting::Counting;
use drive::CheckedQueue;
use input::{JobInput, Layout};
pub use remembered::Remembered;

/// The coverage of a passed suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Jobs that came home.
    pub jobs: u64,
    /// Items whose output was compared.
    pub items: u64,
    /// The checks that this backend could not be given, and why.
    pub skipped: Vec<String>,
}

/// A mistake of a backend, and where it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The backend's name.
    pub backend: String,
    /// The operator.
    pub spec: OpSpec,
    /// Lengths, layout and depth, or the rule that is broken.
    pub case: String,
    /// A description of the mistake.
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

/// The lengths, counts and depths that are tried.
struct Extent {
    item_lengths: &'static [usize],
    /// Items per job.
    batches: &'static [usize],
    /// Jobs in flight.
    depths: &'static [u32],
    /// Input that one case may push through one queue; bounds the suite's time with slow operators.
    bytes_per_run: usize,
    /// The number of times that two queues are filled and emptied.
    rounds: usize,
}

impl Extent {
    /// Lengths: nothing, around a word, around one and two vectors, and some that divide by nothing.
    const WHOLE: Self = Self {
        item_lengths: &[0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000, 4097],
        batches: &[1, 3, 256],
        depths: &[1, 2, 7, 64],
        bytes_per_run: 1 << 18,
        rounds: 8,
    };
    /// Where a job takes milliseconds, whatever it does.
    const BRIEF: Self = Self {
        item_lengths: &[0, 65, 4097],
        batches: &[1, 256],
        depths: &[1, 7],
        rounds: 2,
        ..Self::WHOLE
    };
    /// For items that cost as much as thousands of bytes, whatever their length.
    const COSTLY: Self = Self {
        item_lengths: &[0, 129],
        batches: &[1, 3],
        depths: &[1, 3],
        rounds: 1,
        ..Self::WHOLE
    };
    /// Under Miri, which is slow.
    const MIRI: Self = Self {
        item_lengths: &[0, 9],
        bytes_per_run: 256,
        ..Self::COSTLY
    };

    fn of(workload: &dyn Workload, is_brief: bool) -> &'static Self {
        match workload.cost_bytes() {
            _ if cfg!(miri) => &Self::MIRI,
            BYTES_PER_JOB.. => &Self::COSTLY,
            _ if is_brief => &Self::BRIEF,
            _ => &Self::WHOLE,
        }
    }
}

/// Input of one job, about: long items come in smaller batches.
const BYTES_PER_JOB: usize = 1 << 14;
/// [`Extent::bytes_per_run`] where `DPB_QEMU` says that instructions are emulated.
const BYTES_PER_RUN_EMULATED: usize = 1 << 16;
/// Longest input that is allocated only to see it refused.
const BYTES_TOO_LONG: usize = 64 << 20;
/// Items that decode to more than this need not be decoded.
const RIGHT_BYTES_MAX: usize = 1 << 18;

/// The suite, and the checks that a test program asks for. [`check`] runs it without these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Suite {
    allocations: Option<fn() -> u64>,
    is_brief: bool,
}

/// [`Suite::check`] without further checks.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(backend: &dyn Backend, workloads: &[&dyn Workload]) -> Result<Coverage, Failure> {
    Suite::default().check(backend, workloads)
}

impl Suite {
    /// Checks also that `submit` and `poll` of queues that compute inside `submit` allocate nothing once they are warm. `allocations`
    /// gives the allocations of the calling thread so far: [`Counting::here`] where the program has installed [`Counting`]. Queues whose
    /// work happens elsewhere are skipped. This check is the last one: a failure in it says that all others passed.
    #[must_use]
    pub fn counting(self, allocations: fn() -> u64) -> Self {
        Self {
            allocations: Some(allocations),
            ..self
        }
    }

    /// Tries fewer lengths, batches and depths: for a backend each job of which takes milliseconds, such as a device's stand-in on an
    /// emulated CPU, or one that computes as another one does which passes the whole suite.
    #[must_use]
    pub fn brief(self) -> Self {
        Self {
            is_brief: true,
            ..self
        }
    }

    /// Runs the whole suite on the spec of each of `workloads`.
    ///
    /// A spec that the backend does not support is skipped, with its reason in [`Coverage::skipped`].
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(
        &self,
        backend: &dyn Backend,
        workloads: &[&dyn Workload],
    ) -> Result<Coverage, Failure> {
        let mut coverage = Coverage::default();
        for &workload in workloads {
            self.check_one(backend, &Remembered::new(workload), &mut coverage)?;
        }
        Ok(coverage)
    }

    fn check_one(
        &self,
        backend: &dyn Backend,
        workload: &dyn Workload,
        coverage: &mut Coverage,
    ) -> Result<(), Failure> {
        let spec = workload.spec();
        let failure = |(case, what): (String, String)| Failure {
            backend: backend.name().to_string(),
            spec: spec.clone(),
            case,
            what,
        };
        properties(backend).map_err(|what| failure(("properties".into(), what)))?;
        memory(backend).map_err(|what| failure(("memory".into(), what)))?;
        let Some((limits, operator)) =
            admission(backend, spec, coverage).map_err(|what| failure(("limits".into(), what)))?
        else {
            return Ok(());
        };
        let mut bench = Bench {
            backend,
            spec,
            workload,
            extent: Extent::of(workload, self.is_brief),
            limits,
            operator,
            coverage,
        };
        bench.whole(self.allocations).map_err(failure)
    }
}

/// A model's times are simulated, on a virtual clock, and nothing else's are.
fn properties(backend: &dyn Backend) -> Result<(), String> {
    let properties = backend.properties();
    let evidence = &properties.evidence;
    let is_simulated = matches!(evidence, Evidence::Simulated { .. });
    let clock = backend.clock().kind();
    let is_virtual = clock != ClockKind::Wall;
    match properties.is_modelled() == is_virtual && is_simulated == is_virtual {
        true => Ok(()),
        false => Err(format!(
            "the clock is {clock:?}, jobs are carried out by {:?}, and the evidence is {evidence:?}",
            properties.made_of.executor
        )),
    }
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
) -> Result<Option<Admitted>, String> {
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
    Ok(Some((limits, operator)))
}

/// One spec on one backend.
struct Bench<'a> {
    backend: &'a dyn Backend,
    spec: &'a OpSpec,
    workload: &'a dyn Workload,
    extent: &'static Extent,
    limits: Limits,
    operator: Arc<dyn Operator>,
    coverage: &'a mut Coverage,
}

/// What a backend promises, and what it prepared.
type Admitted = (Limits, Arc<dyn Operator>);
/// The case, and what is wrong with it.
type Wrong = (String, String);

impl Bench<'_> {
    fn whole(&mut self, allocations: Option<fn() -> u64>) -> Result<(), Wrong> {
        self.results()?;
        self.in_place()?;
        self.bad_items()?;
        self.bad_jobs()?;
        self.foreign_memory()?;
        self.two_queues()?;
        self.busy_drop()?;
        allocations.map_or(Ok(()), |count| self.allocations(count))
    }

    /// Every length in every batch and layout against what is right, each at one depth: depths take turns, so that every batch in every
    /// layout meets every depth, at some of the lengths.
    fn results(&mut self) -> Result<(), Wrong> {
        let Extent {
            item_lengths,
            batches,
            ..
        } = self.extent;
        let depths = self.depths();
        for (i, &item_len) in item_lengths.iter().enumerate() {
            for (j, &batch) in batches.iter().enumerate() {
                let batch = batch.min((BYTES_PER_JOB / item_len.max(1)).max(batches[1]));
                for (k, layout) in Layout::ALL.into_iter().enumerate() {
                    if layout == Layout::One && batch != 1 {
                        continue;
                    }
                    let depth = depths[(i + j + k) % depths.len()];
                    let case = format!(
                        "{batch} items of about {item_len} bytes ({layout:?}), depth {depth}"
                    );
                    let at = |what| (case.clone(), what);
                    // Two inputs, so that jobs that are mixed up show.
                    let inputs = self.inputs([1, 2], layout, item_len, batch);
                    let mut inputs = inputs.map_err(at)?;
                    self.compare(&mut inputs, depth).map_err(at)?;
                }
            }
        }
        Ok(())
    }

    /// The depths that the backend promises; that it does not promise the others is noted.
    fn depths(&mut self) -> Vec<u32> {
        let depth_max = self.limits.depth_max.get();
        let (within, beyond): (Vec<u32>, Vec<u32>) =
            (self.extent.depths.iter()).partition(|depth| **depth <= depth_max);
        for depth in beyond {
            let note = format!("{} {:?}: depth {depth}", self.backend.name(), self.spec);
            self.coverage.skipped.push(note);
        }
        within
    }

    /// Items made worse among good ones: each gives what is right for it, or is refused alone. So are items whose output is
    /// longer than its slot.
    fn bad_items(&mut self) -> Result<(), Wrong> {
        let (layout, batch) = (Layout::Offsets, self.extent.batches[1]);
        for &item_len in self.extent.item_lengths {
            let at = |what| (format!("bad items of about {item_len} bytes"), what);
            let good = self.inputs([1, 2], layout, item_len, 4 * batch);
            let [one, two] = good.map_err(at)?;
            let mut inputs = [one.spoiled(self.workload, 1), two.spoiled(self.workload, 2)];
            self.compare(&mut inputs, self.extent.depths[1])
                .map_err(at)?;
            if self.operator.shape() != OutputShape::Variable {
                continue;
            }
            // The last: items that fill their slots beside longer ones, so that a refusal that spills shows.
            for slot in [0, 1, item_len / 2, item_len] {
                let at = |what| (format!("{item_len} bytes in, slots of {slot}"), what);
                let inputs = self.inputs([1, 2], layout, item_len, batch);
                let mut inputs = inputs.map_err(at)?.map(|input| input.with_slot(slot));
                self.compare(&mut inputs, self.extent.depths[1])
                    .map_err(at)?;
            }
        }
        Ok(())
    }

    /// Valid items that carry about `item_len` bytes, by two seeds.
    fn inputs(
        &self,
        seeds: [u64; 2],
        layout: Layout,
        item_len: usize,
        batch: usize,
    ) -> Result<[JobInput; 2], String> {
        let [one, two] =
            seeds.map(|seed| JobInput::new(self.workload, layout, item_len, batch, seed));
        Ok([one?, two?])
    }

    /// Drives jobs over `inputs` in turn through a queue and judges every item.
    fn compare(&mut self, inputs: &mut [JobInput; 2], depth: u32) -> Result<(), String> {
        if self.is_beyond(inputs, depth) {
            return Ok(());
        }
        let mut checked = self.checked_queue(depth)?;
        for job in self.jobs(inputs, depth)? {
            checked.add(job);
        }
        self.judge(checked.finish()?, inputs)
    }

    /// Whether the backend does not promise this much; then that is noted.
    fn is_beyond(&mut self, inputs: &[JobInput; 2], depth: u32) -> bool {
        let is_within = inputs.iter().all(|input| input.is_within(&self.limits));
        let is_beyond = !is_within || depth > self.limits.depth_max.get();
        if is_beyond {
            let [bytes, items] = [inputs[0].item_bytes(), inputs[0].items.count()];
            self.coverage.skipped.push(format!(
                "{} {:?}: depth {depth}, {items} items, {bytes} bytes",
                self.backend.name(),
                self.spec
            ));
        }
        is_beyond
    }

    fn checked_queue(&self, depth: u32) -> Result<CheckedQueue, String> {
        let checked = CheckedQueue::open(&self.operator, &self.limits, depth);
        checked.map_err(|e| format!("open, depth {depth}: {e}"))
    }

    /// Enough jobs over `inputs`, in turn, to fill a queue of `depth` twice if time allows.
    fn jobs(&self, inputs: &[JobInput; 2], depth: u32) -> Result<Vec<Job>, String> {
        let jobs = self.jobs_over(inputs, depth);
        let mut shared: [Option<View>; 2] = [None, None];
        let mut source = |which: usize| match &shared[which] {
            Some(view) => Ok(Memory::Shared(view.clone())),
            None => {
                let memory = self.source(&inputs[which])?;
                if let Memory::Shared(view) = &memory {
                    shared[which] = Some(view.clone());
                }
                Ok::<_, String>(memory)
            }
        };
        let job = |tag: usize| {
            let (input, src) = (&inputs[tag % 2], source(tag % 2)?);
            Ok(input.job(tag as u64, src, self.destination(input)?))
        };
        (0..jobs).map(job).collect()
    }

    /// How many jobs over `inputs` fill a queue of `depth` twice, if time allows.
    fn jobs_over(&self, inputs: &[JobInput; 2], depth: u32) -> usize {
        let most = 2 * depth as usize + 1;
        let bytes_per_run = match std::env::var_os("DPB_QEMU") {
            Some(_) => BYTES_PER_RUN_EMULATED.min(self.extent.bytes_per_run),
            None => self.extent.bytes_per_run,
        };
        let cost_bytes = self.workload.cost_bytes();
        let cost_of = |input: &JobInput| input.bytes() + input.items.count() * cost_bytes;
        let longest = inputs.iter().map(cost_of).max().unwrap_or(0);
        (bytes_per_run / longest.max(1)).clamp(3, most.max(3))
    }

    /// Judges every item of what [`Bench::jobs`] gave.
    fn judge(&mut self, done: Vec<Completion>, inputs: &mut [JobInput; 2]) -> Result<(), String> {
        for Completion { job, result } in done {
            let tag = job.tag;
            let input = &mut inputs[tag as usize % 2];
            result.map_err(|e| format!("job {tag} failed: {e}"))?;
            input
                .judge(&job, &*self.operator, self.workload)
                .map_err(|what| format!("job {tag}, {what}"))?;
            self.coverage.jobs += 1;
            self.coverage.items += input.items.count() as u64;
        }
        Ok(())
    }

    /// `input` in memory that the backend can reach.
    fn source(&self, input: &JobInput) -> Result<Memory, String> {
        input.source(|len| self.alloc(len))
    }

    /// Room for the outputs of `input` in memory that the backend can reach.
    fn destination(&self, input: &JobInput) -> Result<(Buffers, Items), String> {
        input.destination(&*self.operator, |len| self.alloc(len))
    }

    fn alloc(&self, len: usize) -> Result<Buf, String> {
        self.backend.alloc(len).map_err(|e| format!("alloc: {e}"))
    }

    /// Bytes of a slot that fits what an item of `item_len` bytes gives.
    fn slot_of(&self, item_len: usize) -> usize {
        match self.operator.shape() {
            OutputShape::Fixed(bytes) => bytes,
            OutputShape::Variable => self.operator.dst_len(item_len),
        }
    }
}

#[cfg(test)]
mod tests;
