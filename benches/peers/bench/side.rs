//! One side of a row: code that is set up anew, bound to memory that lies elsewhere, and timed in turn with the others.

use anyhow::{Context, Result, bail};
use dpb_core::cpu_level::Level;
use dpb_core::{
    Batch, BatchOut, Items, JobError, Kernel, OpSpec, OutputShape, SetupError, Workload,
};
use dpb_operators::cpu::{Cpu, Implementation};
use dpb_operators::direct::{Direct, direct};
use dpb_operators::registry::{self, Entry};
use dpb_peers::bound::Bound;
use dpb_peers::native::{self, Library};
use dpb_peers::rust_peers;
use dpb_peers::work::{Placed, Work};

/// Length of a turn, in seconds of CPU time.
const TURN_S: f64 = 0.008;
/// The byte that fills slots before a run that is checked.
const SPOILT: u8 = 0xa5;
/// The subject once more.
pub(crate) const ITSELF: &str = "itself";
/// The operator of the harness.
pub(crate) const NULL: &str = "null";

/// Libraries that ask the CPU themselves, so that a level is hidden from them by [`dpb_peers::cpuid`] alone: where that works, this CPU has no
/// more than the level for anybody, and [`Level::is_masked`] says so.
const UNMASKABLE: &[&str] = &[
    "crc-fast",
    "hyperscan",
    "isa-l",
    "libdeflate",
    "rusty_erasure",
    "twox-hash",
    "zlib-rs",
];

/// One side.
pub(crate) struct Side {
    pub(crate) name: String,
    /// The version of the code, and how it was built.
    pub(crate) build: String,
    /// CPU time of one run, by round.
    pub(crate) seconds: Vec<f64>,
    /// Bytes that it wrote when it was checked.
    pub(crate) bytes_out: u64,
    code: Code,
    /// Runs of a turn; 0 until they were counted.
    runs: usize,
}

enum Code {
    Kernel(Box<dyn Fn() -> Result<Box<dyn Direct>>>),
    /// The library's peer of this name.
    Library(&'static Library, String, OpSpec),
}

/// A side at its place.
pub(crate) enum Placement<'a> {
    Kernel(Box<Called<'a>>),
    Bound(Box<dyn Bound + 'a>),
}

/// A kernel of dpb's, or a peer behind the same trait.
pub(crate) struct Called<'a> {
    kernel: Box<dyn Direct>,
    work: Work<'a>,
    dst: Placed,
    /// The slots of every call but the last, which may have fewer items, and of that one. A job brings them along: made between two calls, a
    /// kernel would read a length at once that was just written in two pieces, and such a load waits for all stores before it.
    slots: [Items; 2],
    /// The outcomes of a call. As in a program that has few jobs under way, the calls share this memory: one of its own for each of
    /// 16,384 calls would take their place in the caches, and the peers have none.
    outcomes: Vec<Result<u32, JobError>>,
    /// The outcome of each item in the run that was last checked.
    checked: Vec<Result<u32, JobError>>,
}

impl Side {
    /// dpb's best code for `spec`; `None` if a level is hidden that this code, a library's, would use all the same.
    pub(crate) fn best(name: &str, entry: &'static Entry, spec: &OpSpec) -> Result<Option<Self>> {
        let path = Cpu::best().path(entry, spec)?;
        if Level::is_masked() && UNMASKABLE.contains(&path.name()) {
            return Ok(None);
        }
        let build = format!(
            "cpu/{path}, {}; {}",
            entry.code(path),
            env!("DPB_PEERS_RUSTC")
        );
        Ok(Some(Self::on_path(name, entry, spec, path, build)))
    }

    fn on_path(
        name: &str,
        entry: &'static Entry,
        spec: &OpSpec,
        path: Implementation,
        build: String,
    ) -> Self {
        let spec = spec.clone();
        Self::kernel(name, build, move || Ok(entry.direct(&spec, path)?))
    }

    fn kernel(
        name: &str,
        build: String,
        make: impl Fn() -> Result<Box<dyn Direct>> + 'static,
    ) -> Self {
        Self::new(name, build, Code::Kernel(Box::new(make)))
    }

    fn new(name: &str, build: String, code: Code) -> Self {
        Self {
            name: name.to_owned(),
            build,
            seconds: Vec::new(),
            bytes_out: 0,
            code,
            runs: 0,
        }
    }

    /// The same under another name.
    pub(crate) fn named(self, name: &str) -> Self {
        let name = name.to_owned();
        Self { name, ..self }
    }

    /// The operator that does nothing, behind dpb's own kernels' trait.
    pub(crate) fn null(name: &str) -> Self {
        let build = format!("cpu/harness; {}", env!("DPB_PEERS_RUSTC"));
        Self::kernel(name, build, || Ok(direct(Null)))
    }

    /// The peer called `name`; `Err` is the reason why there is none here. `subject` is what dpb runs, `spec` what the peer does: the same,
    /// but for coders.
    ///
    /// # Errors
    /// `name` is nobody's.
    pub(crate) fn peer(
        name: &str,
        entry: Option<&'static Entry>,
        subject: &OpSpec,
        spec: &OpSpec,
    ) -> Result<Result<Self, String>> {
        if Level::is_masked() && UNMASKABLE.contains(&name) {
            return Ok(Err("cannot be kept to a lower level".to_owned()));
        }
        if let Some(library) = native::library(name) {
            if Level::is_masked() && !library.is_maskable {
                return Ok(Err("cannot be kept to a lower level".to_owned()));
            }
            let Some(version) = library.build() else {
                return Ok(Err(format!("`apt-get install {}`", library.package)));
            };
            let build = format!("{} {version}", library.name);
            return Ok(Ok(Self::new(
                name,
                build,
                Code::Library(library, name.to_owned(), spec.clone()),
            )));
        }
        // A library that dpb can compute by itself.
        let path = entry.and_then(|entry| {
            let path = entry.paths.iter().find(|path| path.name() == name)?;
            Some((entry, *path))
        });
        if let Some((entry, path)) = path {
            if Cpu::best().path(entry, spec)? == path && spec == subject {
                return Ok(Err("is what dpb itself runs".to_owned()));
            }
            let made: Result<_, SetupError> = entry.direct(spec, path);
            let build = format!("{}; {}", entry.code(path), env!("DPB_PEERS_RUSTC"));
            return Ok(made
                .map(|_| Self::on_path(name, entry, spec, path, build))
                .map_err(|why| why.to_string()));
        }
        let (owned, name_of) = (spec.clone(), name.to_owned());
        if rust_peers::find(name, spec).is_some() {
            let build = format!("crate {}; {}", crate_version(name), env!("DPB_PEERS_RUSTC"));
            return Ok(Ok(Self::kernel(name, build, move || {
                rust_peers::find(&name_of, &owned).context("found before")
            })));
        }
        bail!("{name}, a peer of {}, has no call", spec.name())
    }

    /// The side set up for `work`. `None` if it does not do this.
    pub(crate) fn place<'a>(&self, work: &Work<'a>) -> Result<Option<Placement<'a>>> {
        match &self.code {
            Code::Library(library, name, spec) => {
                Ok(library.peer(name, spec, work).map(Placement::Bound))
            }
            Code::Kernel(make) => Ok(Some(Placement::Kernel(Box::new(Called {
                kernel: make()?,
                dst: work.slots(),
                slots: [work.calls.first(), work.calls.last()].map(|call| {
                    let count = call.map_or(0, Batch::len);
                    Items::fixed(work.slot as u32, count as u32)
                }),
                outcomes: Vec::with_capacity(work.calls.first().map_or(0, Batch::len)),
                checked: Vec::new(),
                work: *work,
            })))),
        }
    }

    /// Times as many runs as take [`TURN_S`], behind `warm_up_s` of runs that do not count.
    pub(crate) fn turn(&mut self, placement: &mut Placement<'_>, warm_up_s: f64) {
        placement.warm_up(warm_up_s);
        if self.runs == 0 {
            self.runs = runs_of(TURN_S, placement);
        }
        let seconds = placement.timed(self.runs) / self.runs as f64;
        self.seconds.push(seconds);
    }

    /// Has every output judged.
    pub(crate) fn check(
        &mut self,
        placement: &mut Placement<'_>,
        workload: &dyn Workload,
        work: &Work<'_>,
    ) -> Result<(), String> {
        // Or what an earlier run left would pass for what this one did not do.
        placement.spoil_outputs();
        placement.run_to_check();
        self.bytes_out = 0;
        for (i, output) in placement.outputs().into_iter().enumerate() {
            self.bytes_out += output.map_or(0, <[u8]>::len) as u64;
            workload
                .check(work.batch.item(i), output, work.slot)
                .map_err(|wrong| format!("{}, item {i}: {wrong}", self.name))?;
        }
        Ok(())
    }
}

impl Placement<'_> {
    /// Does all calls once.
    pub(crate) fn run(&mut self) {
        match self {
            Self::Kernel(called) => called.run(),
            Self::Bound(bound) => bound.run(),
        }
    }

    /// The same, and keeps what [`Self::outputs`] needs.
    fn run_to_check(&mut self) {
        match self {
            Self::Kernel(called) => called.run_to_check(),
            Self::Bound(bound) => bound.run(),
        }
    }

    /// CPU time of `runs` runs, in seconds.
    fn timed(&mut self, runs: usize) -> f64 {
        let start = cpu_s();
        for _ in 0..runs {
            self.run();
        }
        cpu_s() - start
    }

    /// Runs for `seconds` of CPU time, at least once.
    fn warm_up(&mut self, seconds: f64) {
        let start = cpu_s();
        loop {
            self.run();
            if cpu_s() - start >= seconds {
                return;
            }
        }
    }

    fn spoil_outputs(&mut self) {
        match self {
            Self::Kernel(called) => called.dst.fill(SPOILT),
            Self::Bound(bound) => bound.spoil_outputs(SPOILT),
        }
    }

    fn outputs(&mut self) -> Vec<Result<&[u8], JobError>> {
        match self {
            Self::Kernel(called) => called.outputs(),
            Self::Bound(bound) => bound.outputs(),
        }
    }
}

impl Called<'_> {
    fn run(&mut self) {
        self.each_call(|_, _, _| {});
    }

    fn run_to_check(&mut self) {
        self.checked.clear();
        self.each_call(|call, outcomes, checked| {
            checked.extend((0..call.len()).map(|i| {
                let outcome = outcomes.get(i).copied();
                outcome.unwrap_or(Err(JobError::BadOutcomes))
            }));
        });
    }

    /// Does each call, and has `then` look at its outcomes.
    #[inline(always)]
    fn each_call(
        &mut self,
        mut then: impl FnMut(&Batch<'_>, &[Result<u32, JobError>], &mut Vec<Result<u32, JobError>>),
    ) {
        let slot = self.work.slot;
        let mut dst = &mut *self.dst;
        let last = self.work.calls.len().wrapping_sub(1);
        let outcomes = &mut self.outcomes;
        for (number, call) in self.work.calls.iter().enumerate() {
            outcomes.clear();
            let (now, later) = dst.split_at_mut(slot * call.len());
            let slots = &self.slots[usize::from(number == last)];
            let out = BatchOut::new(now, slots, outcomes).expect("its slots");
            self.kernel.run(*call, out).expect("runs");
            then(call, outcomes, &mut self.checked);
            dst = later;
        }
        std::hint::black_box(&mut self.dst);
    }

    fn outputs(&self) -> Vec<Result<&[u8], JobError>> {
        let slots = self.dst.chunks_exact(self.work.slot.max(1));
        let outputs = slots.zip(&self.checked);
        outputs
            .map(|(slot, outcome)| {
                let len = match self.work.shape {
                    OutputShape::Fixed(bytes) => bytes,
                    OutputShape::Variable => (*outcome)? as usize,
                };
                Ok(&slot[..len])
            })
            .collect()
    }
}

/// The number of runs that take `seconds` of CPU time: doubled until a quarter of it is reached, since one run may be shorter than reading
/// the clock.
fn runs_of(seconds: f64, placement: &mut Placement<'_>) -> usize {
    let mut runs = 1;
    loop {
        let taken = placement.timed(runs);
        if taken >= seconds / 4.0 {
            return (seconds / taken * runs as f64).ceil() as usize;
        }
        runs *= 2;
    }
}

fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The version of a crate, read from Cargo.lock.
fn crate_version(name: &str) -> &'static str {
    const LOCK: &str = include_str!("../../../Cargo.lock");
    let start = format!("[[package]]\nname = \"{name}\"\nversion = \"");
    let (_, behind) = LOCK.split_once(&start).unwrap_or(("", "of the harness\""));
    behind.split('"').next().unwrap_or_default()
}

/// The entry of an operator, if the registry has it.
///
/// # Errors
/// It has none, and the operator is not the harness's.
pub(crate) fn entry(operator: &str) -> Result<Option<&'static Entry>> {
    match operator {
        NULL => Ok(None),
        name => registry::find(name)
            .map(Some)
            .with_context(|| format!("no operator {name}")),
    }
}

/// Writes each item's length: four bytes, little endian.
struct Null;

impl Kernel for Null {
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        OutputShape::Fixed(4)
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        4
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, (): &mut ()) -> Result<(), JobError> {
        out.each(batch, |item, slot| {
            std::hint::black_box(item.as_ptr());
            slot[..4].copy_from_slice(&(item.len() as u32).to_le_bytes());
        });
        Ok(())
    }
}
