//! Packets in bursts through stages, on one core or on several.
//!
//! ```text
//! Shard:  ports ─▶ burst ─▶ stage ─▶ stage ─▶ … ─▶ ports        one core, run to completion
//!                             │
//!                             └─ Remote ─ ring ─▶ Station: stage    another core, where an engine has fewer queues than cores
//!
//! Dispatcher: ports ─▶ RSS ─ ring ─▶ Station: Line, one a core      where the ports have one queue
//! ```
//!
//! * A [`Burst`] is up to so many packets, each a [`Buf`](dpb_core::Buf) that holds an Ethernet frame, and a [`Mark`] for each.
//! * A [`Stage`] takes bursts and gives them back, as a [`Queue`](dpb_core::Queue) does jobs. [`OffloadStage`] has an operator behind it, on any
//!   backend; [`each`] and [`Whole`] are plain code.
//! * A [`Line`] is stages one behind another, and a stage itself. It numbers bursts, brings them back into order in front of each stage that
//!   wants order and at its end, counts, and takes out packets that a stage refused.
//! * A [`Shard`] is ports and a line: one loop polls all of its stages, so that engines which work by themselves overlap.
//! * [`Workers`] runs shards, stations and dispatchers, each on a thread that is pinned to its core.
//!
//! ```
//! use std::sync::Arc;
//!
//! use dpb_core::{Buf, VirtualClock};
//! use dpb_core::PacketPort;
//! use dpb_net::pipeline::{Line, Packet, Reason, Shard, WhenFull, Work, each};
//! use dpb_net::wire::{Plan, Wire};
//!
//! // Two wires: the test holds the near ends, the shard the far ones.
//! let clock = Arc::new(VirtualClock::new(false));
//! let (_, [mut left, port_0]) = Wire::new(clock.clone(), [Plan::default(), Plan::default()]);
//! let (_, [port_1, mut right]) = Wire::new(clock, [Plan::default(), Plan::default()]);
//!
//! let sieve = each("sieve", |mut packet: Packet<'_>| match packet.frame[0] {
//!     0 => packet.drop_for(Reason("starts with zero")),
//!     _ => packet.mark.egress = 1 - packet.mark.ingress,
//! });
//! let line = Line::new("line", vec![Box::new(sieve)], 8);
//! let mut shard = Shard::new("shard", vec![Box::new(port_0), Box::new(port_1)], line, 32, WhenFull::Hold);
//!
//! let frames = [0, 1, 2].map(|byte| {
//!     let mut frame = Buf::zeroed(60).expect("memory");
//!     frame.fill(byte);
//!     frame
//! });
//! left.send(&mut frames.into())?;
//! shard.turn()?;
//! let mut came = Vec::new();
//! right.receive(&mut came, 32)?;
//! assert_eq!(came.len(), 2);
//! let account = shard.account();
//! account.check()?;
//! assert_eq!(account.dropped().of(Reason("starts with zero")).packets, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Order.** A flow's packets come to one shard by their hash ([`Sharding`]). A shard's bursts leave in the order in which they came, whatever the order
//! in which its engines finish. So packets of a flow are never reordered.
//!
//! **Conservation.** Packets that were received are sent, dropped for a [`Reason`], or in flight: [`Account::check`].
//!
//! **Bounds.** A line holds as many bursts as its depth says, a ring as many as its own. Nothing else is queued, and nothing is allocated for a
//! burst once the first ones have gone through. Where the way on is full, a loop stops receiving, or drops and counts: [`WhenFull`].

mod account;
mod burst;
mod dispatcher;
mod egress;
mod line;
mod offload;
mod order;
pub mod pool;
mod remote;
pub mod rss;
mod shard;
mod slots;
mod stage;
mod sync;
mod workers;

pub use account::{Account, Counters, Drops, Imbalance, StageReport, Tally};
pub use burst::{Burst, Mark, Packet, Reason};
pub use dispatcher::Dispatcher;
pub use egress::WhenFull;
pub use line::Line;
pub use offload::{Choice, OffloadStage, Offloading, Output, Part};
pub use pool::Pool;
pub use remote::{Remote, Ring, Station, ring};
pub use rss::{Distributor, Sharding};
pub use shard::Shard;
pub use stage::{Stage, Whole, each};
pub use workers::{Idle, Live, Make, Settings, Work, Workers, WorkersError};
