//! Devices and systems that do not exist: models on virtual time, and faults on purpose.
//!
//! Models of one device, and faults, wrap any other backend and speak the seam themselves, so whatever runs on a device runs on them:
//!
//! * [`Modelled`]: results from the backend inside, time from a [`Model`]. Its figures are `simulated`. Engines live in a
//!   [`Simulation`], several in one, alone or behind a [`Link`].
//! * [`Faulty`]: the backend inside, but some jobs end in an error, have a wrong bit, come late or out of order, as [`Faults`] says.
//!
//! Whole systems are made of parts:
//!
//! * [`kernel`]: components on virtual time in picoseconds, on one thread or on several with the same results.
//! * [`system`]: hosts, cards, switches, links; a TOML file becomes a system ([`system::System`]).
//! * [`beside`]: programs that were measured, beside a server that their records were fed to.
//! * [`tcp`]: TCP endpoints as state machines.
//! * [`simbricks`]: endpoints of SimBricks' protocol, for other simulators; [`system::Gate`] leads a part out by one, [`system::Live`] to real hosts.
//!
//! Results are always real; only time and faults are made up. Both are deterministic: the same calls in the same order
//! give the same times and faults (over a synchronous backend; a pool inside adds its own order).

pub mod beside;
pub mod families;
pub mod faulty;
pub mod kernel;
pub mod link;
pub mod modelled;
pub mod simbricks;
pub mod simulation;
pub mod system;
pub mod tcp;

pub use families::{Faultiness, Models, OpenInner};
pub use faulty::{Faults, Faulty, Injected};
pub use link::{Link, LinkModel, Ways};
pub use modelled::{Model, Modelled};
pub use simulation::Simulation;
