//! The path `hyperscan`: the library's scan as a kernel.

use std::sync::Arc;

use dpb_core::{Batch, BatchOut, JobError, Kernel, OutputShape, SetupError, Unsupported};

use super::hyperscan::{Database, Hyperscan, NO_MEMORY, Scratch};
use super::loaded::Loaded;
use super::{dst_len, write};

/// The path `hyperscan`.
pub(super) struct ByHyperscan {
    rules: Arc<Loaded>,
    database: Arc<Database>,
}

impl ByHyperscan {
    /// # Errors
    /// If there is no library, or it does not take a rule.
    pub(super) fn new(rules: Arc<Loaded>) -> Result<Self, SetupError> {
        let library = Hyperscan::detect().ok_or_else(|| {
            let reason = format!("needs {}", Hyperscan::NEEDS);
            SetupError::Unsupported(Unsupported { reason })
        })?;
        let database = rules.database(library)?;
        Ok(Self { rules, database })
    }
}

impl Kernel for ByHyperscan {
    /// `None` if there was no memory.
    type Scratch = Option<Scratch>;

    fn scratch(&self) -> Self::Scratch {
        self.database.scratch()
    }

    fn shape(&self) -> OutputShape {
        OutputShape::Variable
    }

    fn dst_len(&self, _item_len: usize) -> usize {
        dst_len(&self.rules)
    }

    fn run(
        &self,
        batch: Batch<'_>,
        mut out: BatchOut<'_>,
        scratch: &mut Self::Scratch,
    ) -> Result<(), JobError> {
        let scratch = scratch.as_mut().ok_or(JobError::Device(NO_MEMORY))?;
        for i in 0..batch.len() {
            let found = self.database.scan(batch.item(i), scratch);
            let found = found.map_err(JobError::Device)?;
            let slot = &mut out.slots[i];
            out.outcomes.push(write(found, slot));
        }
        Ok(())
    }
}
