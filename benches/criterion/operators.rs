//! The CPU kernels against the implementations that an expert would use instead: same data, same run, one core.
//!
//! Every operator of the registry, with each of its parameters at the ends of its range, on every path that this CPU has,
//! beside the peers that the registry names, those written in Rust. Sizes: 64 bytes in batches of 256, 1500 bytes in batches
//! of 64, one item of 64 KiB; of what is costly at any length, a signature for one, a single item each time. Each
//! contender's output is judged by the workload before it is timed, and again after. A peer
//! has no batch call, so it is called once per item.
//!
//! `cargo bench -p dpb-benches --bench operators -- crc32c` runs one operator.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use dpb_core::{Batch, BatchOut, Buf, Input, Items, JobError, OpSpec, OutputShape, Workload};
use dpb_operators::cpu::Implementation;
use dpb_operators::direct::Direct;
use dpb_operators::registry::{Case, Entry, OPERATORS};
use dpb_peers::{native, rust_peers};

const SEED: u64 = 1;

/// Bytes per item, items per batch.
const SHAPES: [(usize, usize); 3] = [(64, 256), (1500, 64), (65_536, 1)];

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(30)
        .configure_from_args();
    for entry in OPERATORS {
        for case in entry.cases() {
            for (item_bytes, count) in SHAPES {
                // Costly items come in as many as cost as much.
                let count = (item_bytes * count / (item_bytes + case.spec.cost_bytes())).max(1);
                contest(&mut criterion, entry, &case, item_bytes, count);
            }
        }
    }
    criterion.final_summary();
}

/// All contenders on one shape of input.
fn contest(
    criterion: &mut Criterion,
    entry: &'static Entry,
    case: &Case,
    item_bytes: usize,
    count: usize,
) {
    let spec = &case.spec;
    let workload = entry.workload(case).expect("its own spec");
    let input = match Input::of(&*workload, SEED, item_bytes, count) {
        Ok(input) => input,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let portable = entry
        .direct(spec, Implementation::Portable)
        .expect("any CPU");
    // Room for what any contender writes, if it keeps to the portable path's bound.
    let slot = match portable.shape() {
        OutputShape::Fixed(bytes) => bytes,
        OutputShape::Variable => input.slot_bytes.unwrap_or_else(|| {
            let batch = input.batch().expect("items lie inside");
            portable.dst_len(batch.longest())
        }),
    };
    let mut src = Buf::zeroed(input.bytes.len()).expect("memory");
    src.copy_from_slice(&input.bytes);
    let mut group = criterion.benchmark_group(format!("{}/{count}x{item_bytes}", name(spec)));
    group.throughput(Throughput::Bytes((item_bytes * count) as u64));
    let mut contest = Contest {
        group,
        workload,
        items: input.items,
        src,
        slot,
    };
    let paths = entry.paths_of(spec);
    for path in paths.filter(|path| path.is_available()) {
        match entry.direct(spec, path) {
            Ok(kernel) => contest.enter(&format!("cpu/{path}"), kernel),
            // A library may refuse a rule, for one.
            Err(why) => println!("skipped: cpu/{path}: {why}"),
        }
    }
    let is_a_path = |name: &str| entry.paths.iter().any(|path| path.name() == name);
    // Those written in C are `cargo xtask bench --peers`'s.
    for name in entry
        .peers
        .iter()
        .filter(|name| native::library(name).is_none() && !is_a_path(name))
    {
        let peer = rust_peers::find(name, spec)
            .unwrap_or_else(|| panic!("{name}, a peer of {spec}, has no call"));
        contest.enter(name, peer);
    }
}

/// `deflate,level=6,format=raw`.
fn name(spec: &OpSpec) -> String {
    let parameters = spec.parameters().into_iter();
    let parameters = parameters.map(|(name, value)| format!(",{name}={value}"));
    std::iter::once(spec.name().to_owned())
        .chain(parameters)
        .collect()
}

/// One operator on one shape of input; contenders enter one by one.
struct Contest<'a> {
    group: BenchmarkGroup<'a, WallTime>,
    workload: Box<dyn Workload>,
    items: Items,
    /// The items' bytes in such memory as backends give, aligned.
    src: Buf,
    slot: usize,
}

impl Contest<'_> {
    /// Checks, times and checks again.
    fn enter(&mut self, name: &str, mut kernel: Box<dyn Direct>) {
        let batch = Batch::new(&self.src, &self.items).expect("items lie inside");
        let (shape, slot) = (kernel.shape(), self.slot);
        let mut dst = Buf::zeroed(slot * batch.len()).expect("memory");
        let slots = Items::fixed(slot as u32, batch.len() as u32);
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut run = |dst: &mut [u8], outcomes: &mut Vec<Result<u32, JobError>>| {
            outcomes.clear();
            let out = BatchOut::new(dst, &slots, outcomes).expect("slots lie inside");
            kernel.run(batch, out).expect("runs");
        };
        let check = |dst: &[u8], outcomes: &[Result<u32, JobError>]| {
            for i in 0..batch.len() {
                let len = match shape {
                    OutputShape::Fixed(bytes) => bytes,
                    OutputShape::Variable => outcomes[i].expect("not refused") as usize,
                };
                let output = &dst[i * slot..][..len];
                self.workload
                    .check(batch.item(i), Ok(output), slot)
                    .unwrap_or_else(|wrong| panic!("{name}, item {i}: {wrong}"));
            }
        };
        run(&mut dst, &mut outcomes);
        check(&dst, &outcomes);
        self.group.bench_function(name, |bencher| {
            bencher.iter(|| {
                run(&mut dst, &mut outcomes);
                black_box(&mut dst);
            });
        });
        check(&dst, &outcomes);
    }
}
