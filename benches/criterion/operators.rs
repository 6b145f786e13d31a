//! The CPU kernels against the implementations that an expert would use instead: same data, same run, one core.
//!
//! Every operator of the registry, with each of its parameters at the ends of its range, on every path that this CPU has,
//! beside the peers that the registry names. Sizes: 64 bytes in batches of 256, 1500 bytes in batches of 64, one item of
//! 64 KiB; of what is costly at any length, a signature for one, a single item each time. Each contender's output is judged by the workload before it is timed, and again after. A peer
//! has no batch call, so it is called once per item.
//!
//! `cargo bench -p dpb-benches --bench operators -- crc32c` runs one operator.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Duration;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use dpb_core::{
    Batch, BatchOut, Buf, DeflateFormat, HmacHash, Input, Items, JobError, Kernel, Material,
    OpSpec, OutputShape, Workload,
};
use dpb_operators::cpu::Path;
use dpb_operators::direct::{Direct, direct};
use dpb_operators::registry::{Entry, OPERATORS};

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
        for spec in entry.specs() {
            for (item_bytes, count) in SHAPES {
                // Costly items come in as many as cost as much.
                let count = (item_bytes * count / (item_bytes + spec.cost_bytes())).max(1);
                contest(&mut criterion, entry, &spec, item_bytes, count);
            }
        }
    }
    criterion.final_summary();
}

/// All contenders on one shape of input.
fn contest(
    criterion: &mut Criterion,
    entry: &'static Entry,
    spec: &OpSpec,
    item_bytes: usize,
    count: usize,
) {
    let workload = entry.workload(spec).expect("its own spec");
    let input = match Input::of(&*workload, SEED, item_bytes, count) {
        Ok(input) => input,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let portable = entry.direct(spec, Path::Portable).expect("any CPU");
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
    for path in entry.paths.iter().filter(|path| path.is_available()) {
        let kernel = entry.direct(spec, *path).expect("available");
        contest.enter(&format!("cpu/{path}"), kernel);
    }
    for name in entry.peers {
        contest.enter(name, peer(name, spec));
    }
}

/// The peer called `name` in the registry.
///
/// # Panics
/// If there is no call for it here: a peer that is named is measured.
fn peer(name: &str, spec: &OpSpec) -> Box<dyn Direct> {
    match (name, spec) {
        ("crc-fast", OpSpec::Crc32c) => item_by_item(OutputShape::Fixed(4), |item, slot| {
            slot.copy_from_slice(&crc_fast::crc32_iscsi(item).to_le_bytes());
            4
        }),
        ("crc32c", OpSpec::Crc32c) => item_by_item(OutputShape::Fixed(4), |item, slot| {
            slot.copy_from_slice(&crc32c::crc32c(item).to_le_bytes());
            4
        }),
        ("md-5", OpSpec::Md5) => digest::<md5::Md5>(),
        ("sha1", OpSpec::Sha1) => digest::<sha1::Sha1>(),
        ("sha2", OpSpec::Sha256) => digest::<sha2::Sha256>(),
        ("sha2", OpSpec::Sha512) => digest::<sha2::Sha512>(),
        ("hmac", OpSpec::Hmac { hash, key }) => match hash {
            HmacHash::Md5 => code::<hmac::Hmac<md5::Md5>>(key),
            HmacHash::Sha1 => code::<hmac::Hmac<sha1::Sha1>>(key),
            HmacHash::Sha256 => code::<hmac::Hmac<sha2::Sha256>>(key),
            HmacHash::Sha512 => code::<hmac::Hmac<sha2::Sha512>>(key),
        },
        ("zlib-rs", &OpSpec::Deflate { level, format }) => {
            item_by_item(OutputShape::Variable, move |item, slot| {
                let mut config = zlib_rs::DeflateConfig::new(i32::from(level));
                config.window_bits = window_bits(format);
                zlib_rs::compress_slice(slot, item, config).0.len()
            })
        }
        ("zlib-rs", &OpSpec::Inflate { format }) => {
            item_by_item(OutputShape::Variable, move |item, slot| {
                let window_bits = window_bits(format);
                let config = zlib_rs::InflateConfig { window_bits };
                zlib_rs::decompress_slice(slot, item, config).0.len()
            })
        }
        ("lz4", OpSpec::Lz4) => item_by_item(OutputShape::Variable, |item, slot| {
            lz4::block::compress_to_buffer(item, None, false, slot).expect("a slot that fits")
        }),
        ("lz4", OpSpec::Unlz4) => item_by_item(OutputShape::Variable, |item, slot| {
            let room = i32::try_from(slot.len()).expect("below 2 GiB");
            lz4::block::decompress_to_buffer(item, Some(room), slot).expect("a block")
        }),
        ("snap", OpSpec::Snappy) => {
            // Its tables are made once.
            let encoder = Mutex::new(snap::raw::Encoder::new());
            item_by_item(OutputShape::Variable, move |item, slot| {
                let mut encoder = encoder.lock().expect("no call panics");
                encoder.compress(item, slot).expect("a slot that fits")
            })
        }
        ("snap", OpSpec::Unsnappy) => item_by_item(OutputShape::Variable, |item, slot| {
            let decoded = snap::raw::Decoder::new().decompress(item, slot);
            decoded.expect("a raw stream")
        }),
        _ => panic!("the registry names {name} as a peer of {spec}; it has no call here"),
    }
}

/// A hash function of RustCrypto's.
fn digest<D: sha2::Digest>() -> Box<dyn Direct> {
    let bytes = <D as sha2::Digest>::output_size();
    item_by_item(OutputShape::Fixed(bytes), move |item, slot| {
        slot.copy_from_slice(&D::digest(item));
        bytes
    })
}

/// A message authentication code of RustCrypto's, with its key taken in already.
fn code<M>(key: &Material) -> Box<dyn Direct>
where
    M: hmac::Mac + hmac::KeyInit + Clone + Send + Sync + 'static,
{
    let keyed = <M as hmac::KeyInit>::new_from_slice(key.bytes()).expect("any length");
    let bytes = <M as hmac::digest::OutputSizeUser>::output_size();
    item_by_item(OutputShape::Fixed(bytes), move |item, slot| {
        let code = keyed.clone().chain_update(item).finalize();
        slot.copy_from_slice(&code.into_bytes());
        bytes
    })
}

/// `deflate,level=6,format=raw`.
fn name(spec: &OpSpec) -> String {
    let parameters = spec.parameters().into_iter();
    let parameters = parameters.map(|(name, value)| format!(",{name}={value}"));
    std::iter::once(spec.name().to_owned())
        .chain(parameters)
        .collect()
}

/// zlib's way of asking for a wrapper.
fn window_bits(format: DeflateFormat) -> i32 {
    match format {
        DeflateFormat::Raw => -15,
        DeflateFormat::Zlib => 15,
        DeflateFormat::Gzip => 16 + 15,
    }
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
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut run = |dst: &mut [u8], outcomes: &mut Vec<Result<u32, JobError>>| {
            outcomes.clear();
            let out = BatchOut {
                dst,
                slot,
                outcomes,
            };
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

fn item_by_item(
    shape: OutputShape,
    call: impl Fn(&[u8], &mut [u8]) -> usize + Send + Sync + 'static,
) -> Box<dyn Direct> {
    direct(ItemByItem(shape, call))
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
