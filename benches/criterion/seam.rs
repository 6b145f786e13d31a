//! What the seam costs: CRC-32C over 64-byte items, 256 a batch, eight jobs deep, called directly and through a queue.
//!
//! The goal is that the queue costs under 5 % of the work. Criterion's two figures are taken minutes apart, so the ratio
//! that counts is taken here as well: rounds of both in turn, and the median of the rounds' ratios.

use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use dpb_core::{
    Batch, BatchOut, Buf, Completion, Inline, Items, Job, Kernel, Limits, OpSpec, Operator,
    OutputShape, Queue, View,
};
use dpb_operators::network::crc::Crc32c;

const ITEM_BYTES: u32 = 64;
const BATCH: u32 = 256;
const DEPTH: u32 = 8;
/// Bytes of one job's input, and of its output.
const SRC_BYTES: usize = (ITEM_BYTES * BATCH) as usize;
const DST_BYTES: usize = 4 * BATCH as usize;

static ITEMS: Items = Items::fixed(ITEM_BYTES, BATCH);
/// Where the sums go.
static SLOTS: Items = Items::fixed(4, BATCH);

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let mut direct = Direct::new();
    let mut queued = Queued::new();
    assert_eq!(direct.outputs(), queued.outputs(), "the same work");

    let mut group = criterion.benchmark_group("seam/crc32c/64x256/depth8");
    group.throughput(Throughput::Bytes(u64::from(DEPTH) * SRC_BYTES as u64));
    group.bench_function("direct", |b| b.iter(|| direct.round()));
    group.bench_function("queue", |b| b.iter(|| queued.round()));
    group.finish();
    criterion.final_summary();

    // As criterion does: without `--bench` this is a test, and runs once.
    let measuring = std::env::args().any(|arg| arg == "--bench");
    let (pairs, rounds) = if measuring { (301, 400) } else { (3, 1) };
    print_ratio(&mut direct, &mut queued, pairs, rounds);
}

/// Times `pairs` pairs of `rounds` rounds each.
fn print_ratio(direct: &mut Direct, queued: &mut Queued, pairs: usize, rounds: u32) {
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
                let first = time(&mut || direct.round());
                (first, time(&mut || queued.round()))
            } else {
                let first = time(&mut || queued.round());
                (time(&mut || direct.round()), first)
            }
        })
        .collect();
    let mut median = |of: fn(&(f64, f64)) -> f64| {
        samples.sort_by(|a, b| of(a).total_cmp(&of(b)));
        of(&samples[samples.len() / 2])
    };
    println!(
        "seam: direct {:.0} ns a job, queue {:.0} ns; queue/direct {:.4} (median of {pairs} pairs)",
        median(|s| s.0),
        median(|s| s.1),
        median(|s| s.1 / s.0),
    );
}

/// Eight inputs with different content.
fn sources() -> Vec<View> {
    (0..DEPTH)
        .map(|job| {
            let mut buf = Buf::zeroed(SRC_BYTES).expect("memory");
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
    jobs: Vec<(View, Buf)>,
}

impl Direct {
    fn new() -> Self {
        let dst = || Buf::zeroed(DST_BYTES).expect("memory");
        Self {
            kernel: Crc32c::best(),
            jobs: sources().into_iter().map(|src| (src, dst())).collect(),
        }
    }

    fn round(&mut self) {
        for (src, dst) in &mut self.jobs {
            let batch = Batch::new(src, &ITEMS).expect("items lie inside");
            let mut none = Vec::new();
            let out = BatchOut::new(dst, &SLOTS, &mut none).expect("slots lie inside");
            self.kernel.run(batch, out, &mut ()).expect("cannot fail");
            black_box(&dst[..]);
        }
    }

    fn outputs(&mut self) -> Vec<Vec<u8>> {
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
    fn new() -> Self {
        let depth = NonZeroU32::new(DEPTH).expect("not zero");
        let mut limits = Limits::new(depth);
        limits.input_bytes_max = SRC_BYTES;
        limits.synchronous = true;
        let operator = Inline::new(Crc32c::best(), OpSpec::Crc32c, limits);
        let job = |(tag, src)| {
            let dst = Buf::zeroed(DST_BYTES).expect("memory");
            Job::new(tag as u64, src, ITEMS.clone(), dst, OutputShape::Fixed(4))
        };
        Self {
            queue: Arc::new(operator).open(depth).expect("opens"),
            ready: sources().into_iter().enumerate().map(job).collect(),
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
        self.round();
        self.ready.iter().map(|job| job.dst[0].to_vec()).collect()
    }
}
