//! The control of a chain: changes, each call of them for one stage.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{ChangeError, Control};

/// Bytes of a stage's number.
const ADDRESS: usize = size_of::<u32>();

/// Changes for [`Control::change`] of a [`Chain`](crate::Chain), which go to stage `stage`, counted from zero: its number in four bytes,
/// little-endian, then `changes` in the stage's own format. The stages of a chain in a chain count as the outer one's.
#[must_use]
pub fn changes_to(stage: u32, changes: &[u8]) -> Vec<u8> {
    [&stage.to_le_bytes()[..], changes].concat()
}

/// The controls of all stages, as one.
pub(super) struct StageControls {
    /// Of each stage, if it has one.
    stages: Vec<Option<Arc<dyn Control>>>,
    version: Mutex<Version>,
}

#[derive(Default)]
struct Version {
    number: u64,
    /// The sum of the stages' versions.
    of_stages: u64,
}

impl StageControls {
    /// `None` if no stage has a control.
    pub(super) fn of(stages: Vec<Option<Arc<dyn Control>>>) -> Option<Arc<dyn Control>> {
        let has_one = stages.iter().any(Option::is_some);
        has_one.then(|| {
            let version = Mutex::default();
            Arc::new(Self { stages, version }) as Arc<dyn Control>
        })
    }
}

impl Control for StageControls {
    fn change(&self, changes: &[u8]) -> Result<(), ChangeError> {
        let nobody = ChangeError::Malformed { at: 0 };
        let (stage, changes) = changes.split_first_chunk::<ADDRESS>().ok_or(nobody)?;
        let stage = usize::try_from(u32::from_le_bytes(*stage)).map_err(|_| nobody)?;
        let control = self.stages.get(stage).and_then(Option::as_ref);
        control
            .ok_or(nobody)?
            .change(changes)
            .map_err(|error| match error {
                ChangeError::Malformed { at } => ChangeError::Malformed { at: at + ADDRESS },
                other => other,
            })
    }

    fn commit(&self) -> Result<u64, ChangeError> {
        let mut version = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_stages = 0;
        for control in self.stages.iter().flatten() {
            of_stages += control.commit()?;
        }
        version.number += u64::from(of_stages != version.of_stages);
        version.of_stages = of_stages;
        Ok(version.number)
    }
}
