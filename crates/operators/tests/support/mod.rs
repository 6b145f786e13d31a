//! A kernel of the registry on one batch, each output checked.

use std::fmt::Display;

use dpb_core::cpu_level::Level;
use dpb_core::random::SplitMix64;
use dpb_core::{Batch, BatchOut, JobError, OpSpec, OutputShape, Workload};
use dpb_operators::cpu::Implementation;
use dpb_operators::direct::Direct;
use dpb_operators::registry::{Entry, OPERATORS};

/// The bytes that one test may spend on one spec.
const BYTES_PER_TEST: usize = 1 << 27;
/// The same where `DPB_QEMU` says that instructions are emulated.
const BYTES_PER_TEST_EMULATED: usize = 1 << 24;

/// The operators of the registry. Where a level is hidden, those alone that have a path for some instruction set: it is missing then, or
/// another machine's, and the other operators run as they do without.
pub(crate) fn operators() -> impl Iterator<Item = &'static Entry> {
    let has_path = |entry: &&Entry| entry.paths.iter().any(|path| !path.is_available());
    let is_changed = move |entry: &&'static Entry| !Level::is_masked() || has_path(entry);
    OPERATORS.iter().filter(is_changed)
}

/// The paths of `entry` that compute `spec` and that this CPU has, each with its kernel of `spec`.
pub(crate) fn kernels(entry: &Entry, spec: &OpSpec) -> Vec<(Implementation, Box<dyn Direct>)> {
    let paths = entry.paths_of(spec).filter(|path| path.is_available());
    paths
        .map(|path| (path, entry.direct(spec, path).expect("available")))
        .collect()
}

/// Says which paths this CPU lacks, once a test program: no test of it reaches them.
pub(crate) fn say_what_is_skipped() {
    for path in Implementation::ALL
        .iter()
        .filter(|path| !path.is_available())
    {
        let has = |entry: &&Entry| entry.paths.contains(path);
        let operators: Vec<_> = OPERATORS
            .iter()
            .filter(has)
            .map(|entry| entry.name)
            .collect();
        let (operators, needs) = (operators.join(", "), path.needs());
        println!("skipped: cpu/{path} of {operators}: needs {needs}");
    }
}

/// As many of `cases`, of so many items each, as a test can afford of `workload`, drawn by lot, and at least one; all of them
/// where items cost nothing besides their bytes.
pub(crate) fn affordable<T>(
    workload: &dyn Workload,
    mut cases: Vec<T>,
    items_of: impl Fn(&T) -> usize,
) -> Vec<T> {
    let items: usize = cases.iter().map(&items_of).sum();
    let mut items_left = items_max(workload.cost_bytes());
    if items <= items_left {
        return cases;
    }
    let mut random = SplitMix64::new(items as u64);
    let mut drawn = Vec::new();
    while !cases.is_empty() && (drawn.is_empty() || items_left > 0) {
        let case = cases.swap_remove(random.below(cases.len()));
        items_left = items_left.saturating_sub(items_of(&case));
        drawn.push(case);
    }
    drawn
}

/// The number of items of this cost that one test can afford.
pub(crate) fn items_max(cost_bytes: usize) -> usize {
    let bytes = match std::env::var_os("DPB_QEMU") {
        Some(_) => BYTES_PER_TEST_EMULATED,
        None => BYTES_PER_TEST,
    };
    bytes / cost_bytes.max(1)
}

/// Bytes of a slot for the batch's longest item; a decoder's input says itself.
pub(crate) fn slot_bytes(kernel: &dyn Direct, batch: Batch<'_>, of_input: Option<usize>) -> usize {
    match kernel.shape() {
        OutputShape::Fixed(bytes) => bytes,
        OutputShape::Variable => of_input.unwrap_or_else(|| kernel.dst_len(batch.longest())),
    }
}

/// Runs the batch into `dst`, which is its slots and nothing more, and has `workload` judge each item's output.
///
/// # Panics
/// If one is wrong; `who` says on which path.
pub(crate) fn assert_right(
    workload: &dyn Workload,
    kernel: &mut dyn Direct,
    batch: Batch<'_>,
    dst: &mut [u8],
    who: &dyn Display,
) {
    let shape = kernel.shape();
    let slots = shape.slots(dst.len(), batch.len());
    let slot = dst.len() / batch.len().max(1);
    let mut outcomes: Vec<Result<u32, JobError>> = Vec::with_capacity(batch.len());
    let out = BatchOut::new(&mut *dst, &slots, &mut outcomes).expect("its slots");
    kernel.run(batch, out).expect("runs");
    for i in 0..batch.len() {
        let len = match shape {
            OutputShape::Fixed(bytes) => Ok(bytes),
            OutputShape::Variable => outcomes[i].map(|len| len as usize),
        };
        let output = len.map(|len| &dst[i * slot..][..len]);
        if let Err(wrong) = workload.check(batch.item(i), output, slot) {
            let len = batch.item(i).len();
            panic!(
                "{:?} on {who}: item {i} of {}, {len} bytes: {wrong}",
                workload.spec(),
                batch.len()
            );
        }
    }
}
