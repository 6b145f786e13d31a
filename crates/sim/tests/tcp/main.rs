//! TCP endpoints over a network that loses, delays and repeats segments: whole transfers beside formulas and invariants.

mod delivery;
mod growth;
mod network;
mod throughput;
