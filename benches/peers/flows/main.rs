//! dpb's flow table beside DPDK's rte_hash and hashbrown: the same packets in the same bursts, by turns in one process, on huge pages if the kernel gives them
//! (`GLIBC_TUNABLES=glibc.malloc.hugetlb=1` gives them to hashbrown). `definitions/flows.toml` says what is compared. Every side's counts are checked against the
//! packets that it was given; without `--bench` small tables are checked and nothing is timed.

mod sides;
mod traffic;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use sides::{Hashbrown, Ours, RteHash, Side};
use traffic::{Packets, Traffic, Work};

/// Rounds, in each of which every side has its turn.
const ROUNDS: usize = 9;
/// Packets of a turn.
const PACKETS: usize = 1 << 20;
/// The same where nothing is timed.
const SMALL: (usize, usize) = (2_000, 4_096);

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

fn main() -> Result<()> {
    let file: File = toml::from_str(include_str!("../definitions/flows.toml"))?;
    let is_timed = std::env::args().any(|argument| argument == "--bench");
    for bench in &file.bench {
        for &flows in &bench.flows {
            for &burst in &bench.bursts {
                let (flows, packets) = match is_timed {
                    true => (flows, PACKETS),
                    false => (flows.min(SMALL.0), SMALL.1),
                };
                compare(bench, flows, burst, packets, is_timed)
                    .with_context(|| format!("{:?}, {flows} flows, {burst} a burst", bench.work))?;
            }
        }
    }
    Ok(())
}

/// One line: every side, and dpb's speed as a multiple of each.
fn compare(
    bench: &Bench,
    flows: usize,
    burst: usize,
    packets: usize,
    is_timed: bool,
) -> Result<()> {
    let rounds = if is_timed { ROUNDS } else { 2 };
    let mut traffic = Traffic::new(flows, bench.work);
    let first = traffic.first();
    let mut sides: Vec<Box<dyn Side>> = vec![
        Box::new(Ours::new(flows)?),
        Box::new(Hashbrown::new(flows, true)),
        Box::new(Hashbrown::new(flows, false)),
    ];
    match RteHash::new(flows) {
        Ok(side) => sides.push(Box::new(side)),
        Err(why) => println!("rte_hash is left out: {why}"),
    }
    for side in &mut sides {
        side.begin(&first);
    }
    let mut seconds = vec![Vec::new(); sides.len()];
    // Of each burst of dpb's, for the longest ones.
    let mut bursts_ns = Vec::new();
    for round in 0..rounds {
        let turn: Vec<Packets> = traffic.bursts(packets, burst);
        for (nth, (side, seconds)) in sides.iter_mut().zip(&mut seconds).enumerate() {
            side.prepare(&turn);
            let start = Instant::now();
            for at in 0..turn.len() {
                let before = (nth == 0).then(Instant::now);
                side.burst(at, round as u32);
                bursts_ns.extend(before.map(|before| before.elapsed().as_nanos() as u64));
            }
            seconds.push(start.elapsed().as_secs_f64());
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
    if !is_timed {
        return Ok(());
    }
    let speed = |seconds: &mut Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        packets as f64 / seconds[seconds.len() / 2] / 1e6
    };
    let speeds: Vec<f64> = seconds.iter_mut().map(speed).collect();
    bursts_ns.sort_unstable();
    let quantile = |part: f64| bursts_ns[((bursts_ns.len() - 1) as f64 * part) as usize];
    print!(
        "{:?}, {flows} flows, {burst} a burst: dpb {:.1} M/s (a burst {} ns, 99.9 % {} ns)",
        bench.work,
        speeds[0],
        quantile(0.5),
        quantile(0.999)
    );
    for (side, speed) in sides.iter().zip(&speeds).skip(1) {
        let ratio = speeds[0] / speed;
        print!("; {} {speed:.1}: {ratio:.2}x", side.name());
        if let Some(goal) = bench.goals.get(side.name()) {
            print!(
                " (goal {goal}{})",
                if ratio < *goal { ", missed" } else { "" }
            );
        }
    }
    println!();
    Ok(())
}
