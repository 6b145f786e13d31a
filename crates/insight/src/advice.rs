//! Advice: what to move to a device, from which size on, and what it brings; with the measurements that would prove it wrong.
//!
//! "Two bounds and a replay". From records of two sides a cost of service and of host time is fitted for each ([`predictor`], [`service`]); a
//! closed loop is as fast as its tightest bound; tails come from the recorded times themselves, replayed through lanes on virtual time
//! ([`replay`]), never from a formula. Every prediction has an interval that left-out points give it ([`interval`]), which widens where the model is wrong.
//! A decision is spoken only where its interval is clear of 1 ([`decision`]). METHODOLOGY has the equations and their sources.

pub mod advisor;
pub mod application;
pub mod curve;
pub mod decision;
pub mod interval;
pub mod knob;
pub mod least_squares;
pub mod load;
pub mod predictor;
pub mod price;
pub mod pushdown;
pub mod replay;
pub mod score;
pub mod service;
pub mod side;

pub use advisor::{Advice, Advisor, AtSize, Check, Goal, Metric, Question};
pub use application::{Design, Profile};
pub use decision::{Decision, Threshold, Verdict};
pub use interval::Estimate;
pub use load::{Load, Point};
pub use price::Prices;
pub use score::{Decided, Held, Score};
pub use side::{Refusal, Side};
