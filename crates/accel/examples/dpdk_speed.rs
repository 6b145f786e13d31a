//! The seam beside DPDK's own test programs, on the same devices with the same bursts, in turns:
//!
//! ```text
//! cargo build --release -p dpb-accel --example dpdk_speed
//! taskset -c 1 target/release/examples/dpdk_speed
//! ```
//!
//! AES-128-GCM at 1 KiB on `crypto_aesni_mb` beside `dpdk-test-crypto-perf`; DEFLATE on `compress_isal` beside
//! `dpdk-test-compress-perf` on the same text (Debian: dpdk-dev). Medians and the best of the rounds,
//! and their ratios.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use dpb_accel::dpdk::Dpdk;
use dpb_core::{
    Backend, DeflateFormat, Direction, Family, Input, Items, Job, Material, Memory, OpSpec,
    Operator, Stride, spec,
};
use dpb_operators::{input, registry};

/// The number of turns that each has.
const ROUNDS: usize = 11;
/// The time that a turn of the seam lasts.
const TURN: Duration = Duration::from_millis(400);
/// Operations of a burst, and items of a job.
const BURST: usize = 32;
/// Jobs that go round: one, as the peer has one burst at a time.
const DEPTH: NonZeroU32 = NonZeroU32::new(1).unwrap();

/// The argument of the program that spins.
const SPIN: &str = "spin";

/// The peer's default, too.
const IN_PLACE: bool = true;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    if std::env::args().nth(1).as_deref() == Some(SPIN) {
        loop {
            std::hint::spin_loop();
        }
    }
    println!(
        "{:44} {:>9} {:>9} {:>6}",
        "", "seam Gb/s", "peer Gb/s", "ratio"
    );
    aes_gcm("aes-gcm in place, peer as it comes", IN_PLACE, &[])?;
    // Its default is 16384 operations in turn, which no cache holds; the seam has as many as a burst.
    aes_gcm(
        "aes-gcm in place, peer with fewest operations",
        IN_PLACE,
        &["--pool-sz", "1024"],
    )?;
    aes_gcm(
        "aes-gcm out of place, peer too",
        !IN_PLACE,
        &["--out-of-place", "--segment-sz", "2048"],
    )?;
    deflate()
}

fn aes_gcm(name: &str, is_in_place: bool, options: &[&str]) -> Result<(), Failure> {
    let spec = OpSpec::from(spec::AesGcm {
        direction: Direction::Encrypt,
        aad_bytes: 0,
        key: Material::secret(*b"0123456789abcdef"),
    });
    let mut ours = OurSide::new("crypto_aesni_mb", &spec, 1024, is_in_place)?;
    let mut peer = perf("dpdk-test-crypto-perf", "crypto_aesni_mb");
    peer.args([
        "--ptest",
        "throughput",
        "--optype",
        "aead",
        "--aead-algo",
        "aes-gcm",
    ]);
    peer.args([
        "--aead-op",
        "encrypt",
        "--aead-key-sz",
        "16",
        "--aead-iv-sz",
        "12",
    ]);
    peer.args([
        "--aead-aad-sz",
        "0",
        "--digest-sz",
        "16",
        "--buffer-sz",
        "1024",
    ]);
    peer.args(["--burst-sz", "32", "--total-ops", "2000000", "--silent"]);
    peer.args(["--devtype", "crypto_aesni_mb"]).args(options);
    // lcore, buffer, burst, enqueued, dequeued, two failures, millions of operations, Gb/s.
    let gbps = |said: &str| {
        let is_row = |line: &&str| line.split_whitespace().nth(1) == Some("1024");
        said.lines()
            .find(is_row)?
            .split_whitespace()
            .nth(8)?
            .parse()
            .ok()
    };
    compare(name, &mut ours, &mut peer, gbps)
}

fn deflate() -> Result<(), Failure> {
    let spec = OpSpec::from(spec::Deflate {
        level: 1,
        format: DeflateFormat::Raw,
    });
    let mut ours = OurSide::new("compress_isal", &spec, 32 << 10, !IN_PLACE)?;
    // The same bytes for both: what the peer reads is what the seam's items are.
    let file = std::env::temp_dir().join(format!("dpb-speed-{}", std::process::id()));
    std::fs::write(&file, &ours.corpus)?;
    let mut peer = perf("dpdk-test-compress-perf", "compress_isal");
    peer.args(["--driver-name", "compress_isal", "--ptest", "throughput"]);
    peer.args([
        "--operation",
        "comp",
        "--huffman-enc",
        "dynamic",
        "--compress-level",
        "1",
    ]);
    peer.args(["--seg-sz", "32768", "--max-num-sgl-segs", "1"]);
    peer.args(["--burst-sz", "32", "--num-iter", "80"]);
    peer.arg("--input-file").arg(&file);
    // lcore, level, size, ratio, Gb/s of compression.
    let gbps = |said: &str| {
        let is_row = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() >= 6
                && words
                    .iter()
                    .all(|word| word.trim_end_matches('%').parse::<f64>().is_ok())
        };
        let row = said.lines().find(is_row)?;
        row.split_whitespace().nth(4)?.parse().ok()
    };
    let compared = compare(
        "deflate level 1, items of 32 KiB",
        &mut ours,
        &mut peer,
        gbps,
    );
    std::fs::remove_file(&file)?;
    compared
}

/// The core that this program computes on, and another.
fn cores() -> [String; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cores = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let own = cores
        .and_then(|cores| cores.trim().split([',', '-']).next())
        .unwrap_or("0");
    let other = if own == "0" { "1" } else { "0" };
    [own.to_owned(), other.to_owned()]
}

/// One of DPDK's test programs on a device of software, with no rights. It computes on the core that this program runs on;
/// its main thread spins on another.
fn perf(program: &str, device: &str) -> Command {
    let [own, other] = cores();
    let mut command = Command::new(program);
    command.args([
        &format!("--lcores=0@{other},1@{own}"),
        "--no-huge",
        "--no-pci",
    ]);
    command.args([
        "--no-shconf",
        "--no-telemetry",
        "-m",
        "512",
        "--log-level=error",
    ]);
    command.args(["--vdev", device, "--"]);
    command
}

/// Spins on the other core as the peer's main thread does in its turn: two cores may be two threads of one, and what one
/// of them does slows the other.
struct Spinner(Child);

impl Spinner {
    fn start() -> Result<Self, Failure> {
        let [_, other] = cores();
        let mut command = Command::new("taskset");
        command
            .args(["-c", &other])
            .arg(std::env::current_exe()?)
            .arg(SPIN);
        Ok(Self(command.spawn()?))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        // It is gone already, or ends here.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn compare(
    name: &str,
    ours: &mut OurSide,
    peer: &mut Command,
    gbps: impl Fn(&str) -> Option<f64>,
) -> Result<(), Failure> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let output = peer
            .output()
            .map_err(|error| format!("{peer:?}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let theirs = gbps(&said).ok_or_else(|| format!("{peer:?} says\n{said}"))?;
        let spinner = Spinner::start()?;
        rounds.push((ours.gbps()?, theirs));
        drop(spinner);
    }
    let (ours, theirs): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
    let (medians, bests) = (
        [median(&ours), median(&theirs)],
        [best(&ours), best(&theirs)],
    );
    for (what, [ours, theirs]) in [("median", medians), ("best", bests)] {
        let name = format!("{name}, {what}");
        println!("{name:44} {ours:>9.2} {theirs:>9.2} {:>6.3}", ours / theirs);
    }
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The figure of the least disturbed round.
fn best(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// A job over the items of `input`. Their texts begin at multiples of a cache line, as those of the peer's mbufs do, and so do the outputs;
/// in place they have room behind them for what these have more.
fn job(
    backend: &dyn Backend,
    operator: &dyn Operator,
    input: &Input,
    (tag, is_in_place): (u64, bool),
) -> Result<Job, Failure> {
    const LINE: usize = 64;
    let batch = input.batch()?;
    let (count, len) = (batch.len(), batch.longest());
    // In front of the text lie a nonce and the like.
    let offset = operator.in_place().unwrap_or_default();
    let start = offset.next_multiple_of(LINE) - offset;
    let dst_len = operator.dst_len(len);
    let step = (start + len.max(offset + dst_len)).next_multiple_of(LINE);
    let stride = |start: usize, len: usize| {
        Items::Strided(Stride {
            start: start as u32,
            len: len as u32,
            step: step as u32,
            count: count as u32,
        })
    };
    let mut memory = backend.alloc(count * step)?;
    for (room, item) in memory.chunks_mut(step).zip(batch.iter()) {
        room[start..][..item.len()].copy_from_slice(item);
    }
    let (src, dst, slots) = match is_in_place {
        true => (Memory::Output, memory, stride(start + offset, dst_len)),
        false => {
            let dst = backend.alloc(count * step)?;
            (Memory::from(memory.freeze()), dst, stride(0, dst_len))
        }
    };
    let outcomes = Vec::with_capacity(count);
    let items = stride(start, len);
    Ok(Job::with_slots(tag, src, items, dst, slots, outcomes))
}

/// A queue, and jobs that go round in it.
struct OurSide {
    queue: Box<dyn dpb_core::Queue>,
    ready: VecDeque<Job>,
    /// Bytes that are counted for a job.
    job_bytes: usize,
    corpus: Vec<u8>,
}

impl OurSide {
    /// A job of a burst of items that carry `item` bytes of text each; in place they are written over again and again.
    fn new(device: &str, spec: &OpSpec, item: usize, is_in_place: bool) -> Result<Self, Failure> {
        let backend: Box<dyn Backend> = Dpdk.open(device)?;
        let workload = registry::of(spec)?.workload(spec)?;
        let plain = input::text(1, item, BURST);
        let fed: Input = plain.fed(&*workload)?;
        let operator = backend.prepare(spec)?;
        let jobs =
            (0..DEPTH.get().into()).map(|tag| job(&*backend, &*operator, &fed, (tag, is_in_place)));
        let ready = jobs.collect::<Result<_, _>>()?;
        Ok(Self {
            queue: operator.open(DEPTH)?,
            ready,
            job_bytes: item * BURST,
            corpus: plain.bytes,
        })
    }

    /// One turn. Every job is carried out; what it gives was checked by the tests.
    fn gbps(&mut self) -> Result<f64, Failure> {
        let mut done = Vec::with_capacity(self.ready.len());
        let (mut jobs, start) = (0, Instant::now());
        while start.elapsed() < TURN {
            for _ in 0..64 {
                self.queue.submit(&mut self.ready);
                jobs += self.queue.poll(&mut done);
                for completion in done.drain(..) {
                    completion.result?;
                    self.ready.push_back(completion.job);
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        while self.queue.in_flight() > 0 {
            self.queue.poll(&mut done);
        }
        self.ready
            .extend(done.drain(..).map(|completion| completion.job));
        Ok((jobs * self.job_bytes * 8) as f64 / seconds / 1e9)
    }
}
