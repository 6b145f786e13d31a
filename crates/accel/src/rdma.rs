//! RDMA through verbs: memory of peers.

use dpb_core::{Backend, Unsupported};

use crate::family::{Family, Finding, Listed};

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Rdma;

impl Family for Rdma {
    fn name(&self) -> &'static str {
        "rdma"
    }

    fn backends(&self) -> Vec<Listed> {
        Vec::new()
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, Unsupported> {
        Err(Unsupported {
            reason: format!("no backend `rdma/{instance}`"),
        })
    }

    fn stand_in(&self, _instance: &str) -> Option<String> {
        None
    }

    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }
}
