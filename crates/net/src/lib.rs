//! Packets, flows and traffic, and the programs that a DPU runs on them from end to end.
//!
//! [`search`] finds the highest rate that a system forwards with little loss. [`flow`] is a table of flows. [`port`] has the ports by which packets come and go. The rest is not here yet; this page says
//! [`search`] finds the highest rate that a system forwards with little loss. [`flow`] is a table of flows. [`recognition`] says what application
//! a flow is of. The rest is not here yet; this page says
//! [`search`] finds the highest rate that a system forwards with little loss. [`flow`] is a table of flows. [`traffic`] makes packets of given sizes,
//! flows and mixes from a seed, and plays captures back; a [`trial`] offers them to a system when they are due, and accounts for each. The rest is not here yet; this page says
//! [`search`] finds the highest rate that a system forwards with little loss. [`flow`] is a table of flows. [`pipeline`] sends
//! bursts of packets through stages, on one core or on several; [`programs`] are such stages; [`wire`] is a model of a wire between two ports. The rest is not here yet; this page says
//! what will be:
//! [`search`] finds the highest rate that a system forwards with little loss. [`flow`] is a table of flows. [`packet`] reads frames, one by one or
//! by the burst, rewrites them where they lie, and writes them. The rest is not here yet; this page says what will be:
//!
//! * **traffic**: packets of given sizes, flows and mixes, from a seed; captures played back; open loop, so that latency is taken
//!   against the time at which a packet was due and not against the time at which the sender got round to it.
//! * **packets**: headers over borrowed bytes. `Packet<&[u8]>` checks lengths once and then reads fields in place; a `Repr`
//!   is what was parsed, or is to be written. Parsing refuses, it does not panic.
//! * **programs**: receive, parse, look up, rewrite, encrypt, send: the chains that people move to a DPU, each stage measured
//!   alone and in its place.
//! * **headroom**: how much of a core is left for others at a given packet rate.
//!
//! The seam: a burst of packets is one [`Job`](dpb_core::Job), its packets the buffers of
//! [`Buffers::Many`](dpb_core::Buffers::Many), of which each stage reads its own part. Programs take `Arc<dyn Operator>` for each stage, so that a stage runs on a core, on an
//! engine or on a model without the program knowing, and need no SDK.

pub mod flow;
pub mod port;
pub mod packet;
pub mod recognition;
pub mod headroom;
pub mod search;
pub mod traffic;
pub mod trial;
pub mod pipeline;
pub mod programs;
pub mod search;
pub mod wire;
