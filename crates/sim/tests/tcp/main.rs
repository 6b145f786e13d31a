//! TCP endpoints over a network that loses, delays and repeats segments: whole transfers beside formulas and invariants.

mod delivery;
mod growth;
mod hosts;
mod network;
mod throughput;

use dpb_core::conformance::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
