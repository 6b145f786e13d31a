//! Guests of QEMU on virtual time, in step with the system.

use std::sync::Arc;

use dpb_core::Evidence;
use dpb_core::measure::{Check, Outcome, Record, Store};
use dpb_sim::kernel::RunError;
use dpb_sim::system::{Description, GuestUsage, Lockstep, System, WaysOut};

use super::super::source::assemble_part;
use super::{Args, hosts, shown};
use crate::exit::Failure;
use crate::output::{self, Column, Format, Table};
use crate::{Globals, interrupt};

/// The time between two looks at whether the run is to end, in picoseconds of the system.
const STEP_PS: u64 = 1_000_000_000;

/// Runs the system until all guests have ended, the time is over, or an interrupt.
pub(super) fn run(
    args: &Args,
    description: &Description,
    mut store: Option<Store>,
    globals: &Globals,
) -> Result<(), Failure> {
    check(args, description)?;
    let awaited = hosts::await_guests(&description.real)?;
    for (host, guest) in description.real.iter().zip(&awaited) {
        output::note(&format!(
            "guest `{}`: qemu-system-x86_64 {}",
            host.name,
            guest.flags()
        ));
    }
    let guests: Result<Vec<_>, Failure> = awaited.into_iter().map(|it| it.accept()).collect();
    let lockstep = Lockstep::new(guests?, interrupt::is_set);
    let lockstep = lockstep.map_err(|why| Failure::unavailable(format!("guests: {why}")))?;
    let mut ways = WaysOut::default();
    for (number, host) in description.real.iter().enumerate() {
        let way = Box::new(lockstep.end(number));
        ways.real.insert(host.name.clone(), way);
    }
    let (name, backend) = (&args.system, &args.backend);
    let mut system = assemble_part(description, name, backend, args.seed, 1, ways, globals)?;
    output::note(&format!(
        "running with {} guest(s) on virtual time",
        description.real.len()
    ));
    let ended = until_end(args, &mut system, &lockstep);
    let record = record(args, &system, &lockstep, &ended);
    if let Some(store) = &mut store {
        store
            .append(&record)
            .map_err(|why| output::unwritable(&why))?;
    }
    print(globals.format(), &record, &system, &lockstep)?;
    match ended {
        _ if interrupt::is_set() => Err(Failure::interrupted("interrupted before the end")),
        Err(error) => Err(Failure::check(error.to_string())),
        Ok(()) => Ok(()),
    }
}

/// A quantum that is longer than the guest's link would be most of what a packet waits for.
fn check(args: &Args, description: &Description) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::usage(format!("{}: {why}", args.system)));
    for host in &description.real {
        let quantum_us = host.lockstep_us.unwrap_or(1);
        let link = description
            .link
            .iter()
            .find(|it| it.ends.contains(&host.name));
        let latency_ns = link.and_then(|it| it.latency_ns).unwrap_or(1000.0);
        if quantum_us == 0 || f64::from(quantum_us) * 1000.0 > latency_ns {
            return refuse(format!(
                "real host `{}`: a quantum of {quantum_us} µs; it is above 0 and at most the latency of the host's link, {latency_ns} ns",
                host.name
            ));
        }
    }
    Ok(())
}

fn until_end(args: &Args, system: &mut System, lockstep: &Lockstep) -> Result<(), RunError> {
    let end_ps = args
        .seconds
        .map_or(u64::MAX, |it| it.as_nanos() as u64 * 1000);
    let mut now_ps = 0;
    while now_ps < end_ps && !lockstep.has_ended() && !interrupt::is_set() {
        now_ps = now_ps.saturating_add(STEP_PS).min(end_ps);
        system.run_until(now_ps)?;
    }
    Ok(())
}

fn usages(system: &System, lockstep: &Arc<Lockstep>) -> Vec<(String, GuestUsage)> {
    let names = system.real().enumerate();
    let usage = |number| lockstep.usage(number).unwrap_or_default();
    let all = names.map(|(number, (name, _))| (name.to_owned(), usage(number)));
    all.collect()
}

fn record(
    args: &Args,
    system: &System,
    lockstep: &Arc<Lockstep>,
    ended: &Result<(), RunError>,
) -> Record {
    let system_name = args.system.as_str();
    let by =
        format!("guests of QEMU by their counts of instructions, and the system {system_name}");
    let mut record = Record::new("sim live", Evidence::Emulated { by }, args.seed)
        .with("system", system_name)
        .with("backend", args.backend.as_str());
    shown::add_counts(&mut record, system);
    let (mut frames, mut traces) = (0, Vec::new());
    for (name, usage) in usages(system, lockstep) {
        frames += usage.received + usage.sent;
        traces.push(format!("{:016x}", usage.trace));
        record
            .counts
            .insert(format!("{name}: quanta"), usage.quanta);
        record
            .counts
            .insert(format!("{name}: lost at the guest"), usage.lost);
    }
    record.check = Some(Check {
        against: "another run of the same guests and file: the times and bytes of all frames, by a hash for each guest".to_owned(),
        compared: frames,
        digest: Some(traces.join(" ")),
    });
    match ended {
        Err(error) => {
            let reason = error.to_string();
            record.without_numbers(Outcome::Failed { reason })
        }
        Ok(()) => record,
    }
}

fn print(
    format: Format,
    record: &Record,
    system: &System,
    lockstep: &Arc<Lockstep>,
) -> Result<(), Failure> {
    if format == Format::Json {
        return output::print_json(record);
    }
    let mut table = Table::new([
        Column::left("guest"),
        Column::right("frames sent"),
        Column::right("frames received"),
        Column::right("lost"),
        Column::right("quanta"),
        Column::left("trace"),
    ]);
    for (name, usage) in usages(system, lockstep) {
        let counts = [usage.received, usage.sent, usage.lost, usage.quanta];
        let trace = format!("{:016x}", usage.trace);
        let cells = counts.map(|it| it.to_string());
        table.row([name].into_iter().chain(cells).chain([trace]));
    }
    for table in [table, shown::delays(system)] {
        output::print(&(table.to(format) + "\n"))?;
    }
    output::print(&format!(
        "times of frames are exact to a quantum; runs with the same traces did the same; evidence: {}\n",
        output::evidence(record)
    ))
}
