//! Work beside packets: how much the search asks for, and who does it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::work::{Work, WorkError};
use crate::pipeline::{Burst, Reason, Stage, Whole};

/// How much work the system does for each packet: set by the search's thread, read by the system's. Both share it by a clone.
#[derive(Clone, Debug, Default)]
pub struct Dial(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The bits of an `f64`.
    units_per_packet: AtomicU64,
    done: AtomicU64,
    fault: OnceLock<WorkError>,
}

impl Dial {
    /// From now on `units` for each packet.
    pub fn set(&self, units: f64) {
        // Nothing else is handed over with it.
        let bits = units.max(0.0).to_bits();
        self.0.units_per_packet.store(bits, Ordering::Relaxed);
    }

    /// Units for each packet.
    pub fn units_per_packet(&self) -> f64 {
        f64::from_bits(self.0.units_per_packet.load(Ordering::Relaxed))
    }

    /// Units that were done since the beginning, by all that share the dial.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// The first error of the work of a [stage](Injected::into_stage), after which nothing that was measured counts.
    pub fn fault(&self) -> Option<WorkError> {
        self.0.fault.get().copied()
    }
}

/// The work of one core of the system.
pub struct Injected {
    work: Box<dyn Work>,
    dial: Dial,
    /// Parts of a unit that packets have asked for.
    owed: f64,
}

impl Injected {
    /// `work`, as much as `dial` says.
    pub fn new(work: Box<dyn Work>, dial: &Dial) -> Self {
        Self {
            work,
            dial: dial.clone(),
            owed: 0.0,
        }
    }

    /// Does the work of `packets` packets. To be called for each burst, behind whatever the system does with it.
    ///
    /// # Errors
    /// That of the work.
    pub fn after(&mut self, packets: usize) -> Result<(), WorkError> {
        self.owed += self.dial.units_per_packet() * packets as f64;
        let units = self.owed as u64;
        if units == 0 {
            return Ok(());
        }
        self.owed -= units as f64;
        self.work.run(units)?;
        self.dial.0.done.fetch_add(units, Ordering::Relaxed);
        Ok(())
    }

    /// The work as the last stage of a line: done for each burst before its packets leave. If it fails, the dial has the [fault](Dial::fault), and
    /// packets are dropped from there on.
    pub fn into_stage(mut self) -> impl Stage {
        Whole::new("injected work", move |burst: &mut Burst| {
            if let Err(error) = self.after(burst.len()) {
                // The first one says it.
                let _ = self.dial.0.fault.set(error);
                for mut packet in burst.iter_mut() {
                    packet.drop_for(Reason("injected work failed"));
                }
            }
        })
    }
}

impl std::fmt::Debug for Injected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Injected")
            .field("work", &self.work.name())
            .field("dial", &self.dial)
            .finish_non_exhaustive()
    }
}
