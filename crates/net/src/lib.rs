//! Packets, flows and traffic, and the programs that a DPU runs on them from end to end.
//!
//! | | |
//! |---|---|
//! | [`packet`] | frames from Ethernet to transport: read one by one or by the burst, rewritten in place, written |
//! | [`port`] | memory, capture files, raw sockets, AF_XDP and TAP, behind the trait [`PacketPort`](dpb_core::PacketPort), as DPDK's ports are too |
//! | [`flow`] | the table of a shard's flows; NAT44; the table as an operator, and as a model of one in hardware |
//! | [`recognition`] | the application that a flow is of, by what it says |
//! | [`pipeline`] | stages over bursts of packets, on one core or several; a stage may be an operator on any backend |
//! | [`programs`] | forwarding, NAT44, ESP and a firewall, as such stages |
//! | [`traffic`] | packets from a seed: sizes, flows, applications; captures played back; the schedule of an open loop |
//! | [`trial`] | traffic offered to a system when it is due, and an account of every packet |
//! | [`wire`] | a model of a wire between two ports: loss, order, doubles, damage, delay, as planted |
//! | [`search`] | MLRsearch (RFC 9971): the highest rate that a system forwards with little loss |
//! | [`headroom`] | the work that a system's cores can do besides, at a packet rate |
//!
//! Programs take `Arc<dyn Operator>` for what an engine could do, so a stage runs on a core, on an engine or on a model without the program
//! knowing, and needs no SDK.

pub mod flow;
pub mod headroom;
pub mod packet;
pub mod pipeline;
pub mod port;
pub mod programs;
pub mod recognition;
pub mod search;
pub mod traffic;
pub mod trial;
pub mod wire;
