//! The path `hyperscan`: the library's scan as a kernel.

use std::sync::Arc;

use dpb_core::{Batch, BatchOut, JobError, SetupError, Unsupported};

use super::hyperscan::{Database, Hyperscan, NO_MEMORY, Scratch};
use super::live::Matcher;
use super::loaded::Loaded;
use super::write;

/// A rule set as the library compiled it.
pub(super) struct ByHyperscan(Arc<Database>);

impl Matcher for ByHyperscan {
    /// `None` if there was no memory.
    type Scratch = Option<Scratch>;

    fn new(rules: &Arc<Loaded>) -> Result<Self, SetupError> {
        let library = Hyperscan::detect().ok_or_else(|| {
            let reason = format!("needs {}", Hyperscan::NEEDS);
            SetupError::Unsupported(Unsupported { reason })
        })?;
        Ok(Self(rules.database(library)?))
    }

    fn scratch(&self) -> Self::Scratch {
        self.0.scratch()
    }

    fn run(
        &self,
        batch: Batch<'_>,
        mut out: BatchOut<'_>,
        scratch: &mut Self::Scratch,
    ) -> Result<(), JobError> {
        let scratch = scratch.as_mut().ok_or(JobError::Device(NO_MEMORY))?;
        for i in 0..batch.len() {
            let found = self.0.scan(batch.item(i), scratch);
            let found = found.map_err(JobError::Device)?;
            let slot = &mut out.slots[i];
            out.outcomes.push(write(found, slot));
        }
        Ok(())
    }
}
