//! Rule sets that are replaced while queues match payloads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dpb_core::rules::RuleError;
use dpb_core::versions::Reader;
use dpb_core::{
    Batch, BatchOut, ChangeError, Control, JobError, Kernel, OpSpec, OutputShape, SetupError,
    UnsupportedRules, Versioned, Versions, spec,
};

use super::Match;
use super::loaded::Loaded;
use super::rules::Rules;
use crate::entry::own;

/// A rule set in the form in which a path matches it.
pub(super) trait Matcher: Send + Sync + Sized + 'static {
    /// Working memory of one thread, for this rule set alone.
    type Scratch: Send;
    /// # Errors
    /// If the path does not take a rule, or is not there.
    fn new(rules: &Arc<Loaded>) -> Result<Self, SetupError>;
    /// Allocates working memory.
    fn scratch(&self) -> Self::Scratch;
    /// The matches in each item of `batch`.
    ///
    /// # Errors
    /// As of [`Kernel::run`].
    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        scratch: &mut Self::Scratch,
    ) -> Result<(), JobError>;
}

/// A rule set with its number among those of one operator.
struct RuleSet<M> {
    number: u64,
    matcher: Arc<M>,
}

impl<M> Clone for RuleSet<M> {
    fn clone(&self) -> Self {
        let Self { number, matcher } = self;
        Self {
            number: *number,
            matcher: matcher.clone(),
        }
    }
}

impl<M: Matcher> Versioned for RuleSet<M> {
    type Change = Self;
    type Error = ChangeError;
    const REPLACES: bool = true;

    fn apply(&mut self, change: &Self) -> Result<(), ChangeError> {
        *self = change.clone();
        Ok(())
    }
}

/// The kernel of a path.
pub(super) struct Live<M: Matcher>(Arc<Shared<M>>);

/// The kernel's rule sets, and their control: a change is a rule file, whose rules take the place of all that there were.
struct Shared<M: Matcher> {
    versions: Versions<RuleSet<M>>,
    /// The number of the rule set that was made last.
    last: AtomicU64,
    unsupported: UnsupportedRules,
    /// Rules that a slot of [`Kernel::dst_len`] bytes has room for: as many as the first rule set has.
    rules_max: usize,
}

impl<M: Matcher> Live<M> {
    /// The rule set of `spec`.
    ///
    /// # Errors
    /// If it has none, or the path does not take a rule.
    pub(super) fn new(spec: &OpSpec) -> Result<Self, SetupError> {
        let spec::RxpMatch { rules, unsupported } = own(spec);
        let rules = Loaded::of(rules, *unsupported)?;
        Ok(Self::of(M::new(&rules)?, rules.rules().len(), *unsupported))
    }

    /// A first rule set of `rules_max` rules; what becomes of rules that are `unsupported` in later ones.
    pub(super) fn of(matcher: M, rules_max: usize, unsupported: UnsupportedRules) -> Self {
        let first = RuleSet {
            number: 0,
            matcher: Arc::new(matcher),
        };
        Self(Arc::new(Shared {
            versions: Versions::new(Arc::new(first)),
            last: AtomicU64::new(0),
            unsupported,
            rules_max,
        }))
    }
}

/// The memory of one thread.
pub(super) struct Scratch<M: Matcher> {
    current: Reader<RuleSet<M>>,
    /// The rule set that `own` is for.
    number: u64,
    own: M::Scratch,
}

impl<M: Matcher> Kernel for Live<M> {
    type Scratch = Scratch<M>;

    fn scratch(&self) -> Scratch<M> {
        let mut current = self.0.versions.reader();
        let rules = current.enter();
        let (number, own) = (rules.number, rules.matcher.scratch());
        drop(rules);
        Scratch {
            current,
            number,
            own,
        }
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    /// The length of an output in which every rule matches.
    fn dst_len(&self, _item_len: usize) -> usize {
        self.0.rules_max * Match::BYTES
    }

    fn control(&self) -> Option<Arc<dyn Control>> {
        Some(self.0.clone())
    }

    fn run(
        &self,
        batch: Batch<'_>,
        out: BatchOut<'_>,
        Scratch {
            current,
            number,
            own,
        }: &mut Scratch<M>,
    ) -> Result<(), JobError> {
        let rules = current.enter();
        if rules.number != *number {
            *own = rules.matcher.scratch();
            *number = rules.number;
        }
        rules.matcher.run(batch, out, own)
    }
}

impl<M: Matcher> Control for Shared<M> {
    /// `file` is the text of a rule file. It is compiled here, which may take seconds, while queues go on with the rule set that they have.
    fn change(&self, file: &[u8]) -> Result<(), ChangeError> {
        let rules =
            Rules::parse(file, self.unsupported).map_err(|error| malformed(file, &error))?;
        if rules.rules().len() > self.rules_max {
            return Err(ChangeError::Full);
        }
        let matcher = M::new(&Arc::new(Loaded::from(rules))).map_err(|error| match error {
            SetupError::OutOfMemory { .. } => ChangeError::Full,
            _ => ChangeError::Malformed { at: 0 },
        })?;
        self.versions.change(RuleSet {
            number: self.last.fetch_add(1, Ordering::Relaxed) + 1,
            matcher: Arc::new(matcher),
        })
    }

    fn commit(&self) -> Result<u64, ChangeError> {
        Ok(self.versions.commit())
    }
}

/// The error at the line of `file` that is wrong.
fn malformed(file: &[u8], error: &RuleError) -> ChangeError {
    let lines_before = file
        .split_inclusive(|byte| *byte == b'\n')
        .take(error.line - 1);
    ChangeError::Malformed {
        at: lines_before.map(<[u8]>::len).sum(),
    }
}
