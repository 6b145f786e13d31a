//! The whole program beside what one on DPDK does: the same frames in the same bursts, from headers to counters.
//!
//! dpb's side is what `dpb net flow-table --mode closed` runs, with its two ports in memory. DPDK's side has none, so the program's stage stands beside them without
//! ports, too. Frames are handed to these by a port, by mbufs that are written over them, and in bursts; none of this is timed. Every side's frames have just been
//! written, so that they lie in the core's caches: DPDK's mbufs by the copy, dpb's in place.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dpb_accel::dpdk::libraries::{self, Libraries};
use dpb_core::{Buf, Clock, ClockKind, PacketPort, WallClock};
use dpb_net::flow::Direction;
use dpb_net::pipeline::{Burst, Line, Mark, Shard, Stage, WhenFull, Work as _};
use dpb_net::port::{End, pair_of};
use dpb_net::programs::flow_table::{FlowTable, Settings};
use dpb_net::traffic::{Flows, Generator, Profile, StampKey, Traffic as _};

use super::traffic::{KEY_BYTES, Key, seen_of};
use super::{NAMES, Row, Turns};

/// Packets that a side is given at a time, as the program's closed loop does.
const FED: usize = 256;
/// Bursts in the program's hands.
const DEPTH: usize = 4;
/// Packets of a lap at least: more than caches keep.
const LAP_MIN: usize = 1 << 16;
/// The seed of frames and of places in the table.
const SEED: u64 = 1;

/// The packets of a flow, by its key.
type Counted = Box<dyn Fn(&Key) -> u64>;

/// One side.
trait Side {
    fn name(&self) -> &'static str;
    /// Has all frames go through once, in their order, which they keep; gives the time that its work took.
    fn lap(&mut self, frames: &mut VecDeque<Buf>) -> Result<Duration>;
    /// Ends it, to be asked what it counted. It has had so many packets.
    fn end(self: Box<Self>, packets: u64) -> Result<Counted>;
}

/// Packets of a turn, and the turns of both sides, dpb's first.
pub(super) fn compare(row: &Row<'_>, is_timed: bool) -> Result<(usize, Vec<Turns>)> {
    let (rounds, flows, packets) = row.extent(is_timed);
    ensure!(
        FED.is_multiple_of(row.burst),
        "whole bursts of {FED} packets"
    );
    let mut frames = frames(flows, LAP_MIN.min(packets))?;
    let right = counted(&frames)?;
    ensure!(right.len() == flows, "{} flows in frames", right.len());
    let laps = packets.div_ceil(frames.len());
    // As much room for both, of which 95 of 100 are taken.
    let room = (flows * 100).div_ceil(95);
    let mut sides: Vec<Box<dyn Side>> = Vec::new();
    for name in NAMES {
        sides.push(Box::new(Program::new(name, room, row.burst)?));
    }
    sides.push(Box::new(Alone::new(room, row.burst)?));
    match Dpdk::new(room, row.burst) {
        Ok(side) => sides.push(Box::new(side)),
        Err(why) => println!("DPDK is left out: {why}"),
    }
    // All flows begin.
    for side in &mut sides {
        side.lap(&mut frames)?;
    }
    let mut turns: Vec<Turns> = sides.iter().map(|side| Turns::of(side.name())).collect();
    for round in 0..rounds {
        for nth in 0..sides.len() {
            let nth = (nth + round) % sides.len();
            let mut busy = Duration::ZERO;
            for _ in 0..laps {
                busy += sides[nth].lap(&mut frames)?;
            }
            turns[nth].seconds.push(busy.as_secs_f64());
        }
    }
    let all_laps = 1 + (rounds * laps) as u64;
    for side in sides {
        let name = side.name();
        let counted = side.end(all_laps * frames.len() as u64)?;
        for (key, packets) in &right {
            let (counted, packets) = (counted(key), all_laps * packets);
            ensure!(
                counted == packets,
                "{name} has {counted} packets of a flow that had {packets}"
            );
        }
    }
    Ok((laps * frames.len(), turns))
}

/// The frames of a lap, so many at least: `--size 64` of the program's.
fn frames(flows: usize, packets_min: usize) -> Result<VecDeque<Buf>> {
    let profile = Profile {
        flows: Flows::endless(flows as u64),
        ..Profile::new(SEED)
    };
    let generator = Generator::new(&profile)?;
    let key = StampKey::new(SEED, 0);
    let packets = (flows * packets_min.div_ceil(flows)).next_multiple_of(FED);
    let frame = |i| -> Result<Buf> {
        let mut frame = Buf::zeroed(generator.frame_bytes(i)).context("no memory for frames")?;
        generator.write(i, 0, &key, &mut frame);
        Ok(frame)
    };
    (0..packets as u64).map(frame).collect()
}

/// Writes a frame's bytes, which stay as they are.
fn write(frame: &mut Buf) {
    for byte in frame.iter_mut() {
        *byte = black_box(*byte);
    }
}

/// The packets of each flow, by the bytes of the frames alone.
fn counted(frames: &VecDeque<Buf>) -> Result<HashMap<Key, u64>> {
    let mut counted = HashMap::new();
    for frame in frames {
        let is_plain = frame[12..15] == [8, 0, 0x45] && frame[23] == 17;
        ensure!(is_plain, "a frame of UDP over IPv4 without options");
        let mut key = [0; KEY_BYTES];
        key[..12].copy_from_slice(&frame[26..38]);
        key[12] = frame[23];
        *counted.entry(key).or_default() += 1;
    }
    Ok(counted)
}

/// dpb's.
struct Program {
    name: &'static str,
    near: End,
    back: End,
    shard: Shard,
    table: Receiver<FlowTable>,
    clock: Arc<OwnTime>,
    fed: VecDeque<Buf>,
    came: Vec<Buf>,
}

/// The time of one side: it stands still while others have their turns, so that a table looks at its flows once in a second of its own.
#[derive(Debug, Default)]
struct OwnTime {
    wall: WallClock,
    /// The time of others.
    away_ns: AtomicU64,
    /// When the others' turns began that are not over; [`OwnTime::RUNNING`] in one's own.
    left_ns: AtomicU64,
}

impl OwnTime {
    const RUNNING: u64 = u64::MAX;

    /// Has it go on for `work`; says how long that took.
    fn of<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let away_ns = self.wall.now_ns() - self.left_ns.load(Ordering::Relaxed);
        self.away_ns.fetch_add(away_ns, Ordering::Relaxed);
        self.left_ns.store(Self::RUNNING, Ordering::Relaxed);
        let began = Instant::now();
        let done = work();
        let took = began.elapsed();
        self.left_ns.store(self.wall.now_ns(), Ordering::Relaxed);
        (done, took)
    }
}

impl Clock for OwnTime {
    fn now_ns(&self) -> u64 {
        let now_ns = match self.left_ns.load(Ordering::Relaxed) {
            Self::RUNNING => self.wall.now_ns(),
            left_ns => left_ns,
        };
        now_ns - self.away_ns.load(Ordering::Relaxed)
    }

    fn kind(&self) -> ClockKind {
        self.wall.kind()
    }
}

/// The program's stage, whose table is asked for its flows when the shard is gone.
struct Lent {
    table: Option<FlowTable>,
    home: Sender<FlowTable>,
}

fn table(flows: usize, clock: &Arc<OwnTime>) -> Result<FlowTable> {
    let settings = Settings {
        flows,
        seed: SEED,
        ..Settings::default()
    };
    let clock: Arc<dyn Clock> = clock.clone();
    Ok(FlowTable::new(&settings, clock)?.forwarding(vec![1, 0]))
}

/// The table's counts, after so many packets.
fn counted_by(table: FlowTable, clock: &dyn Clock, packets: u64) -> Result<Counted> {
    let totals = table.counts().read();
    ensure!(
        totals.packets == packets && totals.known + totals.began == packets,
        "of {packets} packets the table counted {totals:?}"
    );
    let now_ms = (clock.now_ns() / 1_000_000) as u32;
    Ok(Box::new(move |key| {
        let flow = table.ipv4().get(&seen_of(key).key, now_ms);
        flow.map_or(0, |flow| {
            flow.packets(Direction::Up) + flow.packets(Direction::Down)
        })
    }))
}

impl Program {
    fn new(name: &'static str, flows: usize, burst: usize) -> Result<Self> {
        let clock = Arc::new(OwnTime::default());
        let table = table(flows, &clock)?;
        let (home, table_back) = channel();
        let lent: Box<dyn Stage> = Box::new(Lent {
            table: Some(table),
            home,
        });
        let line = Line::new("flow-table", vec![lent], DEPTH);
        let [near, far] = pair_of(2 * FED);
        let [far_out, back] = pair_of(2 * FED);
        let ports: Vec<Box<dyn PacketPort>> = vec![Box::new(far), Box::new(far_out)];
        Ok(Self {
            name,
            near,
            back,
            shard: Shard::new("flow-table", ports, line, burst, WhenFull::Hold),
            table: table_back,
            clock,
            fed: VecDeque::with_capacity(FED),
            came: Vec::with_capacity(FED),
        })
    }
}

impl Side for Program {
    fn name(&self) -> &'static str {
        self.name
    }

    fn lap(&mut self, frames: &mut VecDeque<Buf>) -> Result<Duration> {
        let mut busy = Duration::ZERO;
        for _ in 0..frames.len() / FED {
            self.fed.extend(frames.drain(..FED));
            self.fed.iter_mut().for_each(write);
            self.near.send(&mut self.fed)?;
            let shard = &mut self.shard;
            let (done, took) = self.clock.of(|| -> Result<()> {
                while shard.turn()? > 0 {}
                Ok(())
            });
            done?;
            busy += took;
            self.back.receive(&mut self.came, FED)?;
            let came = self.came.len();
            ensure!(came == FED, "{came} of {FED} packets came back");
            frames.extend(self.came.drain(..));
        }
        Ok(busy)
    }

    fn end(self: Box<Self>, packets: u64) -> Result<Counted> {
        let account = self.shard.account();
        account.check()?;
        let received = account.received.packets;
        ensure!(received == packets, "{received} of {packets} packets came");
        drop(self.shard);
        let table = self.table.recv().context("the table comes home")?;
        counted_by(table, &*self.clock, packets)
    }
}

impl Lent {
    fn table(&mut self) -> &mut FlowTable {
        self.table.as_mut().expect("here until it is dropped")
    }
}

impl Stage for Lent {
    fn name(&self) -> &str {
        "flow table"
    }

    fn offer(&mut self, ready: &mut VecDeque<Burst>) -> usize {
        self.table().offer(ready)
    }

    fn poll(&mut self, done: &mut Vec<Burst>) -> usize {
        self.table().poll(done)
    }

    fn in_flight(&self) -> usize {
        self.table.as_ref().map_or(0, FlowTable::in_flight)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(table) = self.table.take() {
            // Whoever does not ask has no receiver any more.
            let _ = self.home.send(table);
        }
    }
}

/// The program's stage without ports.
struct Alone {
    table: FlowTable,
    clock: Arc<OwnTime>,
    burst: usize,
    ready: VecDeque<Burst>,
    /// The one that the stage has.
    one: VecDeque<Burst>,
    done: Vec<Burst>,
}

impl Alone {
    fn new(flows: usize, burst: usize) -> Result<Self> {
        let clock = Arc::new(OwnTime::default());
        let bursts = FED / burst.min(FED);
        Ok(Self {
            table: table(flows, &clock)?,
            clock,
            burst,
            ready: VecDeque::with_capacity(bursts),
            one: VecDeque::with_capacity(1),
            done: (0..bursts).map(|_| Burst::with_capacity(burst)).collect(),
        })
    }
}

impl Side for Alone {
    fn name(&self) -> &'static str {
        "dpb-without-ports"
    }

    fn lap(&mut self, frames: &mut VecDeque<Buf>) -> Result<Duration> {
        let mut busy = Duration::ZERO;
        for _ in 0..frames.len() / FED {
            for mut burst in self.done.drain(..) {
                for mut frame in frames.drain(..self.burst) {
                    write(&mut frame);
                    burst.push(frame, Mark::of(0));
                }
                self.ready.push_back(burst);
            }
            let Self {
                table,
                ready,
                one,
                done,
                ..
            } = self;
            // As a line does: one burst after another.
            let ((), took) = self.clock.of(|| {
                while let Some(burst) = ready.pop_front() {
                    one.push_back(burst);
                    table.offer(one);
                    table.poll(done);
                }
            });
            busy += took;
            for burst in &mut self.done {
                frames.extend(burst.drain().map(|(frame, _)| frame));
            }
        }
        Ok(busy)
    }

    fn end(self: Box<Self>, packets: u64) -> Result<Counted> {
        counted_by(self.table, &*self.clock, packets)
    }
}

/// The work of a program on DPDK.
struct Dpdk {
    table: libraries::Flows,
    burst: u32,
    /// The number of the lap, in place of a clock.
    now: u32,
}

impl Dpdk {
    fn new(flows: usize, burst: usize) -> Result<Self, String> {
        let libraries = Libraries::load().map_err(|why| why.to_string())?;
        let table = libraries.flows(flows as u32, KEY_BYTES as u32);
        Ok(Self {
            table: table.map_err(|why| why.to_string())?,
            burst: burst as u32,
            now: 0,
        })
    }
}

impl Side for Dpdk {
    fn name(&self) -> &'static str {
        "dpdk"
    }

    fn lap(&mut self, frames: &mut VecDeque<Buf>) -> Result<Duration> {
        let mut busy = Duration::ZERO;
        self.now += 1;
        for part in frames.make_contiguous().chunks(FED) {
            let mut received = self.table.receive(part.iter().map(|frame| &frame[..]));
            let began = Instant::now();
            let without = received.work(self.burst, self.now);
            busy += began.elapsed();
            ensure!(without == 0, "{without} packets without a flow");
        }
        Ok(busy)
    }

    fn end(self: Box<Self>, _packets: u64) -> Result<Counted> {
        Ok(Box::new(move |key| self.table.packets(key)))
    }
}
