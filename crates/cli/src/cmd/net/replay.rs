//! `dpb net replay`: a capture, into a port.

use std::path::PathBuf;
use std::time::Duration;

use dpb_net::traffic::{DEPARTURES_NS, Rewrite, Traffic};
use dpb_net::trial::Sending;

use super::ports::{PORTS_HELP, PortName};
use super::sent::Outlet;
use super::traffic::{LOAD, ScheduleFlags, captured};
use crate::Globals;
use crate::args;
use crate::exit::Failure;

const CAPTURE: &str = "The capture";

#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub struct Args {
    /// The capture, pcap or pcapng
    #[arg(long, value_name = "FILE", help_heading = CAPTURE)]
    capture: PathBuf,
    /// Send the whole of it so many times
    #[arg(long, value_name = "COUNT", help_heading = CAPTURE, value_parser = args::count, default_value = "1")]
    loops: u64,
    /// Permute the last bits of addresses, in each loop in another way: flows stay whole, and are others each time
    #[arg(long, help_heading = CAPTURE)]
    rewrite: bool,
    /// Bits of IPv4 addresses that change (2 to 32)
    #[arg(long, value_name = "NUMBER", help_heading = CAPTURE, value_parser = clap::value_parser!(u32).range(2..=32), default_value = "16", requires = "rewrite")]
    ipv4_bits: u32,
    /// Bits of IPv6 addresses that change (2 to 63)
    #[arg(long, value_name = "NUMBER", help_heading = CAPTURE, value_parser = clap::value_parser!(u32).range(2..=63), default_value = "16", requires = "rewrite")]
    ipv6_bits: u32,
    /// Lengthen each packet by a stamp of 18 bytes behind its datagram
    #[arg(long, help_heading = CAPTURE)]
    stamps: bool,
    /// The port that packets are sent into
    #[arg(long, value_name = "PORT", help_heading = LOAD)]
    port: PortName,
    /// So many times as fast as it was captured
    #[arg(long, value_name = "REAL", help_heading = LOAD, value_parser = speed, default_value = "1", conflicts_with = "rate")]
    speed: f64,
    /// Offered a second, instead of the capture's own times; see --unit
    #[arg(long, value_name = "RATE", help_heading = LOAD, value_parser = args::rate)]
    rate: Option<f64>,
    #[command(flatten)]
    schedule: ScheduleFlags,
    /// For so long packets are due, at most
    #[arg(long, value_name = "TIME", help_heading = LOAD, value_parser = args::duration)]
    seconds: Option<Duration>,
    /// How late a packet may be offered. If more packets are later than are due in this time, the sender was late: exit 1
    #[arg(long, value_name = "TIME", help_heading = LOAD, value_parser = args::duration, default_value = "10us")]
    tolerance: Duration,
    /// Determines what is drawn: addresses, and the times of --schedule poisson
    #[arg(long, value_name = "NUMBER", help_heading = LOAD, default_value = "1")]
    seed: u64,
}

fn help() -> String {
    format!(
        "Packets are sent as they were captured, byte by byte, at the times at which they came, from the first on. Between two loops lies the mean gap. \
         Into a file they go with these dates, as fast as they can be written.\n\
         Exit 1 if the sender was late, or the port refused or lost packets.\n\
         Examples:\n  dpb net replay --capture in.pcap --port af-packet:eth0\n  \
         dpb net replay --capture in.pcapng --port af-packet:eth0 --speed 10 --loops 100 --rewrite\n  \
         dpb net replay --capture in.pcap --port af-packet:eth0 --rate 1G --unit wire-bits\n  \
         dpb net replay --capture in.pcap --port capture:,out.pcap --rewrite --ipv4-bits 8\n{PORTS_HELP}"
    )
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed > 0.0 && speed.is_finite() => Ok(speed),
        _ => Err(format!("`{text}` is not a number above 0")),
    }
}

/// Replays.
pub(super) fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let mut replay = captured(&args.capture, args.rewrite())?;
    if !args.stamps {
        replay = replay.without_stamps();
    }
    let packets = args.loops.saturating_mul(replay.len() as u64);
    let frames = (0..replay.len() as u64).map(|i| replay.frame_bytes(i));
    let bytes = frames.sum::<usize>() as f64 / replay.len() as f64;
    let mut plan = Sending {
        packets_per_s: replay.packets_per_s().unwrap_or(0.0) * args.speed,
        duration_ns: args
            .seconds
            .map_or(DEPARTURES_NS, |time| time.as_nanos() as u64),
        tolerance_ns: args.tolerance.as_nanos() as u64,
        seed: args.seed,
    };
    let Some(rate) = args.rate else {
        let departures = (0..packets).map(|i| replay.departure_ns(i, args.speed));
        return Outlet::open(&args.port)?.send(&replay, departures, &plan, globals);
    };
    let schedule = args.schedule.schedule(rate, bytes, args.seed);
    plan.packets_per_s = schedule.packets_per_s();
    let departures = schedule.departures();
    let departures = departures.map_err(|why| Failure::usage(format!("--rate {rate}: {why}")))?;
    let packets = usize::try_from(packets).unwrap_or(usize::MAX);
    Outlet::open(&args.port)?.send(&replay, departures.take(packets), &plan, globals)
}

impl Args {
    fn rewrite(&self) -> Rewrite {
        match self.rewrite {
            true => Rewrite::Addresses {
                seed: self.seed,
                v4_bits: self.ipv4_bits,
                v6_bits: self.ipv6_bits,
            },
            false => Rewrite::Nothing,
        }
    }
}
