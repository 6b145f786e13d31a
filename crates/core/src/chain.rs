//! Operators one behind another, as one operator: [`Chain`].

mod control;
mod flight;
mod queue;
mod stage_by_stage;

pub use control::changes_to;
pub use stage_by_stage::StageByStage;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use self::control::StageControls;
use self::queue::ChainQueue;
use crate::{
    Backend, Buf, Control, Limits, NotInPlace, OpSpec, Operator, OutputShape, Queue, SetupError,
    Unsupported, spec,
};

/// Operators one behind another, as one operator: output *i* of a stage is item *i* of the next. The stages may be of different
/// backends. A device that runs such a sequence by itself takes it whole, as [`spec::Chain`]; everything else runs it stage by
/// stage, by this ([`StageByStage`]).
///
/// An item that a stage refuses is refused by the chain, with that stage's error; the stages behind it see an empty item. A job that a
/// stage cannot carry out fails with that stage's error, also where an output is longer than the next stage takes.
///
/// What goes from stage to stage lies in memory of the queue, which is allocated when it is opened, for jobs at the limits. Each
/// output has the room there that its stage's [`Operator::dst_len`] says; what a decoder makes of an item beyond that is refused with
/// [`JobError::DstTooShort`](crate::JobError::DstTooShort). A chain works in place if its first stage does, and the others do with outputs
/// that begin where their items do: what lies before an item's slot then stays as it was.
///
/// The tables of its stages change by one [`Control`], each call of which has changes for one stage ([`changes_to`]). A commit makes the
/// changes of all stages visible, one stage after another: a job that it overtakes may see the new table of one stage and the old one of
/// another. Of each stage it sees one version, and a job that is submitted after the commit sees all changes.
pub struct Chain {
    spec: OpSpec,
    stages: Vec<Arc<dyn Operator>>,
    limits: Limits,
    alloc: Alloc,
    shape: OutputShape,
    in_place: Result<usize, NotInPlace>,
    control: Option<Arc<dyn Control>>,
}

type Alloc = Box<dyn Fn(usize) -> Result<Buf, SetupError> + Send + Sync>;

const NO_STAGE: &str = "a chain without stages";
/// Longest input of a job of a chain that a backend makes by [`Chain::on`], in bytes.
const INPUT_BYTES_MAX: usize = 1 << 20;
/// Most items of such a job.
const ITEMS_MAX: usize = 1024;
/// Most such jobs that one queue may hold.
const DEPTH_MAX: NonZeroU32 = NonZeroU32::new(64).unwrap();

impl Chain {
    /// A chain of `stages`, for jobs within `limits`. `alloc` gives memory that every stage reaches. Of the caller's memory the first
    /// stage must reach what a job reads and the last one what it writes; in place every stage.
    ///
    /// # Errors
    /// [`SetupError::Parameter`] if there is no stage, or if `limits` have no bound on the input or the items of a job.
    pub fn new(
        stages: Vec<Arc<dyn Operator>>,
        limits: Limits,
        alloc: impl Fn(usize) -> Result<Buf, SetupError> + Send + Sync + 'static,
    ) -> Result<Self, SetupError> {
        let Some(last) = stages.last() else {
            return Err(SetupError::Parameter(NO_STAGE.into()));
        };
        if limits.input_bytes_max == usize::MAX || limits.items_max == usize::MAX {
            let what = "a chain for jobs of any size: its memory needs a bound";
            return Err(SetupError::Parameter(what.into()));
        }
        let shapes = || stages.iter().map(|stage| stage.shape());
        let is_fixed = shapes().all(|shape| matches!(shape, OutputShape::Fixed(_)));
        let shape = if is_fixed {
            last.shape()
        } else {
            OutputShape::Variable
        };
        Ok(Self {
            spec: OpSpec::from(spec::Chain(
                stages.iter().map(|stage| stage.spec().clone()).collect(),
            )),
            limits,
            alloc: Box::new(alloc),
            shape,
            in_place: in_place(&stages),
            control: StageControls::of(stages.iter().map(|stage| stage.control()).collect()),
            stages,
        })
    }

    /// The chain of `specs` on one backend that has no engine for the whole of it.
    ///
    /// # Errors
    /// Those of [`Backend::prepare`] for any of them; [`SetupError::Unsupported`] if there is none.
    pub fn on(
        backend: &dyn Backend,
        specs: &[OpSpec],
        alloc: impl Fn(usize) -> Result<Buf, SetupError> + Send + Sync + 'static,
    ) -> Result<Self, SetupError> {
        let limits = Self::limits_on(backend, specs)?;
        let mut stages = Vec::new();
        for spec in flat(specs) {
            stages.push(backend.prepare(spec)?);
        }
        let chain = Self::new(stages, limits, alloc)?;
        let spec = OpSpec::from(spec::Chain(specs.to_vec()));
        Ok(Self { spec, ..chain })
    }

    /// What [`Chain::on`] promises: the lowest limits of any stage, and at most 64 jobs of 1 MiB and 1,024 items each.
    ///
    /// # Errors
    /// Those of [`Backend::limits`] for any of them, or that there is none.
    pub fn limits_on(backend: &dyn Backend, specs: &[OpSpec]) -> Result<Limits, Unsupported> {
        if flat(specs).is_empty() {
            let reason = NO_STAGE.to_owned();
            return Err(Unsupported { reason });
        }
        let mut limits = Limits::new(DEPTH_MAX);
        limits.input_bytes_max = INPUT_BYTES_MAX;
        limits.items_max = ITEMS_MAX;
        limits.synchronous = true;
        for spec in flat(specs) {
            limits = limits.and(backend.limits(spec)?);
        }
        Ok(limits)
    }

    /// The code that computes the chain of `specs` on `backend`, stage by stage: `inflate: libdeflate, …; crc32c: sse42, …`. `None` if the
    /// code of no stage is known.
    pub fn code_on(backend: &dyn Backend, specs: &[OpSpec]) -> Option<String> {
        let codes = flat(specs).into_iter().filter_map(|spec| {
            let code = backend.code(spec)?;
            Some(format!("{}: {code}", spec.name()))
        });
        let codes = codes.collect::<Vec<_>>().join("; ");
        (!codes.is_empty()).then_some(codes)
    }

    /// Bytes that go from each stage to the next at most, in a job at the limits.
    fn bytes_between(&self) -> impl Iterator<Item = usize> {
        let items_max = self.limits.items_max;
        let before_last = self.stages.iter().take(self.stages.len() - 1);
        before_last.scan(self.limits.input_bytes_max, move |bytes, stage| {
            let of = |len: usize, items: usize| stage.dst_len(len).saturating_mul(items);
            let input = *bytes;
            // As few long items, as many short ones, and what lies between.
            let counts = std::iter::successors(Some(1_usize), |count| count.checked_mul(2));
            let counts = counts
                .take_while(|&count| count < items_max)
                .chain([items_max]);
            let most = counts.map(|count| of(input.div_ceil(count.max(1)), count));
            let short = of(0, items_max).max(of(1, items_max));
            *bytes = most.max().unwrap_or(0).saturating_add(short);
            Some(*bytes)
        })
    }
}

/// The stages of a chain, and in the place of a chain among them its own.
fn flat(specs: &[OpSpec]) -> Vec<&OpSpec> {
    let mut stages = Vec::new();
    for spec in specs {
        match spec.get() {
            Some(spec::Chain(inner)) => stages.extend(flat(inner)),
            None => stages.push(spec),
        }
    }
    stages
}

/// How far behind the start of an item the output of a chain of `stages` begins, in place.
///
/// # Errors
/// The first stage to blame, and why.
fn in_place(stages: &[Arc<dyn Operator>]) -> Result<usize, NotInPlace> {
    let mut offsets = stages.iter().enumerate().map(|(k, stage)| {
        let blamed = |reason: String| {
            let name = stage.spec().name();
            NotInPlace::new(format!("stage {} of {}, {name}: {reason}", k + 1, stages.len()))
        };
        match stage.in_place() {
            Ok(offset) if k == 0 || offset == 0 => Ok(offset),
            Ok(offset) => Err(blamed(format!(
                "its output begins {offset} bytes behind the start of its item, and a chain writes over the first stage's items \
                 alone; make it the first stage, or give the outputs slots outside of the items"
            ))),
            Err(why) => Err(blamed(why.to_string())),
        }
    });
    let first = offsets.next().unwrap_or(Ok(0));
    first.and_then(|first| {
        offsets
            .try_for_each(|offset| offset.map(drop))
            .map(|()| first)
    })
}

impl Operator for Chain {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn shape(&self) -> OutputShape {
        self.shape
    }

    fn dst_len(&self, item_len: usize) -> usize {
        let stages = self.stages.iter();
        stages.fold(item_len, |len, stage| stage.dst_len(len))
    }

    /// A refusal names the stage that it is due to.
    fn in_place(&self) -> Result<usize, NotInPlace> {
        self.in_place.clone()
    }

    /// Those of all stages, as one: [`changes_to`] addresses one stage.
    fn control(&self) -> Option<Arc<dyn Control>> {
        self.control.clone()
    }

    fn open(self: Arc<Self>, depth: NonZeroU32) -> Result<Box<dyn Queue>, SetupError> {
        if depth > self.limits.depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: self.limits.depth_max.get(),
            });
        }
        Ok(Box::new(ChainQueue::open(self, depth)?))
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}
