//! DOCA: the engines of BlueField cards.

use dpb_core::{Backend, Unsupported};

use crate::family::{Family, Finding, Listed};

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Doca;

impl Family for Doca {
    fn name(&self) -> &'static str {
        "doca"
    }

    fn backends(&self) -> Vec<Listed> {
        Vec::new()
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, Unsupported> {
        Err(Unsupported {
            reason: format!("no backend `doca/{instance}`"),
        })
    }

    fn stand_in(&self, _instance: &str) -> Option<String> {
        None
    }

    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }
}
