//! A backend that is one kernel: [`OneKernel`].

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::{Inline, Pool, Pooled};
use crate::spec::Declared;
use crate::{
    Backend, Buf, Clock, Kernel, Limits, OpSpec, Operator, Properties, SetupError, Spec,
    Unsupported, WallClock,
};

/// A backend that computes the specs of one type, with the kernel that `kernel` makes of a spec, on the caller's core. For prototypes and
/// tests: a kernel behind the whole seam in one line.
///
/// ```
/// use dpb_core::lift::OneKernel;
/// # use dpb_core::{Batch, BatchOut, JobError, Kernel, OutputShape};
/// use dpb_core::{Backend, OpSpec, spec};
/// # struct Zeros;
/// # impl Kernel for Zeros {
/// #     type Scratch = ();
/// #     fn scratch(&self) {}
/// #     fn shape(&self) -> OutputShape { OutputShape::Fixed(4) }
/// #     fn dst_len(&self, _: usize) -> usize { 4 }
/// #     fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, _: &mut ()) -> Result<(), JobError> {
/// #         out.each(batch, |_, slot| slot[..4].fill(0));
/// #         Ok(())
/// #     }
/// # }
///
/// // `Zeros` is a `Kernel`.
/// let card = OneKernel::new("card/1", |_: &spec::Crc32c| Ok(Zeros));
/// assert!(card.prepare(&OpSpec::from(spec::Crc32c)).is_ok());
/// let refused = card.limits(&OpSpec::from(spec::Sha256)).expect_err("another operator");
/// assert_eq!(refused.reason, "card/1 computes crc32c, not sha256");
/// ```
pub struct OneKernel<S, F> {
    name: String,
    operator: &'static str,
    kernel: F,
    limits: Limits,
    workers: Option<NonZeroU32>,
    properties: Properties,
    clock: WallClock,
    of: PhantomData<fn(S)>,
}

/// Most jobs that one queue may hold, by default.
const DEPTH_MAX: NonZeroU32 = NonZeroU32::new(64).unwrap();

impl<S, K, F> OneKernel<S, F>
where
    S: Spec,
    K: Kernel,
    F: Fn(&S) -> Result<K, Unsupported> + Send + Sync,
{
    /// The backend `name`. It asks `kernel` also for its limits, whose refusals are its own: why it has no kernel for a spec.
    pub fn new(name: impl Into<String>, kernel: F) -> Self
    where
        S: Declared,
    {
        Self::of_operator(name, S::NAME, kernel)
    }

    /// The same for specs that no text declares, such as one that holds an open table; `operator` is what refusals call them.
    pub fn of_operator(name: impl Into<String>, operator: &'static str, kernel: F) -> Self {
        let mut limits = Limits::new(DEPTH_MAX);
        limits.synchronous = true;
        Self {
            name: name.into(),
            operator,
            kernel,
            limits,
            workers: None,
            properties: Properties::of_this_cpu(),
            clock: WallClock::default(),
            of: PhantomData,
        }
    }

    /// The same on the `workers` threads that this process has for all such queues ([`Pool::shared`]). Its `properties` say so.
    #[must_use]
    pub fn on_workers(self, workers: NonZeroU32) -> Self {
        Self {
            workers: Some(workers),
            properties: Properties::of_workers(workers),
            ..self
        }
    }

    /// The same with these limits; whether it is synchronous they need not say.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The same with these properties: of a stand-in for a device, for one.
    #[must_use]
    pub fn with_properties(self, properties: Properties) -> Self {
        Self { properties, ..self }
    }

    fn kernel(&self, spec: &OpSpec) -> Result<K, Unsupported> {
        match spec.get::<S>() {
            Some(spec) => (self.kernel)(spec),
            None => {
                let reason = format!("{} computes {}, not {spec}", self.name, self.operator);
                Err(Unsupported { reason })
            }
        }
    }

    fn own_limits(&self) -> Limits {
        Limits {
            synchronous: self.workers.is_none(),
            ..self.limits
        }
    }
}

impl<S, K, F> Backend for OneKernel<S, F>
where
    S: Spec,
    K: Kernel,
    F: Fn(&S) -> Result<K, Unsupported> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn properties(&self) -> Properties {
        self.properties.clone()
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        Buf::zeroed(len).ok_or(SetupError::OutOfMemory { len })
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        self.kernel(spec).map(|_| self.own_limits())
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let (kernel, spec) = (self.kernel(spec)?, spec.clone());
        let limits = self.own_limits();
        Ok(match self.workers {
            None => Arc::new(Inline::new(kernel, spec, limits)),
            Some(workers) => Arc::new(Pooled::new(kernel, spec, limits, Pool::shared(workers)?)),
        })
    }
}

impl<S, F> fmt::Debug for OneKernel<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OneKernel({})", self.name)
    }
}
