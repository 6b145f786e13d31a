//! dpb's flow table beside DPDK's rte_hash and hashbrown, and its program of a flow table beside what one on DPDK does: the same packets in the same bursts, by turns
//! in one process, on huge pages if the kernel gives them (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1` gives them to hashbrown). `definitions/flows.toml` says what is
//! compared. Every side's counts are checked against the packets that it was given; without `--bench` small tables are checked and nothing is timed. An argument
//! that is the name of a work has that work alone done.

mod program;
mod sides;
mod traffic;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use dpb_core::measure::Ratio;
use serde::Deserialize;

use sides::{Hashbrown, Ours, RteHash, Side, TwoLines};
use traffic::{Packets, Traffic, Work};

/// Rounds, in each of which every side has its turn; their order goes round.
const ROUNDS: usize = 11;
/// Packets of a turn.
const PACKETS: usize = 1 << 20;
/// The same where nothing is timed.
const SMALL: (usize, usize) = (2_000, 4_096);
/// dpb's side, and the same once more: the control.
const NAMES: [&str; 2] = ["dpb", "dpb-again"];
/// The probability that any control of a run misses 1 by chance alone.
const MISS: f64 = 0.05;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    bench: Vec<Bench>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bench {
    work: Work,
    flows: Vec<usize>,
    bursts: Vec<usize>,
    goals: BTreeMap<String, f64>,
}

/// One line's comparison.
struct Row<'a> {
    work: Work,
    flows: usize,
    burst: usize,
    goals: &'a BTreeMap<String, f64>,
}

/// The turns of a side.
struct Turns {
    name: &'static str,
    seconds: Vec<f64>,
    /// The time of each burst, where bursts are timed one by one.
    bursts_ns: Vec<u64>,
}

impl Turns {
    fn of(name: &'static str) -> Self {
        Self {
            name,
            seconds: Vec::new(),
            bursts_ns: Vec::new(),
        }
    }
}

fn main() -> Result<()> {
    let file: File = toml::from_str(include_str!("../definitions/flows.toml"))?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_timed = arguments.iter().any(|argument| argument == "--bench");
    let only: Vec<&str> = (arguments.iter().map(String::as_str))
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let rows = file.rows(&only);
    let names: Vec<&str> = file.bench.iter().map(|bench| bench.work.name()).collect();
    ensure!(
        !rows.is_empty(),
        "no work is called {}; there are: {}",
        only.join(" or "),
        names.join(", ")
    );
    let miss = MISS / rows.len() as f64;
    let mut wrong = Vec::new();
    for row in rows {
        let line = row.name();
        let (packets, turns) = match row.work {
            Work::Program => program::compare(&row, is_timed),
            _ => compare(&row, is_timed),
        }
        .with_context(|| line.clone())?;
        if is_timed {
            row.print(packets, &turns);
            if !is_one(&turns, miss) {
                wrong.push(line);
            }
        }
    }
    ensure!(
        wrong.is_empty(),
        "the bench is wrong here, and nothing of this run counts: dpb's side beside itself is not 1 for {}",
        wrong.join("; ")
    );
    Ok(())
}

impl File {
    /// The rows of these works; all if none is named.
    fn rows(&self, only: &[&str]) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        let is_asked = |bench: &&Bench| only.is_empty() || only.contains(&bench.work.name());
        for bench in self.bench.iter().filter(is_asked) {
            for &flows in &bench.flows {
                rows.extend(bench.bursts.iter().map(|&burst| Row {
                    work: bench.work,
                    flows,
                    burst,
                    goals: &bench.goals,
                }));
            }
        }
        rows
    }
}

impl Row<'_> {
    fn name(&self) -> String {
        let Self {
            work, flows, burst, ..
        } = self;
        format!("{}, {flows} flows, {burst} a burst", work.name())
    }

    /// Rounds, flows, and packets of a turn, which are fewer where nothing is timed.
    fn extent(&self, is_timed: bool) -> (usize, usize, usize) {
        match is_timed {
            true => (ROUNDS, self.flows, PACKETS),
            false => (2, self.flows.min(SMALL.0), SMALL.1),
        }
    }

    /// One line: every side's speed, and dpb's as a multiple of it.
    fn print(&self, packets: usize, turns: &[Turns]) {
        let speed = |turns: &Turns| {
            let mut seconds = turns.seconds.clone();
            seconds.sort_by(f64::total_cmp);
            packets as f64 / seconds[seconds.len() / 2] / 1e6
        };
        let mut bursts_ns = turns[0].bursts_ns.clone();
        bursts_ns.sort_unstable();
        print!("{}: dpb {:.1} M/s", self.name(), speed(&turns[0]));
        if let Some(last) = bursts_ns.len().checked_sub(1) {
            let quantile = |part: f64| bursts_ns[(last as f64 * part) as usize];
            print!(
                " (a burst {} ns, 99.9 % {} ns)",
                quantile(0.5),
                quantile(0.999)
            );
        }
        for peer in &turns[1..] {
            print!("; {} {:.1}", peer.name, speed(peer));
            let Some(ratio) = Ratio::of(&peer.seconds, &turns[0].seconds) else {
                continue;
            };
            print!(": {:.2}x", ratio.median);
            if let Some((low, high)) = ratio.ci95 {
                print!(" [{low:.2}, {high:.2}]");
            }
            if let Some(goal) = self.goals.get(peer.name) {
                let verdict = if ratio.median < *goal { ", missed" } else { "" };
                print!(" (goal {goal}{verdict})");
            }
        }
        println!();
    }
}

/// True if the interval of dpb's side beside itself has 1 in it, where it misses 1 by chance as often as `miss`.
fn is_one(turns: &[Turns], miss: f64) -> bool {
    let [first, again, ..] = turns else {
        return false;
    };
    let interval = Ratio::interval(&again.seconds, &first.seconds, miss);
    interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high)
}

/// Packets of a turn, and the turns of every table, dpb's first.
fn compare(row: &Row<'_>, is_timed: bool) -> Result<(usize, Vec<Turns>)> {
    let (rounds, flows, packets) = row.extent(is_timed);
    let mut traffic = Traffic::new(flows, row.work);
    let first = traffic.first();
    let [dpb, again] = NAMES;
    let mut sides: Vec<Box<dyn Side>> = vec![
        Box::new(Ours::new(dpb, flows)?),
        Box::new(Ours::new(again, flows)?),
        Box::new(Hashbrown::new(flows, true)),
        Box::new(Hashbrown::new(flows, false)),
    ];
    if row.work == Work::Count {
        let bound = TwoLines::new(flows).context("no memory for a bound")?;
        sides.push(Box::new(bound));
    }
    match RteHash::new(flows) {
        Ok(side) => sides.push(Box::new(side)),
        Err(why) => println!("rte_hash is left out: {why}"),
    }
    for side in &mut sides {
        side.begin(&first);
    }
    let mut turns: Vec<Turns> = sides.iter().map(|side| Turns::of(side.name())).collect();
    for round in 0..rounds {
        let bursts: Vec<Packets> = traffic.bursts(packets, row.burst);
        for nth in 0..sides.len() {
            let nth = (nth + round) % sides.len();
            let (side, turns) = (&mut sides[nth], &mut turns[nth]);
            side.prepare(&bursts);
            turns.bursts_ns.reserve(bursts.len());
            let before = turns.bursts_ns.len();
            for at in 0..bursts.len() {
                side.ready(at);
                let start = Instant::now();
                side.burst(round as u32);
                turns.bursts_ns.push(start.elapsed().as_nanos() as u64);
            }
            let took_ns: u64 = turns.bursts_ns[before..].iter().sum();
            turns.seconds.push(took_ns as f64 / 1e9);
        }
        let right = traffic.counted();
        for side in &sides {
            for (key, packets) in right.iter().step_by(right.len().div_ceil(500)) {
                let counted = side.packets(key);
                ensure!(
                    counted == *packets,
                    "{} has {counted} packets of a flow that had {packets}",
                    side.name()
                );
            }
        }
    }
    Ok((packets, turns))
}
