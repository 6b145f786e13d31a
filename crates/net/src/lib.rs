//! Packets, flows and traffic, and the programs that a DPU runs on them from end to end.
//!
//! [`search`] finds the highest rate that a system forwards with little loss. [`flow`] is a table of flows. The rest is not here yet; this page says
//! what will be:
//!
//! * **packets**: headers over borrowed bytes. `Packet<&[u8]>` checks lengths once and then reads fields in place; a `Repr`
//!   is what was parsed, or is to be written. Parsing refuses, it does not panic.
//! * **traffic**: packets of given sizes, flows and mixes, from a seed; captures played back; open loop, so that latency is taken
//!   against the time at which a packet was due and not against the time at which the sender got round to it.
//! * **programs**: receive, parse, look up, rewrite, encrypt, send: the chains that people move to a DPU, each stage measured
//!   alone and in its place.
//! * **headroom**: how much of a core is left for others at a given packet rate.
//!
//! The seam: a burst of packets is one [`Job`](dpb_core::Job), its packets the buffers of
//! [`Buffers::Many`](dpb_core::Buffers::Many), of which each stage reads its own part. Programs take `Arc<dyn Operator>` for each stage, so that a stage runs on a core, on an
//! engine or on a model without the program knowing, and need no SDK.

pub mod flow;
pub mod headroom;
pub mod search;
