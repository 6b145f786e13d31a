//! Open loops: trials of the program in software, and of the model.

use std::sync::{Arc, Mutex, PoisonError};

use dpb_core::measure::{Interference, Record};
use dpb_core::{Clock, PacketPort, VirtualClock, WallClock};
use dpb_net::pipeline::{self, Line, Make, Shard, WhenFull};
use dpb_net::port::{End, MultiQueue, pair_of};
use dpb_net::programs::flow_table::{Card, Counts, FlowTable, Totals};
use dpb_net::traffic::{Schedule, Traffic};
use dpb_net::trial::{LEAD_NS, Plan, Pool};

use super::{Args, Test};
use crate::cmd::net::bench::host;
use crate::cmd::net::end_to_end::{Lab, Load, Meter, Metered, Run, Runs};

/// Packets of a burst.
pub(super) const BURST: usize = 32;
/// Bursts in the program's hands.
pub(super) const DEPTH: usize = 4;
/// Flows that software behind hardware knows.
const SOFTWARE_FLOWS: u64 = 1 << 20;

/// Counters of shards, which these hand out when they are made.
type AllCounts = Arc<Mutex<Vec<Arc<Counts>>>>;

fn totals(counts: &AllCounts) -> Totals {
    let counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = Totals::default();
    counts.iter().for_each(|counts| all.add(&counts.read()));
    all
}

/// The program of a shard: what comes by one port leaves by the other.
pub(super) fn line(table: FlowTable) -> Line {
    let table = Box::new(table.forwarding(vec![1, 0]));
    Line::new("flow-table", vec![table], DEPTH)
}

/// Trials of the program.
///
/// # Errors
/// The reason why the test broke, as a sentence.
pub(super) fn software(
    args: &Args,
    test: &Test<'_>,
    load: Load,
    record: Record,
) -> Result<Record, String> {
    let clock: Arc<dyn Clock> = Arc::new(WallClock::default());
    let counts = AllCounts::default();
    let (mut near_in, mut near_out, mut meters) = (Vec::new(), Vec::new(), Vec::new());
    let mut loops: Vec<(String, Make)> = Vec::new();
    for shard in 0..test.threads {
        let [near, far] = pair_of(args.load.queue());
        let [far_out, near_back] = pair_of(args.load.queue());
        near_in.push(near);
        near_out.push(near_back);
        let meter = Arc::new(Meter::default());
        meters.push(Arc::clone(&meter));
        let (settings, clock, counts) = (
            args.settings(test.capacity),
            Arc::clone(&clock),
            Arc::clone(&counts),
        );
        let name = format!("flow-table {shard}");
        let make = move || {
            let table = FlowTable::new(&settings, Arc::clone(&clock));
            let table = table.map_err(|why| dpb_core::SetupError::Parameter(why.to_string()))?;
            let mut all = counts.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(table.counts());
            let ports: Vec<Box<dyn PacketPort>> = vec![Box::new(far), Box::new(far_out)];
            let shard = Shard::new("flow-table", ports, line(table), BURST, WhenFull::Hold);
            let metered = Metered::new(Box::new(shard), clock, meter);
            Ok(Box::new(metered) as Box<dyn pipeline::Work>)
        };
        loops.push((name, Box::new(make)));
    }
    let cores = args.cores(test);
    let system = host(
        loops,
        test.place,
        cores.get(1..).unwrap_or_default(),
        &clock,
    )?;
    let mut lab = Lab {
        clock: &*clock,
        from: spread(near_in),
        to: spread(near_out),
        system,
        plan: plan(args, test, load),
        pool: Pool::default(),
        core: cores.first().copied(),
    };
    // Before each trial, and behind the last one.
    let mut looks = Vec::new();
    let runs = lab.runs(&args.runs, load, &meters, |_, trial, _| {
        looks.push(totals(&counts));
        traffic(args, test, trial)
    })?;
    looks.push(totals(&counts));
    let Lab { system, .. } = lab;
    for account in system.stop().map_err(|error| error.to_string())? {
        account.check().map_err(|error| error.to_string())?;
    }
    // The shards have ended: what they had in their tables is counted, too.
    totals(&counts).check().map_err(|error| error.to_string())?;
    let (mut record, runs) = runs.fill(record, args.runs.repeat(), test.threads + 1);
    if runs.runs.is_empty() {
        return Ok(record);
    }
    let spent = |run: &Run| run.spent.iter().map(|spent| spent.busy_ns).sum::<u64>() as f64;
    let share = |run: &_| spent(run) / (1e9 * run.duration_s);
    record.sample("program_cpu_share", runs.runs.iter().map(share).collect());
    let each = |run: &Run| spent(run) / (run.outcome.balance.delivered.max(1)) as f64;
    record.sample(
        "program_ns_per_packet",
        runs.runs.iter().map(each).collect(),
    );
    let missed = |run: &Run| {
        let ran = looks[run.at + 1].since(&looks[run.at]);
        (ran.began + ran.full) as f64 / ran.packets.max(1) as f64
    };
    record.sample("missed_ratio", runs.runs.iter().map(missed).collect());
    // The trial that warmed up and invalid ones included.
    let ran = looks[looks.len() - 1].since(&looks[0]);
    let counts = [
        ("table_packets", ran.packets),
        ("flows_begun", ran.began),
        ("flows_ended", ran.ended),
        ("table_full", ran.full),
    ];
    let counts = counts.map(|(name, count)| (name.to_owned(), count));
    record.counts.extend(counts);
    Ok(record)
}

/// Trials of the model, in virtual time.
///
/// # Errors
/// The reason why the test broke, as a sentence.
pub(super) fn hardware(
    args: &Args,
    test: &Test<'_>,
    load: Load,
    record: Record,
) -> Result<Record, String> {
    let clock = Arc::new(VirtualClock::new(true));
    let [near, far] = pair_of(args.load.queue());
    let [far_out, near_back] = pair_of(args.load.queue());
    let settings = args.settings(SOFTWARE_FLOWS);
    let ports: [Box<dyn PacketPort>; 2] = [Box::new(far), Box::new(far_out)];
    let card = Card::new(
        args.model(test.capacity),
        &settings,
        Arc::clone(&clock),
        ports,
    );
    let card = card.map_err(|why| why.to_string())?;
    let mut record = record;
    record.evidence = card.evidence();
    let mut lab = Lab {
        clock: &*clock,
        from: Box::new(near),
        to: Box::new(near_back),
        system: card,
        plan: plan(args, test, load),
        pool: Pool::default(),
        core: None,
    };
    let schedule = Schedule::constant(load.packets_per_s());
    let departures = schedule.departures().map_err(|error| error.to_string())?;
    let mut stats = Vec::new();
    let runs = lab.runs(&args.runs, load, &[], |card, trial, duration_ns| {
        stats.push((card.stats(), card.software_stats()));
        card.expect(departures.clone(), clock.now_ns() + LEAD_NS, duration_ns);
        traffic(args, test, trial)
    })?;
    // No other work of this machine disturbs what is virtual.
    let runs = Runs {
        interference: Interference::default(),
        ..runs
    };
    let card = &lab.system;
    card.check()?;
    stats.push((card.stats(), card.software_stats()));
    let missed = runs.runs.iter().map(|run| {
        let (before, after) = (stats[run.at].0, stats[run.at + 1].0);
        let offered = after.offered - before.offered;
        (after.by_software - before.by_software) as f64 / offered.max(1) as f64
    });
    let missed: Vec<f64> = missed.collect();
    // Of the trials behind the one that warms up.
    let (first, last) = (stats[1], stats[stats.len() - 1]);
    let counts = [
        ("by_hardware", last.0.by_hardware - first.0.by_hardware),
        ("by_software", last.0.by_software - first.0.by_software),
        ("entries_made", last.0.made - first.0.made),
        ("entries_removed", last.0.removed - first.0.removed),
        (
            "entries_refused",
            last.0.refused_full + last.0.refused_busy - first.0.refused_full - first.0.refused_busy,
        ),
        ("flows_begun", last.1.began - first.1.began),
        ("flows_ended", last.1.ended - first.1.ended),
        ("table_full", card.full()),
    ];
    let (mut record, runs) = runs.fill(record, args.runs.repeat(), 1);
    if !runs.runs.is_empty() {
        record.sample("missed_ratio", missed);
        let counts = counts.map(|(name, count)| (name.to_owned(), count));
        record.counts.extend(counts);
    }
    Ok(record)
}

fn traffic(args: &Args, test: &Test<'_>, trial: u64) -> Result<Arc<dyn Traffic>, String> {
    Ok(Arc::new(args.generator(test.chosen, trial)?))
}

fn plan(args: &Args, test: &Test<'_>, load: Load) -> Plan {
    let schedule = Schedule::constant(load.packets_per_s());
    Plan {
        tolerance_ns: args.tolerance(test).as_nanos() as u64,
        ..Plan::new(schedule, 0, args.runs.seed)
    }
}

/// One port for the generator, whose packets go to shards by their flows.
pub(super) fn spread(ports: Vec<End>) -> Box<dyn PacketPort> {
    let ports = ports
        .into_iter()
        .map(|port| Box::new(port) as Box<dyn PacketPort>);
    Box::new(MultiQueue::new(ports.collect(), WhenFull::Hold))
}
