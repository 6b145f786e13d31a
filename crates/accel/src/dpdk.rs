//! DPDK: crypto, compression and network devices, of hardware and of software.

use dpb_core::{Backend, Unsupported};

use crate::family::{Family, Finding, Listed};

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Dpdk;

impl Family for Dpdk {
    fn name(&self) -> &'static str {
        "dpdk"
    }

    fn backends(&self) -> Vec<Listed> {
        Vec::new()
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, Unsupported> {
        Err(Unsupported {
            reason: format!("no backend `dpdk/{instance}`"),
        })
    }

    fn stand_in(&self, _instance: &str) -> Option<String> {
        None
    }

    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }
}
