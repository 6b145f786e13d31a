//! What a chain is run on, and what is right for it.

use dpb_core::{OpSpec, Right, Workload, spec};
use dpb_operators::registry::find;

/// The workloads of the stages, one behind another.
pub(crate) struct Chained {
    spec: OpSpec,
    stages: Vec<Box<dyn Workload>>,
}

impl Chained {
    /// Of operators with their defaults. All but the last have one right output for each item.
    pub(crate) fn of(names: &[&str]) -> Self {
        let entries: Vec<_> = names
            .iter()
            .map(|name| find(name).expect("an operator"))
            .collect();
        let specs: Vec<_> = entries.iter().map(|entry| entry.default_spec()).collect();
        let stages = entries.iter().zip(&specs);
        let stages = stages.map(|(entry, spec)| entry.workload(spec).expect("its own"));
        Self {
            stages: stages.collect(),
            spec: OpSpec::from(spec::Chain(specs)),
        }
    }
}

impl Workload for Chained {
    fn spec(&self) -> &OpSpec {
        &self.spec
    }

    fn name(&self) -> &str {
        "cpu/portable"
    }

    /// Where a stage decodes, its item is what the next one's encodes to.
    fn encode_item(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let mut stages = self.stages.iter().rev();
        stages.try_fold(plain.to_vec(), |item, stage| stage.encode_item(&item))
    }

    fn right(&self, item: &[u8], slot_bytes: usize) -> Right {
        let (last, others) = self.stages.split_last().expect("a stage");
        let mut item = item.to_vec();
        for stage in others {
            match stage.right(&item, usize::MAX) {
                Right::Only(output) => item = output,
                Right::AnyValid => panic!("{} has no one right output", stage.spec()),
                refused => return refused,
            }
        }
        last.right(&item, slot_bytes)
    }
}
