//! The scan: which rows qualify, decided on packed data, and only their values unpacked.
//!
//! ```text
//! Query ─filter─▶ conjuncts ─per row group: bind─▶ sets of packed values, code automata, vector compares
//!                                  zone maps      │
//!                 block by block: mask of 1,024 ◀─┘ ─▶ rows.rs: survivors to Arrow │ aggregate.rs: partial aggregates
//! ```
//!
//! The unit is one row group: [`GroupScan`] turns one after another into batches, on the thread of whoever calls it. [`operator`] has
//! that behind dpb's seam: an item names row groups, and its output is a batch or a partial aggregate. [`scan`] and
//! [`Plan::scan_on`] drive the operator on a backend: threads take row groups from a counter, each with a queue of its own. What a thread
//! needs is allocated once; a block allocates nothing. The sink may block: that is the backpressure, and a thread then holds one batch.
//!
//! # Where the time goes
//!
//! Of a hot scan on one core of a Sapphire Rapids guest that others used too (scale factor 1, AVX-512), in nanoseconds a row: a
//! count over one column of 18 bits 0.12; Q6's predicate 0.2; LIKE with two words 5, of which the automaton, the mapping of
//! hits to rows and the search for codes take about a quarter each; all sixteen columns at 1 % 2.2 (1.8 at scale factor
//! 0.02, which is mostly in caches: the rest is waiting for memory), two thirds of it in asking for and reading survivors; at 10 % 6.8, a
//! third of it decoding texts, a quarter unpacking; Q1 4.2, a quarter of it masked sums.
//!
//! What helped, with the ratio seen when it came in: huge pages for chunks (`table::arena`; 1.2 for counts, 1.2 to 1.75 for all
//! columns at 1 %); counting masks with vector instructions instead of the baseline's (up to 1.5 for Q6); fewer rows a
//! batch, 16 K for 64 K, as buffers then come back from the allocator without page faults (1.25 at 10 %); comparing 32 offsets
//! at once to find a hit's row and testing a second word's codes on candidates alone (1.25 for LIKE); unpacking a block
//! whole from 40 survivors on, not 160 (1.2 at 10 %); asking 4 KiB ahead inside the compares (1.15 for a count); not touching
//! the next word of a packed value that does not go on there, and asking for survivors' lines a block before they are read
//! (1.15 each at 1 %); computing where sixteen survivors lie at once and gathering them (1.08 at 1 %); using a
//! batch's buffers again once they are free (1.08 at 1 %); writing columns to where they stay in a message, some hundred rows at a
//! time, instead of building arrays and copying them (1.08 at 1 %, 1.10 at 10 %); beginning vectors of numbers where cache lines begin (1.2 for Q1's
//! aggregate); decoding eight codes at once and picking from unpacked blocks by
//! gathers (1.09 at 10 %, 1.28 for all rows).
//!
//! What was tried and lost: asking for a column's whole next block at once (no gain: the wait moves there); mapping both words'
//! hits to rows; finding an aggregate's group by hashing in every block (5 % of a count).

mod aggregate;
mod automaton;
mod bind;
mod codes;
mod context;
mod dag;
mod driver;
mod error;
mod filter;
mod group;
mod group_scan;
mod interval;
mod intset;
mod kernels;
mod layout;
mod memory;
mod order;
mod output;
mod plan;
mod quota;
mod rows;
mod stats;

pub mod operator;

#[cfg(test)]
mod tests;

pub use driver::{BatchSink, Message, MessageSink, ScanOptions, Slots, scan, scan_on};
pub use error::ScanError;
pub use group_scan::GroupScan;
pub use plan::{Plan, TABLES_BYTES_MAX, output_schema};
pub(crate) use quota::Quota;
pub use stats::{ConjunctStats, ScanStats};
