//! DPDK: crypto, compression and network devices, of hardware and of software.

mod crypto;
mod environment;
mod raw;
mod sys;

use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::{Backend, Unsupported};

use crate::family::{Family, Finding, Listed};
use crypto::CryptoBackend;
use raw::{CryptoDevice, Eal};

/// The family.
#[derive(Clone, Copy, Debug)]
pub struct Dpdk;

/// The crypto devices that were opened.
static CRYPTO: Mutex<Vec<Arc<CryptoDevice>>> = Mutex::new(Vec::new());

fn crypto_device(name: &str) -> Result<Arc<CryptoDevice>, Unsupported> {
    let mut open = CRYPTO.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = open.iter().find(|device| device.name() == name) {
        return Ok(device.clone());
    }
    let eal = Eal::start()?;
    if !CryptoDevice::names(eal)
        .iter()
        .any(|(known, _)| known == name)
    {
        eal.add_device(name, "max_nb_queue_pairs=64")?;
    }
    let device = Arc::new(CryptoDevice::start(eal, name)?);
    open.push(device.clone());
    Ok(device)
}

impl Family for Dpdk {
    fn name(&self) -> &'static str {
        "dpdk"
    }

    fn backends(&self) -> Vec<Listed> {
        Vec::new()
    }

    fn open(&self, instance: &str) -> Result<Box<dyn Backend>, Unsupported> {
        Ok(Box::new(CryptoBackend::new(crypto_device(instance)?)))
    }

    fn stand_in(&self, _instance: &str) -> Option<String> {
        None
    }

    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }
}
