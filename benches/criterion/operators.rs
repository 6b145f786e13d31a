//! The CPU kernels against the implementations that an expert would use instead: same data, same run, one core.
//!
//! Sizes: 64 bytes in batches of 256, 1500 bytes in batches of 64, one item of 64 KiB. Each contender's output is
//! compared with the portable path's before it is timed, and again after. A peer has no batch call, so it is called
//! once per item.
//!
//! `cargo bench -p dpb-benches --bench operators -- crc32c` runs one operator.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use dpb_core::{Batch, BatchOut, Buf, JobError, Kernel, OpSpec, OutputShape};
use dpb_operators::cpu::Path;
use dpb_operators::input::Input;
use dpb_operators::network::crc32c::Crc32c;
use dpb_operators::registry::{self, Entry};
use dpb_operators::security::sha256::Sha256;
use dpb_operators::storage::deflate::{Deflate, Inflate, compressed_bytes_max};

/// zlib's way of asking for a stream without its header.
const RAW_WINDOW_BITS: i32 = -15;

/// Bytes per item, items per batch.
const SHAPES: [(usize, usize); 3] = [(64, 256), (1500, 64), (65_536, 1)];

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(30)
        .configure_from_args();
    for (item_bytes, count) in SHAPES {
        crc32c(&mut criterion, item_bytes, count);
        sha256(&mut criterion, item_bytes, count);
    }
    for (item_bytes, count) in [(1500, 64), (65_536, 1)] {
        deflate(&mut criterion, item_bytes, count);
        inflate(&mut criterion, item_bytes, count);
    }
    criterion.final_summary();
}

fn crc32c(criterion: &mut Criterion, item_bytes: usize, count: usize) {
    let mut contest = Contest::new(criterion, OpSpec::Crc32c, item_bytes, count);
    for path in available(Crc32c::PATHS) {
        contest.enter(
            &format!("cpu/{path}"),
            &Crc32c::new(path).expect("available"),
        );
    }
    let crc_fast = ItemByItem(OutputShape::Fixed(4), |item: &[u8], slot: &mut [u8]| {
        slot.copy_from_slice(&crc_fast::crc32_iscsi(item).to_le_bytes());
        4
    });
    contest.enter("crc-fast", &crc_fast);
    let crc32c = ItemByItem(OutputShape::Fixed(4), |item: &[u8], slot: &mut [u8]| {
        slot.copy_from_slice(&crc32c::crc32c(item).to_le_bytes());
        4
    });
    contest.enter("crc32c", &crc32c);
}

fn sha256(criterion: &mut Criterion, item_bytes: usize, count: usize) {
    use sha2::Digest;
    let mut contest = Contest::new(criterion, OpSpec::Sha256, item_bytes, count);
    for path in available(Sha256::PATHS) {
        contest.enter(
            &format!("cpu/{path}"),
            &Sha256::new(path).expect("available"),
        );
    }
    let sha2 = ItemByItem(OutputShape::Fixed(32), |item: &[u8], slot: &mut [u8]| {
        slot.copy_from_slice(&sha2::Sha256::digest(item));
        32
    });
    contest.enter("sha2", &sha2);
}

fn deflate(criterion: &mut Criterion, item_bytes: usize, count: usize) {
    let entry = registry::find("deflate").expect("registered");
    for level in [1, 6] {
        let spec = entry.spec(&format!("level={level}")).expect("in range");
        let mut contest = Contest::new(criterion, spec.clone(), item_bytes, count);
        let OpSpec::Deflate { level, format } = spec else {
            unreachable!("the entry is deflate's")
        };
        for path in available(entry.paths) {
            contest.enter(
                &format!("cpu/{path}"),
                &Deflate::new(path, level, format).expect("available"),
            );
        }
        let zlib_rs = ItemByItem(
            OutputShape::Variable,
            move |item: &[u8], slot: &mut [u8]| {
                let mut config = zlib_rs::DeflateConfig::new(i32::from(level));
                config.window_bits = RAW_WINDOW_BITS;
                zlib_rs::compress_slice(slot, item, config).0.len()
            },
        );
        contest.enter("zlib-rs", &zlib_rs);
    }
}

fn inflate(criterion: &mut Criterion, item_bytes: usize, count: usize) {
    let entry = registry::find("inflate").expect("registered");
    let mut contest = Contest::new(criterion, entry.default.clone(), item_bytes, count);
    for path in available(entry.paths) {
        let kernel = Inflate::new(path, dpb_core::DeflateFormat::Raw).expect("available");
        contest.enter(&format!("cpu/{path}"), &kernel);
    }
    let zlib_rs = ItemByItem(OutputShape::Variable, |item: &[u8], slot: &mut [u8]| {
        let config = zlib_rs::InflateConfig {
            window_bits: RAW_WINDOW_BITS,
        };
        zlib_rs::decompress_slice(slot, item, config).0.len()
    });
    contest.enter("zlib-rs", &zlib_rs);
}

fn available(paths: &[Path]) -> impl Iterator<Item = Path> + '_ {
    paths.iter().copied().filter(|path| path.is_available())
}

/// One operator on one shape of input; contenders enter one by one.
struct Contest<'a> {
    group: BenchmarkGroup<'a, WallTime>,
    entry: &'static Entry,
    spec: OpSpec,
    input: Input,
    /// The input's bytes in such memory as backends give, aligned.
    src: Buf,
    slot: usize,
}

impl<'a> Contest<'a> {
    fn new(criterion: &'a mut Criterion, spec: OpSpec, item_bytes: usize, count: usize) -> Self {
        const SEED: u64 = 1;
        let entry = registry::of(&spec).expect("registered");
        let (level, slot) = match spec {
            OpSpec::Deflate { level, .. } => {
                (format!("-level{level}"), compressed_bytes_max(item_bytes))
            }
            _ => (String::new(), item_bytes),
        };
        let mut group = criterion.benchmark_group(format!("{spec}{level}/{count}x{item_bytes}"));
        group.throughput(Throughput::Bytes((item_bytes * count) as u64));
        let input = entry.input(&spec, SEED, item_bytes, count);
        let mut src = Buf::zeroed(input.bytes.len()).expect("memory");
        src.copy_from_slice(&input.bytes);
        Self {
            group,
            entry,
            spec,
            input,
            src,
            slot,
        }
    }

    /// Checks, times and checks again.
    fn enter<K: Kernel>(&mut self, name: &str, kernel: &K) {
        let batch = Batch::new(&self.src, &self.input.items).expect("items lie inside");
        let slot = match kernel.shape() {
            OutputShape::Fixed(bytes) => bytes,
            OutputShape::Variable => self.slot,
        };
        let mut dst = Buf::zeroed(slot * batch.len()).expect("memory");
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut scratch = kernel.scratch();
        let mut run = |dst: &mut [u8], outcomes: &mut Vec<Result<u32, JobError>>| {
            outcomes.clear();
            let out = BatchOut {
                dst,
                slot,
                outcomes,
            };
            kernel.run(batch, out, &mut scratch).expect("runs");
        };
        let check = |dst: &[u8], outcomes: &[Result<u32, JobError>]| {
            for i in 0..batch.len() {
                let len = match kernel.shape() {
                    OutputShape::Fixed(bytes) => bytes,
                    OutputShape::Variable => outcomes[i].expect("not refused") as usize,
                };
                let output = &dst[i * slot..][..len];
                self.entry
                    .check(&self.spec, batch.item(i), Ok(output), slot)
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

/// A peer, which takes one item a call and says how long its output is.
struct ItemByItem<F>(OutputShape, F);

impl<F> Kernel for ItemByItem<F>
where
    F: Fn(&[u8], &mut [u8]) -> usize + Send + Sync + 'static,
{
    type Scratch = ();

    fn scratch(&self) {}

    fn shape(&self) -> OutputShape {
        self.0
    }

    fn dst_len(&self, item_len: usize) -> usize {
        item_len
    }

    fn run(&self, batch: Batch<'_>, out: BatchOut<'_>, _scratch: &mut ()) -> Result<(), JobError> {
        for i in 0..batch.len() {
            let len = (self.1)(batch.item(i), &mut out.dst[i * out.slot..][..out.slot]);
            if self.0 == OutputShape::Variable {
                out.outcomes
                    .push(u32::try_from(len).map_err(|_| JobError::TooLong));
            }
        }
        Ok(())
    }
}
