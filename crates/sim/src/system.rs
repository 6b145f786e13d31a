//! Systems of hosts, cards and a network, made of parts on the kernel's virtual time.
//!
//! What a part computes is real: frames have headers and payloads, a digest is computed by an operator behind the seam, a flipped bit is found. Only when
//! things happen is modelled.

pub mod assembly;
pub mod card;
pub mod cut;
pub mod description;
pub mod frame;
pub mod gate;
pub mod headers;
pub mod host;
pub mod lateness;
pub mod live;
pub mod lockstep;
pub mod message;
pub mod protect;
pub mod real;
pub mod server;
pub mod switch;
pub mod wire;

pub use assembly::{Prepare, System};
pub use card::{Card, CardModel, CardUsage, StageModel};
pub use cut::{CutLink, WaysOut};
pub use description::{Description, DescriptionError};
pub use frame::{Frame, Journey, Leg, Stream};
pub use gate::{Gate, GateError, GateUsage, GateWatch};
pub use headers::Address;
pub use host::{Application, Flow, Host, HostModel, HostUsage, Listening, Opening, Ways};
pub use lateness::Lateness;
pub use live::{Live, LiveEnd, LiveUsage};
pub use lockstep::{GuestUsage, GuestWays, Lockstep, LockstepEnd};
pub use message::{Interrupt, Message};
pub use protect::{Framing, Protection, ProtectionLane, ProtectionUsage, Verdict};
pub use real::{Real, RealUsage};
pub use server::{Server, Service, Usage};
pub use switch::{Switch, SwitchModel, SwitchUsage};
pub use wire::{Departure, Wire, WireFaults, WireModel, WireUsage};

#[cfg(test)]
mod tests;
