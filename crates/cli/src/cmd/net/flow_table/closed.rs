//! The closed loop: the program gets the same bursts again and again, as fast as its core takes them; and its stages alone, by turns with it.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::measure::{Check, Record, Watch};
use dpb_core::{Buf, Clock, PacketPort, WallClock};
use dpb_net::flow::{Found, HashKey, Seen, Table};
use dpb_net::packet::Headers;
use dpb_net::pipeline::{Line, Shard, Stage, WhenFull, Work};
use dpb_net::port::{End, pair_of};
use dpb_net::programs::flow_table::FlowTable;
use dpb_net::programs::forward::{Addresses, bridge};
use dpb_net::traffic::{Generator, StampKey, Traffic};

use super::open::{BURST, DEPTH, line};
use super::{Args, Test};
use crate::cmd::net::bench::Pinned;
use crate::cmd::sweep;
use crate::interrupt;

/// Packets that are given to the program at a time; the clock is looked at before and behind them.
const FED: usize = 256;
/// Packets of a lap, at least: more than caches keep.
const LAP_MIN: u64 = 1 << 16;
/// The parts that are timed by turns: the program, and its stages alone.
const PARTS: u32 = 4;

/// The program, or a part of it, between ports.
struct Between {
    near: End,
    back: End,
    shard: Shard,
}

impl Between {
    fn new(line: Line) -> Self {
        let [near, far] = pair_of(2 * FED);
        let [far_out, back] = pair_of(2 * FED);
        let ports: Vec<Box<dyn PacketPort>> = vec![Box::new(far), Box::new(far_out)];
        Self {
            near,
            back,
            shard: Shard::new("flow-table", ports, line, BURST, WhenFull::Hold),
        }
    }

    /// Has `frames` go round for some time, so many at least; gives nanoseconds and packets. Only the shard's turns are timed.
    fn run(
        &mut self,
        frames: &mut VecDeque<Buf>,
        clock: &dyn Clock,
        time: Duration,
        packets_min: usize,
    ) -> Result<(u64, u64), String> {
        let said = |error: std::io::Error| error.to_string();
        let (mut busy_ns, mut packets) = (0, 0);
        let mut fed: VecDeque<Buf> = VecDeque::with_capacity(FED);
        let mut came = Vec::with_capacity(FED);
        let is_short = |ns: u64, packets: u64| {
            u128::from(ns) < time.as_nanos() || packets < packets_min as u64
        };
        while is_short(busy_ns, packets) && !interrupt::is_set() {
            fed.extend(frames.drain(..FED));
            self.near.send(&mut fed).map_err(said)?;
            let began_ns = clock.now_ns();
            let mut moved = 1;
            while moved > 0 {
                moved = self.shard.turn().map_err(said)?;
            }
            busy_ns += clock.now_ns() - began_ns;
            self.back.receive(&mut came, FED).map_err(said)?;
            if came.len() != FED {
                return Err(format!("{} of {FED} packets came back", came.len()));
            }
            packets += FED as u64;
            frames.extend(came.drain(..));
        }
        Ok((busy_ns, packets))
    }
}

/// The program as fast as one core takes it.
///
/// # Errors
/// The reason why the test broke, as a sentence.
pub(super) fn software(args: &Args, test: &Test<'_>, mut record: Record) -> Result<Record, String> {
    let generator = args.generator(test.chosen, 0)?;
    let flows = test.chosen.flows;
    let packets = flows * LAP_MIN.div_ceil(flows);
    let mut frames = lap(&generator, packets, args.runs.seed)?;
    let clock: Arc<dyn Clock> = Arc::new(WallClock::default());
    let settings = args.settings(test.capacity);
    let table = FlowTable::new(&settings, Arc::clone(&clock)).map_err(|why| why.to_string())?;
    let counts = table.counts();
    let mut program = Between::new(line(table));
    let bridge: Box<dyn Stage> = Box::new(bridge(vec![1, 0], Addresses::Kept));
    let mut ports = Between::new(Line::new("bridge", vec![bridge], DEPTH));
    let mut alone = Alone::new(args, test, &frames)?;
    let _pinned = Pinned::on(args.cores(test).first().copied())?;
    let part = |time: Duration| time / PARTS;
    // A lap, in which all flows begin.
    let (lap, time) = (frames.len(), part(args.runs.warm_up()));
    program.run(&mut frames, &*clock, time, lap)?;
    alone.look_up(&*clock, time, lap);
    let mut samples: [Vec<f64>; 6] = Default::default();
    let watch = Watch::start();
    for _ in 0..args.runs.repeat() {
        if interrupt::is_set() {
            break;
        }
        let time = part(args.runs.seconds());
        let each = |(ns, packets): (u64, u64)| ns as f64 / packets.max(1) as f64;
        let whole = each(program.run(&mut frames, &*clock, time, 0)?);
        let parse = each(alone.parse(frames.make_contiguous(), &*clock, time));
        let lookup = each(alone.look_up(&*clock, time, 0));
        let port = each(ports.run(&mut frames, &*clock, time, 0)?);
        let figures = [
            whole,
            parse,
            lookup,
            port,
            1e9 / whole,
            (parse + lookup + port) / whole,
        ];
        samples
            .iter_mut()
            .zip(figures)
            .for_each(|(samples, figure)| samples.push(figure));
    }
    let interference = watch.stop();
    let is_interrupted = interrupt::is_set();
    let account = program.shard.account();
    account.check().map_err(|error| error.to_string())?;
    drop(program);
    let totals = counts.read();
    totals.check().map_err(|error| error.to_string())?;
    // Every flow of the lap has begun, and every other packet was of a known one.
    let is_right = totals.began >= flows && totals.full == 0;
    if totals.packets != account.received.packets || !is_right {
        return Err(format!("{} flows, and the table counted {totals:?}", flows));
    }
    alone.check()?;
    let names = [
        "program_ns_per_packet",
        "parse_ns_per_packet",
        "table_ns_per_packet",
        "port_ns_per_packet",
        "packets_per_s",
        "stages_ratio",
    ];
    let rates = samples[4].clone();
    for (name, samples) in names.into_iter().zip(samples) {
        record.sample(name, samples);
    }
    let found = [
        ("table_packets", totals.packets),
        ("flows_begun", totals.began),
        ("table_full", totals.full),
    ];
    record
        .counts
        .extend(found.map(|(name, count)| (name.to_owned(), count)));
    record.check = Some(Check {
        against: "the number of flows in the packets, and the sum of all flows' counters"
            .to_owned(),
        compared: totals.packets,
        digest: None,
    });
    let asked = args.runs.repeat();
    sweep::conclude(&mut record, &rates, asked, 1, &interference, is_interrupted);
    Ok(record)
}

/// The packets of a lap, in memory.
fn lap(generator: &Generator, packets: u64, seed: u64) -> Result<VecDeque<Buf>, String> {
    let key = StampKey::new(seed, 0);
    let frame = |i| {
        let mut frame = Buf::zeroed(generator.frame_bytes(i))?;
        generator.write(i, 0, &key, &mut frame);
        Some(frame)
    };
    let frames: Option<VecDeque<Buf>> = (0..packets.next_multiple_of(FED as u64))
        .map(frame)
        .collect();
    frames.ok_or_else(|| format!("no memory for {packets} frames"))
}

/// The stages by themselves, on the same packets.
struct Alone {
    headers: Headers,
    seen: Vec<Seen<2>>,
    all: Vec<Seen<2>>,
    table: Table<2>,
    found: Vec<Found>,
    looked_up: u64,
    /// Where the next turn goes on.
    at: usize,
}

impl Alone {
    fn new(args: &Args, test: &Test<'_>, frames: &VecDeque<Buf>) -> Result<Self, String> {
        let settings = args.settings(test.capacity);
        let table = Table::new(
            settings.flows,
            HashKey::new(settings.seed),
            settings.timeouts,
        );
        let (mut headers, mut all) = (Headers::new(), Vec::new());
        for half in <[&[Buf]; 2]>::from(frames.as_slices()) {
            headers.read(half);
            headers.seen_v4(&mut all);
        }
        Ok(Self {
            headers,
            seen: Vec::with_capacity(BURST),
            all,
            table: table.map_err(|why| why.to_string())?,
            found: Vec::with_capacity(BURST),
            looked_up: 0,
            at: 0,
        })
    }

    /// Reads headers, burst after burst.
    fn parse(&mut self, frames: &[Buf], clock: &dyn Clock, time: Duration) -> (u64, u64) {
        let (mut packets, began_ns) = (0, clock.now_ns());
        loop {
            for burst in frames.chunks(BURST) {
                self.headers.read(burst);
                self.seen.clear();
                self.headers.seen_v4(&mut self.seen);
                black_box(&mut self.seen);
                packets += burst.len() as u64;
                if packets.is_multiple_of(FED as u64) {
                    let ns = clock.now_ns() - began_ns;
                    if u128::from(ns) >= time.as_nanos() || interrupt::is_set() {
                        return (ns, packets);
                    }
                }
            }
        }
    }

    /// Looks flows up, burst after burst, so many packets at least.
    fn look_up(&mut self, clock: &dyn Clock, time: Duration, packets_min: usize) -> (u64, u64) {
        let (mut packets, began_ns) = (0, clock.now_ns());
        loop {
            let burst = self.all[self.at..].chunks(BURST).next().unwrap_or_default();
            self.at = (self.at + burst.len()) % self.all.len();
            self.found.clear();
            let now_ms = (clock.now_ns() / 1_000_000) as u32;
            self.table.expire(now_ms, |_| {});
            self.table.burst(burst, now_ms, &mut self.found, |_| {});
            packets += burst.len() as u64;
            if packets.is_multiple_of(FED as u64) {
                let ns = clock.now_ns() - began_ns;
                let is_enough = u128::from(ns) >= time.as_nanos() && packets >= packets_min as u64;
                if is_enough || interrupt::is_set() {
                    self.looked_up += packets;
                    return (ns, packets);
                }
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let stats = self.table.stats();
        let is_right =
            stats.offered == self.looked_up && stats.began - stats.ended == self.table.len() as u64;
        is_right.then_some(()).ok_or_else(|| {
            format!(
                "the table alone counted {stats:?} of {} packets",
                self.looked_up
            )
        })
    }
}
