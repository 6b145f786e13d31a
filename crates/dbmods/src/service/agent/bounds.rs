//! How much memory an agent takes, and for what.

use dpb_link::agent::{CONNECTION_BYTES, CONNECTIONS_MAX, KNOCKING_BYTES, KNOCKING_MAX};
use dpb_link::budget::{Budget, Reserved};
use dpb_link::bulk::TRANSPORT_BYTES_MAX;
use dpb_link::{LinkError, Refusal};

use super::refusals::refuse;

/// Memory beside the cache, at most.
pub const OVERHEAD_BYTES_MAX: u64 = 272 << 20;
/// Most memory of all running scans together, in batches.
pub const SCANS_BYTES_MAX: u64 = 160 << 20;
/// Most memory of ended scans that is kept for later ones, of what none has reserved.
pub const SLOTS_BYTES_MAX: usize = 16 << 20;
/// Most memory of one running scan, in batches.
pub const SCAN_BYTES_MAX: u64 = 32 << 20;
/// Least memory of one running scan.
pub const SCAN_BYTES_MIN: u64 = 1 << 20;
/// What all requests, and their plans without tables, may hold: one of the longest while it is received, and many that run.
pub const PLANS_BYTES_MAX: u64 = 14 << 20;
/// Most memory of the tables of all plans.
pub const TABLES_BYTES_MAX: u64 = 6 << 20;
/// What a byte of a request may become, decoded and as a plan without tables: a term of two bytes takes up to 128 in a list
/// that grows by doubling, and a quarter of it in the plan.
pub(super) const REQUEST_GROWTH: u64 = 160;
/// What a byte of a request takes once its terms are counted: its text, and that of its plan.
pub(super) const TEXT_GROWTH: u64 = 4;
/// Bytes of each term beside that.
pub(super) const TERM_BYTES: u64 = 384;
/// Batches that wait to be sent on one connection, at most.
pub const QUEUE_BATCHES: usize = 4;
/// Memory that DuckDB may always have for its buffers, however small our own cache.
pub const DUCKDB_BYTES_MIN: u64 = 256 << 20;
/// Connections whose results go past TCP, at most; others stay on TCP.
pub const TRANSPORTS_MAX: usize = 8;

// The rest is for the program itself, and for what one plan takes while it is made.
const _: () = assert!(
    SCANS_BYTES_MAX
        + PLANS_BYTES_MAX
        + TABLES_BYTES_MAX
        + (TRANSPORT_BYTES_MAX * TRANSPORTS_MAX) as u64
        + CONNECTION_BYTES * CONNECTIONS_MAX as u64
        + KNOCKING_BYTES * KNOCKING_MAX as u64
        + (22 << 20)
        <= OVERHEAD_BYTES_MAX
);

/// Takes what a scan wants, or what one may have of what is left, once that is something and at least `least`. While it
/// waits it asks `gone` whether its client has left.
pub(super) fn reserve_memory<'a>(
    budget: &'a Budget,
    least: u64,
    wanted: u64,
    gone: &dyn Fn() -> bool,
) -> Result<Reserved<'a>, LinkError> {
    if least > SCAN_BYTES_MAX {
        let text = format!(
            "the scan would take {least} bytes of memory; the agent gives one {SCAN_BYTES_MAX} at most"
        );
        return Err(refuse(Refusal::Usage, text));
    }
    let least = wanted.min(SCAN_BYTES_MIN).max(least);
    budget.reserve(least, gone, |left| {
        wanted.min((left / 4).clamp(least, SCAN_BYTES_MAX))
    })
}
