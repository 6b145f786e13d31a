//! Systems of hosts, cards and a network, made of parts on the kernel's virtual time.
//!
//! What a part computes is real: frames have headers and payloads, a digest is computed by an operator behind the seam, a flipped bit is found. Only when
//! things happen is modelled.

pub mod arrivals;
pub mod asking;
pub mod assembly;
pub mod card;
pub mod cut;
pub mod datagrams;
pub mod description;
pub mod frame;
pub mod gate;
pub mod headers;
pub mod host;
pub mod inputs;
pub mod journey;
pub mod lateness;
pub mod ledger;
pub mod live;
pub mod lockstep;
pub mod message;
pub mod part;
pub mod protect;
pub mod real;
mod refusal;
pub mod server;
pub mod setting;
pub mod shipped;
pub mod sources;
pub mod switch;
pub mod times;
pub mod trace;
pub mod watch;
pub mod wire;

pub use arrivals::{Arrivals, Gaps, Rate, Sizes};
pub use asking::{Asking, Pace};
pub use assembly::{Prepare, System, report};
pub use card::{Card, CardModel, CardUsage, Crossing, SharedModel, StageModel};
pub use cut::{CutLink, WaysOut};
pub use datagrams::{Received, ServiceModel, SourceModel};
pub use description::{Description, DescriptionError};
pub use frame::{Frame, Stream};
pub use gate::{Gate, GateError, GateUsage, GateWatch};
pub use headers::Address;
pub use host::{Application, Flow, Host, HostModel, HostUsage, Listening, Opening, Ways};
pub use inputs::Input;
pub use journey::{Hop, Journey, Leg, Place};
pub use lateness::Lateness;
pub use ledger::{Ledger, Reason};
pub use live::{Live, LiveEnd, LiveUsage};
pub use lockstep::{GuestUsage, GuestWays, Lockstep, LockstepEnd};
pub use message::{Interrupt, Message};
pub use part::{Kind, Part};
pub use protect::{Framing, Protection, ProtectionLane, ProtectionUsage, Verdict};
pub use real::{Real, RealUsage};
pub use server::{Server, Service, Usage};
pub use setting::Setting;
pub use shipped::Shipped;
pub use switch::{Switch, SwitchModel, SwitchUsage};
pub use times::Times;
pub use trace::{Trace, Track};
pub use watch::{Account, Watch};
pub use wire::{Departure, Wire, WireFaults, WireModel, WireUsage};

#[cfg(test)]
mod tests;
