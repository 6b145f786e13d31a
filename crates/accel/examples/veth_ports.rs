//! The ports of `dpb-net` beside DPDK's driver for raw sockets, on pairs of virtual interfaces, in turns, on one core:
//!
//! ```text
//! cargo build --release -p dpb-accel --example veth_ports
//! sudo unshare --net taskset -c 1 target/release/examples/veth_ports
//! ```
//!
//! One thread sends bursts into one interface and takes them out of the other. It keeps as many packets under way as fill a block of a ring: with fewer the
//! time-out of blocks would be measured. Packets a second that arrived, in millions: medians and the best of the rounds, and the ratio to DPDK's.

use std::collections::VecDeque;
use std::process::Command;
use std::time::{Duration, Instant};

use dpb_accel::dpdk::Dpdk;
use dpb_core::{Buf, PacketPort};
use dpb_net::port::af_xdp::{self, Attachment};
use dpb_net::port::{AfPacket, AfXdp, pair};

/// The number of turns that each has.
const ROUNDS: usize = 11;
/// The time that a turn lasts.
const TURN: Duration = Duration::from_millis(400);
/// Packets of a burst.
const BURST: usize = 32;
/// Packets that are under way at most.
const WINDOW: usize = 1024;

type Failure = Box<dyn std::error::Error>;
type Side = (&'static str, [Box<dyn PacketPort>; 2]);

fn main() -> Result<(), Failure> {
    for bytes in [60, 1514] {
        println!(
            "{bytes} bytes{:32} {:>8} {:>8} {:>6} {:>9}",
            "", "median", "best", "ratio", "lost"
        );
        let mut sides = sides()?;
        let mut rates = vec![Vec::new(); sides.len()];
        let mut lost = vec![0; sides.len()];
        for _ in 0..ROUNDS {
            for (i, (_, [from, to])) in sides.iter_mut().enumerate() {
                let (rate, missing) = turn(&mut **from, &mut **to, bytes)?;
                rates[i].push(rate);
                lost[i] += missing;
            }
        }
        let medians: Vec<f64> = rates
            .iter_mut()
            .map(|rates| {
                rates.sort_by(f64::total_cmp);
                rates[rates.len() / 2]
            })
            .collect();
        let peer = sides.iter().position(|(name, _)| name.starts_with("DPDK"));
        for (i, (name, _)) in sides.iter().enumerate() {
            let ratio = peer.map_or("-".to_owned(), |peer| {
                format!("{:.2}", medians[i] / medians[peer])
            });
            let best = rates[i].last().copied().unwrap_or_default();
            println!(
                "{name:40} {:8.3} {best:8.3} {ratio:>6} {:>9}",
                medians[i], lost[i]
            );
        }
    }
    Ok(())
}

/// Opens a port on the interface of this name.
type Open<'a> = dyn Fn(&str) -> Result<Box<dyn PacketPort>, Failure> + 'a;

/// What there is here: each on a pair of interfaces of its own.
fn sides() -> Result<Vec<Side>, Failure> {
    let mut sides: Vec<Side> = vec![("memory", pair().map(|end| Box::new(end) as _))];
    let mut add = |name, number, open: &Open<'_>| {
        let ends = link(number)?;
        match (open(&ends[0]), open(&ends[1])) {
            (Ok(one), Ok(two)) => sides.push((name, [one, two])),
            (Err(why), _) | (_, Err(why)) => println!("skipped: {name}: {why}"),
        }
        Ok::<(), Failure>(())
    };
    add("DPDK net_af_packet", 0, &|interface| {
        let number = u8::from(interface.starts_with("right"));
        Ok(Dpdk.port(&format!(
            "net_af_packet{number},iface={interface},qdisc_bypass=1"
        ))?)
    })?;
    add("AF_PACKET", 1, &|interface| {
        Ok(Box::new(AfPacket::open(interface)?))
    })?;
    for (name, number, attachment) in [
        ("AF_XDP, in the driver", 2, Attachment::Driver),
        ("AF_XDP, generic", 3, Attachment::Generic),
    ] {
        add(name, number, &|interface| {
            let options = af_xdp::Options {
                frames: 4096,
                attachment,
                ..af_xdp::Options::default()
            };
            Ok(Box::new(AfXdp::open_with(interface, &options)?))
        })?;
    }
    Ok(sides)
}

/// A pair of interfaces of this number, made once.
fn link(number: usize) -> Result<[String; 2], Failure> {
    let ends = ["left", "right"].map(|end| format!("{end}{number}"));
    let [left, right] = &ends;
    if std::fs::read_to_string("/proc/net/dev")?.contains(left) {
        return Ok(ends);
    }
    ip(&format!("link add {left} type veth peer name {right}"))?;
    for end in &ends {
        ip(&format!("link set {end} addrgenmode none"))?;
        ip(&format!("link set {end} up"))?;
    }
    Ok(ends)
}

fn ip(words: &str) -> Result<(), Failure> {
    let status = Command::new("ip").args(words.split(' ')).status()?;
    status
        .success()
        .then_some(())
        .ok_or_else(|| format!("ip {words}: {status}").into())
}

/// Millions of packets a second that arrived, and packets that did not.
fn turn(
    from: &mut dyn PacketPort,
    to: &mut dyn PacketPort,
    bytes: usize,
) -> Result<(f64, u64), Failure> {
    let (mut ready, mut came) = (VecDeque::new(), Vec::with_capacity(BURST));
    let (mut sent, mut arrived, mut under_way) = (0_u64, 0_u64, 0);
    let start = Instant::now();
    let mut last = start;
    while start.elapsed() < TURN {
        // What is lost does not come.
        if last.elapsed() > Duration::from_millis(5) {
            under_way = 0;
        }
        if under_way < WINDOW {
            while ready.len() < BURST {
                ready.push_back(frame(from, bytes)?);
            }
            let taken = from.send(&mut ready)?;
            sent += taken as u64;
            under_way += taken;
        }
        let count = to.receive(&mut came, BURST)?;
        came.clear();
        arrived += count as u64;
        under_way = under_way.saturating_sub(count);
        if count > 0 {
            last = Instant::now();
        }
    }
    let rate = arrived as f64 / start.elapsed().as_secs_f64() / 1e6;
    // What is under way still.
    let patience = Instant::now();
    while arrived < sent && patience.elapsed() < Duration::from_millis(20) {
        arrived += to.receive(&mut came, BURST)? as u64;
        came.clear();
    }
    Ok((rate, sent.saturating_sub(arrived)))
}

fn frame(port: &mut dyn PacketPort, bytes: usize) -> Result<Buf, Failure> {
    let mut frame = port.alloc(bytes)?;
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5]);
    Ok(frame)
}
