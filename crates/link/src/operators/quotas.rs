//! The most that an agent gives to its clients.

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

/// The most that an agent gives to its clients. What goes beyond is refused with the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Jobs that one queue may have in flight.
    pub depth_max: u32,
    /// Bytes of the items of one job.
    pub input_bytes_max: usize,
    /// Bytes of the slots of one job.
    pub output_bytes_max: usize,
    /// Items of one job.
    pub items_max: usize,
    /// Bytes of a spec: the keys and tables of an operator. Also bytes of the changes to an operator's table that are noted and not committed;
    /// those that a later one replaces count until the commit, and a change beyond them is refused with [`ChangeError::Full`](dpb_core::ChangeError::Full).
    pub spec_bytes_max: usize,
    /// What one client may have at once. A client is the address that connections come from, so all programs of a machine are one.
    pub a_client: Share,
    /// What all clients together may have at once.
    pub all_clients: Share,
}

/// What clients may have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Operators that are prepared.
    pub operators: usize,
    /// Queues that are open. Each may take [`Quotas::queue_bytes`], and its rings.
    pub queues: usize,
    /// Backends that are open, each name counted once. A backend is closed once no client has it any more.
    pub backends: usize,
    /// Worker threads of these backends, `pool/N` counted as N. Clients that have the same pool share its threads; they count once among
    /// those of all clients.
    pub threads: usize,
}

impl Share {
    /// The most that one client has unless told otherwise, on a machine of `cpus` CPUs: pools of 1, 2, 4 threads and further powers
    /// of two up to the number of CPUs fit in at once.
    pub fn a_client(cpus: usize) -> Self {
        Self {
            operators: 48,
            queues: 24,
            backends: 24,
            threads: cpus.saturating_mul(2),
        }
    }

    /// The most that all clients have unless told otherwise, on a machine of `cpus` CPUs: a client that has all of its own leaves some for
    /// others.
    pub fn all_clients(cpus: usize) -> Self {
        Self {
            operators: 64,
            queues: 32,
            backends: 32,
            threads: cpus.saturating_mul(8),
        }
    }
}

/// All queues together then take 3.2 GiB at most, if each is full of the largest jobs, and 256 MiB of registered memory for their rings.
impl Default for Quotas {
    fn default() -> Self {
        let cpus = available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            depth_max: 256,
            input_bytes_max: 8 << 20,
            output_bytes_max: 16 << 20,
            items_max: 1 << 14,
            spec_bytes_max: 64 << 20,
            a_client: Share::a_client(cpus),
            all_clients: Share::all_clients(cpus),
        }
    }
}

/// Bytes that an item is counted as, besides its own: its places in the lists of items, slots and outcomes.
pub(super) const ITEM_BYTES: usize = 64;

impl Quotas {
    /// Bytes that the jobs of one queue may take in flight, each counted as its items, its slots and its lists: the largest job and as much again.
    pub fn window_bytes(&self) -> usize {
        let largest = cost(self.input_bytes_max, self.output_bytes_max, self.items_max);
        largest.saturating_mul(2)
    }

    /// Memory that the jobs of one queue may take: twice the bytes in flight, because buffers come in powers of two. A queue with a transport
    /// beside its connection takes its rings too, which are registered memory: twice
    /// [`TRANSPORT_BYTES_MAX`](crate::bulk::TRANSPORT_BYTES_MAX) at most, 8 MiB.
    pub fn queue_bytes(&self) -> usize {
        self.window_bytes().saturating_mul(2)
    }
}

/// Bytes that a job counts as.
pub(super) fn cost(input_bytes: usize, slot_bytes: usize, items: usize) -> usize {
    let lists = items.saturating_mul(ITEM_BYTES);
    input_bytes.saturating_add(slot_bytes).saturating_add(lists)
}
