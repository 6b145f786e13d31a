//! The router: one ordered index whose keys lie on two sides, the host and the DPU.
//!
//! The keys below a boundary are the host's, those from it on the DPU's. The boundary is one of the router's marks, keys that cut the whole into
//! pieces of about the same size. It stays where the split puts it ([`Router::new`], the paper's way: dpBento, "index offloading"), or a [`Mover`](mover::Mover)
//! moves it piece by piece while requests go on.
//!
//! A thread has a [`Lane`]. It collects requests into bursts, one for each side, carries the host's out itself, and sends the DPU's ahead of time, so
//! that both sides work at once.
//!
//! # Promises
//!
//! * **One key** is a register: a lookup that begins after a write was answered sees that write or a later one, whichever side has the key and however often it moved
//!   meanwhile. This holds across lanes.
//! * **A scan** gives each key of its range at most once, and every key that was there all the while. It reads one state of each side; a scan that goes
//!   over the boundary reads the host's part first.
//! * **Writes** of one burst to one side are one transaction there. Nothing is promised across sides.
//!
//! # How the boundary moves
//!
//! The split is a value that is replaced whole, as in RCU. A lane announces the version by which its oldest request was routed, and `Idle` when it has none.
//! To move a piece:
//!
//! 1. A split is published that calls the piece *moving*. Lanes route reads of it as before, and hold writes of it back.
//! 2. Once no lane announces an older version, no write of the piece is on its way. The piece is copied.
//! 3. A split with the new boundary is published. Lanes route by it, and let the writes go.
//! 4. Once no lane announces an older version, no read is on its way to where the piece was. It is deleted there.
//!
//! # When the DPU's side fails
//!
//! A lane whose connection breaks, or that waits longer than its patience, gives up the DPU's side for all lanes. Without a mirror ([`RouterOptions::mirror`]) requests for its range
//! fail from then on, and the host's range goes on. With a mirror, the host's index has a copy of the DPU's range, and the whole range becomes the host's. A write
//! to a mirrored range is committed at the host before it is sent, and writes of one key have turns, so that both sides see them in one order.

pub mod lane;
pub mod mover;
mod rates;
mod split;
mod turns;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dpb_core::Timer;
use dpb_link::Connect;

pub use self::lane::{Lane, Receive};
pub use self::rates::{Rates, Work};
use self::split::Splits;
use self::turns::Turns;
use super::protocol::{IndexId, RemoteUsage};
use super::remote::{Remote, RemoteError};
use super::{Index, IndexError, Plan};

/// Why a request was not answered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RouterError {
    /// The host's index failed.
    #[error("the host's index: {0}")]
    Host(Arc<IndexError>),
    /// The DPU's side refused the burst.
    #[error("the DPU's index: {0}")]
    Refused(Arc<RemoteError>),
    /// The DPU's side is gone, and the records of its range with it.
    #[error(
        "the DPU's side is gone ({0}), and with it the records of its range; the host's range goes on. Start it again and load, or run with --failover"
    )]
    Lost(Arc<str>),
    /// A value is longer than the router's room for one.
    #[error("a value of {bytes} bytes, where there is room for {room}")]
    Cut {
        /// Bytes of the value.
        bytes: u32,
        /// Bytes of the room.
        room: usize,
    },
}

/// The sides of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// This process.
    Host,
    /// The agent.
    Dpu,
}

/// How a router is made.
#[derive(Clone, Debug)]
pub struct RouterOptions {
    /// How the DPU's side is reached, and the index that is made there; `None` for a router whose keys are all the host's.
    pub dpu: Option<(Connect, Plan)>,
    /// Keys at which the boundary may lie, in order.
    pub marks: Vec<Box<[u8]>>,
    /// The mark at which it lies: the host has the keys below it. The number of marks stands for a boundary behind all keys.
    pub boundary: usize,
    /// Room for a value of a lookup, bytes.
    pub value_room: usize,
    /// Requests of a burst, at most.
    pub burst_requests: usize,
    /// Bursts of a connection that are on their way, at most.
    pub depth: usize,
    /// Connections of a lane to the DPU's side.
    pub connections: usize,
    /// The time that the DPU's side may take for a burst.
    pub patience: Duration,
    /// True if the host's index keeps a copy of the DPU's range, to go on with it when the DPU's side fails.
    pub mirror: bool,
    /// The clock of rates and waits.
    pub clock: Arc<dyn Timer>,
}

/// An index on two sides. See [the module](self) for what it promises.
pub struct Router {
    host: Arc<dyn Index>,
    options: RouterOptions,
    splits: Splits,
    turns: Turns,
    rates: Rates,
    /// Splits that a failure has replaced.
    failures: AtomicU64,
}

impl Router {
    /// A router over `host` and, if there is one, an index that is made at the agent.
    ///
    /// # Errors
    /// [`RemoteError`] of making that index.
    pub fn new(host: Arc<dyn Index>, options: RouterOptions) -> Result<Arc<Self>, RemoteError> {
        let keeper = match &options.dpu {
            Some((connect, plan)) => Some(Remote::make(connect, *plan, options.patience)?),
            None => None,
        };
        let boundary = match keeper {
            Some(_) => options.boundary.min(options.marks.len()),
            None => options.marks.len(),
        };
        Ok(Arc::new(Self {
            host,
            splits: Splits::new(boundary, keeper),
            turns: Turns::new(),
            rates: Rates::default(),
            failures: AtomicU64::new(0),
            options,
        }))
    }

    /// The host's index.
    pub fn host(&self) -> &Arc<dyn Index> {
        &self.host
    }

    /// How it was made.
    pub fn options(&self) -> &RouterOptions {
        &self.options
    }

    /// The mark at which the boundary lies now.
    pub fn boundary(&self) -> usize {
        self.splits.now().boundary
    }

    /// The work that both sides have done so far, over all lanes.
    pub fn work(&self) -> Work {
        self.rates.work()
    }

    /// How often the DPU's side was given up.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// True if the DPU's side was given up and has not come back.
    pub fn dpu_is_lost(&self) -> bool {
        self.splits.now().dpu.is_lost()
    }

    /// The key of a mark; `None` for the one behind all keys.
    fn mark(&self, at: usize) -> Option<&[u8]> {
        self.options.marks.get(at).map(|key| &**key)
    }

    /// Gives the DPU's side of `generation` up, unless somebody has done so before.
    fn give_up(&self, generation: u64, why: &str) {
        let marks = self.options.marks.len();
        if self
            .splits
            .give_up(generation, why, self.options.mirror.then_some(marks))
        {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the DPU's index holds, and what its process has used; `None` without such a side.
    pub fn dpu_usage(&self) -> Option<Result<RemoteUsage, RemoteError>> {
        self.splits.with_keeper(Remote::usage)
    }

    /// A connection to the index of the DPU's side.
    fn connect(&self, id: IndexId) -> Result<Remote, RemoteError> {
        let (connect, _) = self
            .options
            .dpu
            .as_ref()
            .expect("only a side that there is has an index");
        Remote::join(connect, id, self.options.patience)
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("boundary", &self.boundary())
            .field("marks", &self.options.marks.len())
            .finish_non_exhaustive()
    }
}
