//! A table of flows behind a pipeline's stage: each packet finds its flow or begins one, is counted there, and goes on.
//!
//! The first end-to-end program of DPUBench (Wang et al., section 5.2). Its table is in software or in hardware:
//!
//! | | |
//! |---|---|
//! | [`FlowTable`] | software: the two [`Table`](crate::flow::Table)s of a shard, one for each version of IP; a burst is read and looked up in one pass |
//! | [`Card`] | the same work on a [model of a table in hardware](crate::flow::hardware), as a system under test in virtual time |
//!
//! A flow is told by its five-tuple and has both directions. DPUBench takes the addresses of Ethernet and IP and the destination's port instead, which tells fewer
//! flows apart and takes the directions of a flow for two.
//!
//! A packet for which the table has no room goes on like others, and is counted: [`Totals::full`].
//!
//! ```
//! use std::sync::Arc;
//! use dpb_core::VirtualClock;
//! use dpb_net::pipeline::Line;
//! use dpb_net::programs::flow_table::{FlowTable, Settings};
//!
//! let table = FlowTable::new(&Settings::default(), Arc::new(VirtualClock::new(false)))?;
//! let counts = table.counts();
//! // What comes by one of two ports leaves by the other.
//! let line = Line::new("flow-table", vec![Box::new(table.forwarding(vec![1, 0]))], 8);
//! // What other threads may read while the line works.
//! assert_eq!(counts.read().packets, 0);
//! # drop(line);
//! # Ok::<(), dpb_net::flow::TableError>(())
//! ```

mod card;
mod counts;
mod stage;

pub use card::Card;
pub use counts::{Counts, Miscount, Totals};
pub use stage::{FlowTable, Settings};
