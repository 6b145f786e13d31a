//! `dpb sim join`: the parts of a system that this process has, joined to simulators in other processes.

mod links;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use dpb_core::measure::{Check, Durability, Outcome, Record};
use dpb_core::{Evidence, WallClock};
use dpb_sim::kernel::RunError;
use dpb_sim::system::{CutLink, Description, Gate, GateWatch, System, WaysOut};

use super::samples::Samples;
use super::source::{BACKEND, assemble_part, model, read};
use super::tables;
use crate::args::{self, List};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};
use crate::{Globals, interrupt};
use links::{Joint, LinkFlags};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A file describes the whole system, and each process has some of its parts. A link between a part that is here and one that is not is joined to a socket: \
                  one of the two processes listens, the other connects. The peer is another `dpb sim join`, or any simulator that speaks SimBricks' protocol for Ethernet, version 1.\n\
                  Synchronised processes do what one process does, to the picosecond: the same file and seed give the same counts. The latency of a link is its file's; each \
                  side adds its own to what it sends.\n\
                  A process whose hosts have all finished stays for --linger, then says TERMINATE and ends; one without hosts stays until all its peers have ended. \
                  --end silent leaves the word out and closes the sockets: SimBricks' own switch, wire and packet generator abort when they receive it. They do not notice \
                  the end either, and run on until they are ended; a peer of dpb's would fail, if it needed more of this side.\n\
                  Sources of datagrams are for systems in one process alone.\n\
                  Exit 1: a peer ended without a word, was silent, or broke the protocol. Exit 3: nobody came.\n\
                  Example, in two terminals:\n  \
                  dpb sim join card --here server --listen /tmp/link\n  \
                  dpb sim join card --here 'switch,client 0,client 1' --connect /tmp/link\n\
                  With several links, each is named: --listen 'client 0-switch=/tmp/a' --listen 'client 1-switch=/tmp/b'"
)]
pub(super) struct Args {
    /// The system, the same for all processes: a file, or the name of one that comes with dpb
    #[arg(value_name = "NAME")]
    system: String,
    /// The parts that this process has: hosts and switches
    #[arg(long, value_name = "NAMES", value_parser = args::words)]
    here: List<String>,
    #[command(flatten)]
    links: LinkFlags,
    /// Stay so long, in the system's time, once all applications here have finished [default: 5ms; 1s if links have faults, as lost frames are sent again]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    linger: Option<Duration>,
    /// The last word to peers, once this side has ended as it should: TERMINATE of the protocol, or none
    #[arg(long, value_name = "WORD", value_enum, default_value_t = End::Terminate)]
    end: End,
    /// The seed: faults of links depend on it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Threads of the simulation; they change its duration alone
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: u64,
    /// The backend that computes digests
    #[arg(long, value_name = "NAME", default_value = BACKEND)]
    backend: String,
    /// Append the record to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The last word to peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum End {
    /// Say TERMINATE: peers go on alone
    Terminate,
    /// Say nothing, as some simulators abort when they receive it
    Silent,
}

/// The usual time of staying.
const LINGER: Duration = Duration::from_millis(5);
/// The same where frames may be lost: TCP's first timeout, and a few more of the shortest.
const LINGER_WITH_FAULTS: Duration = Duration::from_secs(1);

/// Runs the parts.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let description = read(&args.system, &[])?;
    let (here, cut) = args.parts(&description)?;
    let joints = args.links.joints(&cut)?;
    let mut store = match &args.out {
        Some(out) => Some(output::open_records(out, Durability::Machine)?),
        None => None,
    };
    // What is wrong with the file is said before anybody waits.
    let lonely = WaysOut {
        here: Some(here.clone()),
        ..WaysOut::default()
    };
    args.assemble(&description, lonely, globals)?;
    let (ways, watches) = args.open(&description, here, joints)?;
    let mut system = args.assemble(&description, ways, globals)?;
    let linger = args.linger.unwrap_or(match description.has_faults() {
        true => LINGER_WITH_FAULTS,
        false => LINGER,
    });
    let linger_ps = linger.as_nanos() as u64 * 1000;
    let watched: Vec<GateWatch> = watches.iter().map(|(_, watch)| watch.clone()).collect();
    let ended = system.run_beside(&watched, linger_ps);
    let finished = ended.map_err(|why| failure(&why))?;
    if args.end == End::Terminate {
        watched.iter().for_each(GateWatch::farewell);
    }
    let (record, samples) = args.record(&description, &system, &watches, finished)?;
    if let Some(store) = &mut store {
        store
            .append(&record)
            .map_err(|why| output::unwritable(&why))?;
    }
    match globals.format() {
        Format::Json => output::print_json(&record)?,
        format => {
            tables::print(format, &samples)?;
            print_links(format, &watches)?;
            if let Some(said) = tables::completion(&record) {
                output::print(&said)?;
            }
        }
    }
    match record.outcome {
        Outcome::Failed { reason } => Err(Failure::check(reason)),
        _ => Ok(()),
    }
}

fn failure(error: &RunError) -> Failure {
    match interrupt::is_set() {
        true => Failure::interrupted("interrupted before the end of the run"),
        false => Failure::check(error.to_string()),
    }
}

impl Args {
    /// The parts that are here, and the links that lead to others.
    fn parts(
        &self,
        description: &Description,
    ) -> Result<(BTreeSet<String>, Vec<CutLink>), Failure> {
        let system = &self.system;
        let wrong = |why: &dyn std::fmt::Display| Failure::usage(format!("{system}: {why}"));
        if let Some(real) = description.real.first() {
            let why = format!(
                "`{}` is a real host; `dpb sim live` runs such systems",
                real.name
            );
            return Err(wrong(&why));
        }
        let here: BTreeSet<String> = self.here.0.iter().cloned().collect();
        let cut = description.cut_links(&here).map_err(|why| wrong(&why))?;
        if cut.is_empty() {
            let why = "no link leads from the parts of --here to others, so there is nobody to join; `dpb sim run` runs a whole system";
            return Err(wrong(&why));
        }
        Ok((here, cut))
    }

    fn assemble(
        &self,
        description: &Description,
        ways: WaysOut,
        globals: &Globals,
    ) -> Result<System, Failure> {
        assemble_part(
            description,
            &self.system,
            &self.backend,
            self.seed,
            self.threads,
            ways,
            globals,
        )
    }

    /// The ways out, agreed with all peers, and what is seen of them.
    fn open(
        &self,
        description: &Description,
        here: BTreeSet<String>,
        joints: Vec<Joint>,
    ) -> Result<(WaysOut, Vec<(CutLink, GateWatch)>), Failure> {
        let mut ways = WaysOut {
            here: Some(here),
            ..WaysOut::default()
        };
        let clock = Arc::new(WallClock::default());
        let mut watches = Vec::new();
        for (joint, endpoint) in self.links.open(description.frame_bytes_max(), joints)? {
            let gate = match endpoint.is_synchronised() {
                true => Gate::synchronised(endpoint),
                false => Gate::paced(endpoint, clock.clone()),
            };
            let gate = gate.map_err(|why| Failure::check(format!("{}: {why}", joint.link)))?;
            let gate = gate.with_patience(clock.clone(), self.links.patience, interrupt::is_set);
            watches.push((joint.link.clone(), gate.watch()));
            ways.links.insert(joint.link.number, Box::new(gate));
        }
        Ok((ways, watches))
    }

    /// The record, and the figures that tables have.
    fn record(
        &self,
        description: &Description,
        system: &System,
        watches: &[(CutLink, GateWatch)],
        finished: bool,
    ) -> Result<(Record, Samples), Failure> {
        let name = &self.system;
        let model = model(&format!("parts of the system {name}"), description);
        let evidence = match self.links.unsynchronised {
            false => Evidence::Simulated { model },
            true => Evidence::Emulated {
                by: format!("{model}, whose time follows the clock"),
            },
        };
        let mut record = Record::new("sim join", evidence, self.seed)
            .with("system", name.as_str())
            .with("here", self.here.0.join(","))
            .with("threads", self.threads)
            .with("backend", self.backend.as_str());
        let mut samples = Samples::default();
        if let Err(wrong) = samples.add(system, &mut record)
            && !description.link.iter().any(|link| link.flip.is_some())
        {
            return Err(Failure::check(wrong));
        }
        for (link, watch) in watches {
            let usage = watch.usage();
            for (name, count) in [
                ("frames out", usage.sent),
                ("frames in", usage.received),
                ("dropped, too long for a slot", usage.too_long),
                ("dropped, after the peer's end", usage.after_end),
                ("dropped, no frame", usage.too_short),
            ] {
                record.counts.insert(format!("{link}: {name}"), count);
            }
        }
        samples.keep(&mut record);
        record.check = Some(Check {
            against: "each payload byte, by the function of seed and offset that its sender had"
                .to_owned(),
            compared: record.counts.get("payload_frames").copied().unwrap_or(0),
            digest: None,
        });
        if !finished {
            let reason = format!(
                "after {} seconds of the system's time (limit_s) {}",
                description.limit_s,
                match system.hosts().next() {
                    Some(_) => "not all applications here have finished",
                    None => "not all peers have ended",
                }
            );
            record = record.without_numbers(Outcome::Failed { reason });
        }
        Ok((record, samples))
    }
}

/// Prints what went over the links to other processes.
fn print_links(format: Format, watches: &[(CutLink, GateWatch)]) -> Result<(), Failure> {
    let mut table = Table::new([
        Column::left("link to another process"),
        Column::right("frames out"),
        Column::right("frames in"),
        Column::right("dropped"),
    ]);
    for (link, watch) in watches {
        let usage = watch.usage();
        let dropped = usage.too_long + usage.after_end + usage.too_short;
        let counts = [usage.sent, usage.received, dropped].map(|it| it.to_string());
        table.row([link.to_string()].into_iter().chain(counts));
    }
    output::print(&(table.to(format) + "\n"))
}
