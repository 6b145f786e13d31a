//! Kernels called directly: no queue, no thread, no job. For tests, benches, and code that wants an operator and nothing
//! around it.

use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::lift::{Inline, Pool, Pooled};
use dpb_core::{
    Batch, BatchOut, InPlace, JobError, Kernel, Limits, OpSpec, Operator, OutputShape, SetupError,
};

/// The threads that a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lift {
    /// The caller's thread.
    Inline,
    /// This number of workers, which the process shares.
    Pooled(NonZeroU32),
}

/// A kernel of any type, with its scratch.
pub trait Direct: Send {
    /// See [`Kernel::shape`].
    fn shape(&self) -> OutputShape;
    /// See [`Kernel::dst_len`].
    fn dst_len(&self, item_len: usize) -> usize;
    /// See [`Kernel::run`].
    ///
    /// # Errors
    /// What ends the whole batch.
    fn run(&mut self, batch: Batch<'_>, out: BatchOut<'_>) -> Result<(), JobError>;
    /// See [`Kernel::run_in_place`].
    ///
    /// # Errors
    /// [`JobError::NotInPlace`] if it cannot; what ends the whole batch.
    fn run_in_place(&mut self, items: InPlace<'_>) -> Result<(), JobError>;
}

/// `kernel` with a scratch of its own.
pub fn direct<K: Kernel>(kernel: K) -> Box<dyn Direct> {
    let scratch = kernel.scratch();
    Box::new(WithScratch { kernel, scratch })
}

/// A kernel whose type the registry need not know.
pub trait AnyKernel {
    /// Behind the seam.
    ///
    /// # Errors
    /// If a worker cannot be started.
    fn lift(self: Box<Self>, lift: Lift, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError>;
    /// Without it.
    fn direct(self: Box<Self>) -> Box<dyn Direct>;
}

struct WithScratch<K: Kernel> {
    kernel: K,
    scratch: K::Scratch,
}

impl<K: Kernel> Direct for WithScratch<K> {
    fn shape(&self) -> OutputShape {
        self.kernel.shape()
    }

    fn dst_len(&self, item_len: usize) -> usize {
        self.kernel.dst_len(item_len)
    }

    fn run(&mut self, batch: Batch<'_>, out: BatchOut<'_>) -> Result<(), JobError> {
        self.kernel.run(batch, out, &mut self.scratch)
    }

    fn run_in_place(&mut self, items: InPlace<'_>) -> Result<(), JobError> {
        self.kernel.run_in_place(items, &mut self.scratch)
    }
}

impl<K: Kernel> AnyKernel for K {
    fn lift(self: Box<Self>, lift: Lift, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        lift.lift(*self, spec)
    }

    fn direct(self: Box<Self>) -> Box<dyn Direct> {
        direct(*self)
    }
}

impl Lift {
    /// Lifts `kernel` to an operator.
    ///
    /// # Errors
    /// If a worker cannot be started.
    pub(crate) fn lift<K: Kernel>(
        self,
        kernel: K,
        spec: &OpSpec,
    ) -> Result<Arc<dyn Operator>, SetupError> {
        let spec = spec.clone();
        Ok(match self {
            Self::Inline => Arc::new(Inline::new(kernel, spec, self.limits())),
            Self::Pooled(workers) => {
                let pool = Pool::shared(workers)?;
                Arc::new(Pooled::new(kernel, spec, self.limits(), pool))
            }
        })
    }

    pub(crate) fn limits(self) -> Limits {
        let mut limits = Limits::new(const { NonZeroU32::new(1024).unwrap() });
        // Offsets and lengths of items are 32 bits.
        limits.input_bytes_max = u32::MAX as usize;
        limits.synchronous = self == Self::Inline;
        limits
    }
}
