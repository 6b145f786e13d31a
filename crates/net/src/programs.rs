//! Programs that people move to a DPU, as stages of a [`pipeline`](crate::pipeline).
//!
//! | program | what |
//! |---|---|
//! | [`flow_table`] | finds or begins the flow of each packet and counts it there, in software or on a model of hardware |
//! | [`app_recognition`] | recognises the application of each flow, and hashes, compresses, sends back or drops its packets |
//! | [`forward`] | sends packets on, by port or by route |
//! | [`esp`] | encrypts packets in place and decrypts them, as IPsec does |
//! | [`nat44`] | translates addresses and ports between an inside and an outside |
//! | [`firewall`] | lets packets through by rules and by the flows that are known |
//!
//! Each runs on any port, and each operator that it uses ([`Engine`]) on any backend. A program gives the stages of one shard; several of them go one behind another in a
//! [`Line`](crate::pipeline::Line).

pub mod app_recognition;
pub mod esp;
pub mod firewall;
pub mod flow_table;
pub mod forward;
pub mod nat44;
mod network;
mod only;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use dpb_core::{Backend, OpSpec, Operator, SetupError};

pub use only::Only;

use crate::pipeline::{OffloadStage, Offloading, Part};

/// An operator on a backend, and the depth of its queues.
#[derive(Clone)]
pub struct Engine {
    /// The backend that it runs on.
    pub backend: Arc<dyn Backend>,
    /// The operator, prepared there.
    pub operator: Arc<dyn Operator>,
    /// Bursts in flight, for each shard.
    pub depth: NonZeroU32,
    /// Packets of a burst, at most.
    pub packets_max: usize,
}

impl Engine {
    /// Prepares `spec` on `backend`.
    ///
    /// # Errors
    /// The backend's own; [`SetupError::TooDeep`] where its queues are shorter than `depth`.
    pub fn new(
        backend: Arc<dyn Backend>,
        spec: &OpSpec,
        depth: NonZeroU32,
        packets_max: usize,
    ) -> Result<Self, SetupError> {
        let depth_max = backend.limits(spec)?.depth_max;
        if depth > depth_max {
            return Err(SetupError::TooDeep {
                asked: depth.get(),
                depth_max: depth_max.get(),
            });
        }
        Ok(Self {
            operator: backend.prepare(spec)?,
            backend,
            depth,
            packets_max,
        })
    }

    /// A stage that has it do `part`, with outputs of up to `output_bytes` where they do not take the place of their items.
    ///
    /// # Errors
    /// As [`OffloadStage::new`].
    pub fn stage<P: Part>(
        &self,
        part: P,
        output_bytes: u32,
    ) -> Result<OffloadStage<P>, SetupError> {
        let offloading = Offloading {
            depth: self.depth,
            packets_max: self.packets_max,
            output_bytes,
        };
        OffloadStage::on(&*self.backend, Arc::clone(&self.operator), part, offloading)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spec, backend) = (self.operator.spec(), self.backend.name());
        write!(f, "Engine({spec} on {backend}, {} deep)", self.depth)
    }
}
