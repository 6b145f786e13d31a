//! What the seam costs: CRC-32C over 64-byte items, 256 and 32 a batch, eight jobs deep, called directly and through a queue.
//!
//! The goal is that the queue costs under 5 % of the work for 256 items, and under 15 % for 32. Criterion takes its two figures minutes apart,
//! so the ratio that counts is taken here as well: rounds of both in turn, and the median of the rounds' ratios.

use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use dpb_core::{
    Batch, BatchOut, Buf, Completion, Inline, Items, Job, Kernel, Limits, OpSpec, Operator,
    OutputShape, Queue, View, spec,
};
use dpb_operators::network::crc::Crc32c;

const ITEM_BYTES: u32 = 64;
/// Items of a job.
const BATCHES: [u32; 2] = [256, 32];
const DEPTH: u32 = 8;
/// Bytes of an item's output.
const SUM_BYTES: u32 = 4;
/// The byte that fills outputs before a round that is checked.
const SPOILT: u8 = 0xa5;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    // As criterion does: without `--bench` this is a test, and runs once.
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let (pairs, rounds) = if measuring { (301, 400) } else { (3, 1) };
    for batch in BATCHES {
        let [mut direct, mut again] = [0; 2].map(|_| Direct::new(batch));
        let mut queued = Queued::new(batch);
        let right = direct.outputs();
        assert_eq!(right, queued.outputs(), "the same work");

        let mut group = criterion.benchmark_group(format!("seam/crc32c/64x{batch}/depth8"));
        let bytes = DEPTH * batch * ITEM_BYTES;
        group.throughput(Throughput::Bytes(bytes.into()));
        group.bench_function("direct", |b| b.iter(|| direct.round()));
        group.bench_function("queue", |b| b.iter(|| queued.round()));
        group.finish();
        print!("seam, {batch} items of {ITEM_BYTES} bytes: queue/direct ");
        print_ratio(|| direct.round(), || queued.round(), pairs, rounds);
        print!("seam, {batch} items of {ITEM_BYTES} bytes: direct/direct, which is 1, ");
        print_ratio(|| direct.round(), || again.round(), pairs, rounds);
        let outputs = [direct.outputs(), again.outputs(), queued.outputs()];
        assert!(outputs.iter().all(|output| *output == right), "still");
    }
    criterion.final_summary();
}

/// Times `pairs` pairs of `rounds` rounds each, and prints the time of `other` over that of `base`.
fn print_ratio(mut base: impl FnMut(), mut other: impl FnMut(), pairs: usize, rounds: u32) {
    let jobs = f64::from(rounds * DEPTH);
    let mut samples: Vec<(f64, f64)> = (0..pairs)
        .map(|pair| {
            let time = |round: &mut dyn FnMut()| {
                let start = Instant::now();
                (0..rounds).for_each(|_| round());
                start.elapsed().as_nanos() as f64 / jobs
            };
            // Each goes first in turn, so that neither has the warmer cache.
            if pair % 2 == 0 {
                let first = time(&mut base);
                (first, time(&mut other))
            } else {
                let first = time(&mut other);
                (time(&mut base), first)
            }
        })
        .collect();
    let mut median = |of: fn(&(f64, f64)) -> f64| {
        samples.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&samples[samples.len() / 2])
    };
    println!(
        "{:.4} (median of {pairs} pairs; {:.0} and {:.0} ns a job)",
        median(|s| s.1 / s.0),
        median(|s| s.1),
        median(|s| s.0),
    );
}

/// Eight inputs with different content.
fn sources(batch: u32) -> Vec<View> {
    (0..DEPTH)
        .map(|job| {
            let mut buf = Buf::zeroed((ITEM_BYTES * batch) as usize).expect("memory");
            for (i, byte) in buf.iter_mut().enumerate() {
                *byte = (i as u32 * 31 + i as u32 / 64 + job * 7) as u8;
            }
            buf.freeze()
        })
        .collect()
}

/// The kernel, called as a loop would call it that knows no seam.
struct Direct {
    kernel: Crc32c,
    items: Items,
    /// The places of the sums.
    slots: Items,
    jobs: Vec<(View, Buf)>,
}

impl Direct {
    fn new(batch: u32) -> Self {
        let dst = || Buf::zeroed((SUM_BYTES * batch) as usize).expect("memory");
        Self {
            kernel: Crc32c::best(),
            items: Items::fixed(ITEM_BYTES, batch),
            slots: Items::fixed(SUM_BYTES, batch),
            jobs: (sources(batch).into_iter())
                .map(|src| (src, dst()))
                .collect(),
        }
    }

    fn round(&mut self) {
        for (src, dst) in &mut self.jobs {
            let batch = Batch::new(src, &self.items).expect("items lie inside");
            let mut none = Vec::new();
            let out = BatchOut::new(dst, &self.slots, &mut none).expect("slots lie inside");
            self.kernel.run(batch, out, &mut ()).expect("cannot fail");
            black_box(&dst[..]);
        }
    }

    fn outputs(&mut self) -> Vec<Vec<u8>> {
        // Or what an earlier round left would pass for what this one did not do.
        self.jobs.iter_mut().for_each(|(_, dst)| dst.fill(SPOILT));
        self.round();
        self.jobs.iter().map(|(_, dst)| dst.to_vec()).collect()
    }
}

/// The same jobs through a queue; they come home and go out again.
struct Queued {
    queue: Box<dyn Queue>,
    ready: VecDeque<Job>,
    done: Vec<Completion>,
}

impl Queued {
    fn new(batch: u32) -> Self {
        let depth = NonZeroU32::new(DEPTH).expect("not zero");
        let mut limits = Limits::new(depth);
        limits.input_bytes_max = (ITEM_BYTES * batch) as usize;
        limits.synchronous = true;
        let operator = Inline::new(Crc32c::best(), OpSpec::from(spec::Crc32c), limits);
        let job = |(tag, src)| {
            let dst = Buf::zeroed((SUM_BYTES * batch) as usize).expect("memory");
            let items = Items::fixed(ITEM_BYTES, batch);
            let shape = OutputShape::Fixed(SUM_BYTES as usize);
            Job::new(tag as u64, src, items, dst, shape)
        };
        Self {
            queue: Arc::new(operator).open(depth).expect("opens"),
            ready: sources(batch).into_iter().enumerate().map(job).collect(),
            done: Vec::with_capacity(DEPTH as usize),
        }
    }

    fn round(&mut self) {
        self.queue.submit(&mut self.ready);
        self.queue.poll(&mut self.done);
        for completion in self.done.drain(..) {
            completion.result.expect("cannot fail");
            black_box(&completion.job.dst[0][..]);
            self.ready.push_back(completion.job);
        }
    }

    fn outputs(&mut self) -> Vec<Vec<u8>> {
        self.ready
            .iter_mut()
            .for_each(|job| job.dst[0].fill(SPOILT));
        self.round();
        self.ready.iter().map(|job| job.dst[0].to_vec()).collect()
    }
}
