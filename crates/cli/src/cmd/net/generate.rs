//! `dpb net generate`: traffic at a rate, into a port.

use std::time::Duration;

use dpb_net::traffic::DEPARTURES_NS;
use dpb_net::trial::Sending;

use super::ports::{PORTS_HELP, PortName};
use super::sent::Outlet;
use super::traffic::{LOAD, ScheduleFlags, TrafficFlags, frame_bytes_mean};
use crate::Globals;
use crate::args;
use crate::exit::Failure;

#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub struct Args {
    /// The port that packets are sent into
    #[arg(long, value_name = "PORT", help_heading = LOAD)]
    port: PortName,
    /// Offered a second; see --unit
    #[arg(long, value_name = "RATE", help_heading = LOAD, value_parser = args::rate, default_value = "10k")]
    rate: f64,
    #[command(flatten)]
    schedule: ScheduleFlags,
    /// For so long packets are due [default: 1 s, if there are no --packets]
    #[arg(long, value_name = "TIME", help_heading = LOAD, value_parser = args::duration)]
    seconds: Option<Duration>,
    /// So many packets at most
    #[arg(long, value_name = "COUNT", help_heading = LOAD, value_parser = args::count)]
    packets: Option<u64>,
    /// How late a packet may be offered. If more packets are later than are due in this time, the generator was late: exit 1
    #[arg(long, value_name = "TIME", help_heading = LOAD, value_parser = args::duration, default_value = "10us")]
    tolerance: Duration,
    #[command(flatten)]
    traffic: TrafficFlags,
    /// Determines all that is drawn
    #[arg(long, value_name = "NUMBER", help_heading = LOAD, default_value = "1")]
    seed: u64,
}

fn help() -> String {
    format!(
        "Packets are due when the schedule says, whatever became of those before. Into a file they go with these dates, as fast as they can be \
         written. Each ends with a stamp of 18 bytes, by which `dpb net trial` knows its own.\n\
         Exit 1 if the generator was late, or the port refused or lost packets.\n\
         Examples:\n  dpb net generate --port af-packet:eth0 --rate 100k --seconds 10\n  \
         dpb net generate --port af-packet:eth0 --rate 1G --unit wire-bits --size imix-csit --schedule poisson\n  \
         dpb net generate --port capture:,out.pcap --packets 1000 --size 512 --flows 10 --application today\n{PORTS_HELP}"
    )
}

/// Generates.
pub(super) fn run(args: Args, globals: &Globals) -> Result<(), Failure> {
    let generator = args.traffic.generator(args.seed, args.traffic.one()?)?;
    let bytes = frame_bytes_mean(&generator);
    let schedule = args.schedule.schedule(args.rate, bytes, args.seed);
    let departures = schedule.departures();
    let departures =
        departures.map_err(|why| Failure::usage(format!("--rate {}: {why}", args.rate)))?;
    let duration = match (args.seconds, args.packets) {
        (None, None) => Some(Duration::from_secs(1)),
        (seconds, _) => seconds,
    };
    let plan = Sending {
        packets_per_s: schedule.packets_per_s(),
        duration_ns: duration.map_or(DEPARTURES_NS, |time| time.as_nanos() as u64),
        tolerance_ns: args.tolerance.as_nanos() as u64,
        seed: args.seed,
    };
    let packets = args.packets.map_or(usize::MAX, |packets| packets as usize);
    let outlet = Outlet::open(&args.port)?;
    outlet.send(&generator, departures.take(packets), &plan, globals)
}
