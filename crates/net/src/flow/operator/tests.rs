//! Tables that there is no memory for.

use super::*;

#[test]
fn a_table_beyond_the_memory_is_refused_with_the_figures() {
    let table = |addresses, capacity| FlowTable {
        addresses,
        capacity,
        flows: 0,
        seed: 1,
        missing: Missing::Begin,
    };
    // A flow of IPv4 is a line and its free number; ten flows in six of ten places are a sixth of a line.
    let million = table(FlowAddresses::V4, 1_000_000);
    let needed = 1_000_000 * (64 + 4) + 166_667 * 64;
    assert!(million.fits(needed).is_ok());
    let refused = million.fits(needed - 1).expect_err("a byte is missing");
    let said = "a table for 1000000 flows takes 75 MiB in each queue, and 75 MiB of memory";
    assert!(refused.reason.starts_with(said), "{refused}");
    let largest = table(FlowAddresses::V6, 1 << 30);
    assert!(largest.fits(64 << 30).is_err());
    // And as the backend has it.
    let (core, _) = FlowTable::backend(Timeouts::default());
    let is_there = memory_available_bytes() >= Table::<5>::bytes(1 << 30);
    assert_eq!(core.prepare(&largest.into()).is_ok(), is_there);
    // A table that there cannot be after all is no panic.
    let kernel = FlowTableKernel {
        spec: table(FlowAddresses::V4, u32::MAX),
        timeouts: Timeouts::default(),
        ledger: Arc::new(Ledger::new()),
    };
    assert!(matches!(kernel.scratch(), Scratch(Shard::NoMemory)));
}
