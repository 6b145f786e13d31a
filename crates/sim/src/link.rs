//! A link on virtual time, between the host and the engines behind it.

use std::fmt;

use crate::simulation::{Simulation, Wire};

/// The parts of a link's time. Whole nanoseconds and picoseconds, so that times are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkModel {
    /// Time on the wire for each byte, in picoseconds; a job's total is rounded up to a nanosecond. 80 is 100 Gb/s.
    pub byte_ps: u64,
    /// From the last byte that is sent to the last that has arrived.
    pub latency_ns: u64,
    /// The directions that it has.
    pub ways: Ways,
}

/// The directions in which bytes cross a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// Inputs go to the engine; outputs are home as soon as they are computed.
    Forth,
    /// Outputs come back too, on a wire of their own: full duplex.
    Both,
}

/// A link that engines share. Each direction carries one job's bytes at a time, first come, first served.
#[derive(Clone, Debug)]
pub struct Link {
    model: LinkModel,
    simulation: Simulation,
    forth: Wire,
    back: Option<Wire>,
}

impl Link {
    /// A link that lives in `simulation`.
    pub fn new(model: LinkModel, simulation: &Simulation) -> Self {
        let wire = || Wire {
            station: simulation.add_station(1),
            byte_ps: model.byte_ps,
            latency_ns: model.latency_ns,
        };
        Self {
            forth: wire(),
            back: (model.ways == Ways::Both).then(wire),
            simulation: simulation.clone(),
            model,
        }
    }

    /// The model.
    pub fn model(&self) -> &LinkModel {
        &self.model
    }

    pub(crate) fn simulation(&self) -> &Simulation {
        &self.simulation
    }

    /// Towards the engine, and home.
    pub(crate) fn wires(&self) -> (Wire, Option<Wire>) {
        (self.forth, self.back)
    }
}

/// All parameters by name.
impl fmt::Display for LinkModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            byte_ps,
            latency_ns,
            ways,
        } = self;
        let ways = match ways {
            Ways::Forth => "forth",
            Ways::Both => "both",
        };
        write!(f, "byte_ps={byte_ps},latency_ns={latency_ns},ways={ways}")
    }
}
