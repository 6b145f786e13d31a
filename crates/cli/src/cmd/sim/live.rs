//! `dpb sim live`: real hosts whose packets pass modelled cards and a modelled network as the wall clock goes.

mod hosts;
mod lockstep;
mod shown;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dpb_core::measure::{Durability, Outcome, Record};
use dpb_core::{Evidence, WallClock};
use dpb_sim::kernel::RunError;
use dpb_sim::system::{Live, System, WaysOut};

use super::source::{BACKEND, assemble_part, read};
use crate::args;
use crate::exit::Failure;
use crate::output;
use crate::{Globals, interrupt};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A real host is a table of the file: [[real]], a name, and a port. Its card is modelled, as any host's:\n  \
                  tap = \"tap0\"                  an interface that is made for Linux (CAP_NET_ADMIN)\n  \
                  namespace = \"NAME\"            the network namespace in which it is made: a name of `ip netns`, or a file as /proc/PID/ns/net\n  \
                  stream = \"/run/guest\"         a Unix socket for a guest of QEMU: -netdev stream,id=n,server=off,addr.type=unix,addr.path=/run/guest\n\
                  Operators compute over the real packets: a digest is put behind a frame in one card and taken off in the other, so that hosts keep their MTU of 1500.\n\
                  Each packet is held for its modelled time. Releases are later than that by what the machine needs: the record has the lateness, and a modelled delay that \
                  is shorter than it cannot be seen from outside. So figures are `emulated`; `dpb sim run` shows what is smaller.\n\
                  Virtual time, with unmodified guests: lockstep_us = 100 beside stream makes a guest of QEMU run for so many microseconds at a time, an instruction a nanosecond, and \
                  its packets cross at the ends of these quanta. Two runs are then the same, packet by packet. `dpb sim plugin` has QEMU's plugin for that; the flags of QEMU are \
                  said when the run begins.\n\
                  Example, with two namespaces a and b in a user namespace of one's own:\n  \
                  dpb sim live crates/sim/systems/live.toml --seconds 30"
)]
pub(super) struct Args {
    /// The system: a file with real hosts; crates/sim/systems/live.toml is one
    #[arg(value_name = "FILE")]
    system: String,
    /// Run for so long at most [default: until an interrupt, or until all guests on virtual time have ended]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    /// The seed: faults of links depend on it, and on the order in which packets come
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The backend that computes digests
    #[arg(long, value_name = "NAME", default_value = BACKEND)]
    backend: String,
    /// Append the record to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The time between two looks at whether the run is to end, in picoseconds.
const STEP_PS: u64 = 20_000_000_000;

/// Runs the system.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    interrupt::flag();
    let description = read(&args.system, &[])?;
    if description.real.is_empty() {
        return Err(Failure::usage(format!(
            "{}: no host is real ([[real]]); `dpb sim run` runs systems that are modelled whole",
            args.system
        )));
    }
    let assemble = |ways| {
        let (system, backend) = (&args.system, &args.backend);
        assemble_part(&description, system, backend, args.seed, 1, ways, globals)
    };
    // What is wrong with the file is said before a port is made.
    assemble(WaysOut::default())?;
    let mut store = match &args.out {
        Some(out) => Some(output::open_records(out, Durability::Machine)?),
        None => None,
    };
    if description
        .real
        .iter()
        .any(|host| host.lockstep_us.is_some())
    {
        return lockstep::run(args, &description, store, globals);
    }
    let ports = hosts::open(&description.real)?;
    let live = Live::new(Arc::new(WallClock::default()), ports);
    let mut ways = WaysOut::default();
    for (number, real) in description.real.iter().enumerate() {
        let way = Box::new(live.end(number));
        ways.real.insert(real.name.clone(), way);
    }
    let mut system = assemble(ways)?;
    output::note(&format!(
        "running with {} real host(s); Ctrl-C ends it",
        description.real.len()
    ));
    let ended = until_end(&mut system, &live, args.seconds);
    let by = format!(
        "the system {} on the wall clock, with real hosts",
        args.system
    );
    let mut record = Record::new("sim live", Evidence::Emulated { by }, args.seed)
        .with("system", args.system.as_str())
        .with("backend", args.backend.as_str());
    shown::fill(&mut record, &system, &live);
    if let Err(error) = &ended {
        let reason = error.to_string();
        record = record.without_numbers(Outcome::Failed { reason });
    }
    if let Some(store) = &mut store {
        store
            .append(&record)
            .map_err(|why| output::unwritable(&why))?;
    }
    shown::print(globals.format(), &record, &system, &live)?;
    match ended {
        Err(error) => Err(Failure::check(error.to_string())),
        // Without a time the interrupt is the end that was asked for.
        Ok(()) if interrupt::is_set() && args.seconds.is_some() => {
            Err(Failure::interrupted("interrupted before the end"))
        }
        Ok(()) => Ok(()),
    }
}

/// Runs until the time is over, or an interrupt.
fn until_end(system: &mut System, live: &Live, seconds: Option<Duration>) -> Result<(), RunError> {
    let end_ps = seconds.map_or(u64::MAX, |it| it.as_nanos() as u64 * 1000);
    let mut now_ps = 0;
    while now_ps < end_ps && !interrupt::is_set() {
        now_ps = now_ps.saturating_add(STEP_PS).min(end_ps);
        system.run_until(now_ps)?;
        // A run that cannot keep up ends with the clock's time, not with its own.
        if live.elapsed_ps() >= end_ps {
            break;
        }
    }
    Ok(())
}
