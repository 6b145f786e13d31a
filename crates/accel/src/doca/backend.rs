//! DOCA's engines as a backend: which operators they compute, and within which limits.

use std::fmt;
use std::sync::Arc;

use dpb_core::{
    Backend, Buf, Clock, Limits, OpSpec, Operator, Properties, SetupError, Unsupported,
};

use super::kind::Kind;
use super::operator::{DocaOperator, Work};
use super::raw::{self, Bounds, Device, Doca};

/// The engines of one card, or of all cards: then the first that can does the work.
#[derive(Debug)]
pub struct DocaBackend {
    name: String,
    doca: &'static Doca,
    /// The devices; at least one.
    devices: Vec<Arc<Device>>,
}

impl DocaBackend {
    /// `devices` are not none.
    pub(super) fn new(name: String, doca: &'static Doca, devices: Vec<Arc<Device>>) -> Self {
        Self {
            name,
            doca,
            devices,
        }
    }

    /// The first device that does this, and what it promises.
    fn device(&self, kind: Kind) -> Result<(&Arc<Device>, Bounds), Unsupported> {
        if let Some(lack) = self.doca.lack(kind) {
            let (version, operator) = (self.doca.version(), kind.operator());
            let reason =
                format!("needs another DOCA than {version}, which has no {operator}: {lack}");
            return Err(Unsupported { reason });
        }
        let mut refusals = Vec::new();
        for device in &self.devices {
            match device.bounds(kind) {
                Ok(bounds) => return Ok((device, bounds)),
                Err(why) => refusals.push(format!("{} ({why})", device.name())),
            }
        }
        let reason = format!(
            "needs an engine for {}, which {} lacks",
            kind.operator(),
            refusals.join(" and ")
        );
        Err(Unsupported { reason })
    }
}

impl Backend for DocaBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        self.devices[0].clock()
    }

    fn properties(&self) -> Properties {
        let names: Vec<&str> = self.devices.iter().map(|device| device.name()).collect();
        Properties::of_device(self.doca.stand_in().map(str::to_owned))
            .with_library(super::about(self.doca))
            .with_device(names.join(", "))
    }

    fn alloc(&self, len: usize) -> Result<Buf, SetupError> {
        raw::alloc(&self.devices, len)
    }

    fn limits(&self, spec: &OpSpec) -> Result<Limits, Unsupported> {
        let work = Work::of(spec).map_err(|reason| Unsupported { reason })?;
        let (_, bounds) = self.device(work.kind)?;
        Ok(work.limits(bounds))
    }

    fn prepare(&self, spec: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        let unsupported = |reason| SetupError::Unsupported(Unsupported { reason });
        let work = Work::of(spec).map_err(unsupported)?;
        let (device, bounds) = self.device(work.kind).map_err(SetupError::Unsupported)?;
        Ok(Arc::new(DocaOperator {
            spec: spec.clone(),
            limits: work.limits(bounds),
            work,
            bounds,
            device: device.clone(),
        }))
    }
}

impl fmt::Debug for Doca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Doca({})", self.version())
    }
}
