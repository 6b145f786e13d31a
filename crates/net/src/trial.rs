//! A trial: a load is offered to a system for some time, and every packet is accounted for.
//!
//! *Offered* packets are those that were due. The port has *refused* some of them; all others were *delivered*, or were *dropped* somewhere. The sum has to be
//! right ([`Account::balance`]), or the trial has no number. Copies, packets out of order, corrupted and foreign ones are counted beside it.
//!
//! A generator that is late says nothing about the system: such a trial is invalid, not lossy. Latency is taken from the intended departure, and what
//! was lost took for ever ([`Latency`]).
//!
//! [`run`] does one trial between two ports. What lies between is a [`SystemUnderTest`]: elsewhere ([`Foreign`]), or a pipeline in this process ([`Hosted`]). [`Trials`] does those that a [search](crate::search) asks for. [`stateful`] has RFC 9693's
//! phases for systems with a table of connections. [`send`] sends one way, for others to count.

mod account;
mod error;
mod latency;
mod numbers;
mod order;
mod pool;
mod receiver;
mod run;
mod send;
mod sender;
pub mod stateful;
mod system;
#[cfg(test)]
mod tests;

pub use account::{Account, Balance, Drops, Imbalance};
pub use error::{TrialError, Validity};
pub use latency::Latency;
pub use order::{FlowOrder, Order};
pub use pool::Pool;
pub use receiver::{Arrival, Receiver};
pub use run::{Between, LEAD_NS, Outcome, Plan, Trials, run};
pub use send::{Sending, Sent, send};
pub use system::{Foreign, Hosted, SystemUnderTest};
