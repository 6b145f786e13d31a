//! The counters of the CPU, by `perf_event_open`: what the hardware counts while the program runs natively, the kernel left out.
//!
//! A CPU has few counters. So that none is shared in turns, the program is run once for each group of at most six, and a count that
//! did not run all the time is refused.

use std::io::{self, Read};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::process::{Ended, Process};
use super::sys::{self, Pid, Stop};
use super::{Program, WatchError, Watched};
use crate::trace::{Isa, Tally, TraceError};

/// A count: the names in tallies that it is added to, the kind of event, the event.
struct Event(&'static [&'static str], u32, u64);

const HARDWARE: u32 = 0;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// The kernel's own names, which it translates for each CPU.
const CYCLES: Event = Event(&["cycles"], HARDWARE, 0);
const INSTRUCTIONS: Event = Event(&["instructions"], HARDWARE, 1);
/// Cache in the lowest byte, then what is done, then what comes of it.
const fn cache(cache: u64, is_miss: bool) -> u64 {
    const READ: u64 = 0;
    cache | READ << 8 | (is_miss as u64) << 16
}
const L1D: u64 = 0;
const DTLB: u64 = 3;
const ITLB: u64 = 4;

/// Groups of at most six events. On Arm the events are those of PMUv3 (Arm Architecture Reference Manual, D13.11), which A72 and
/// later cores have. On x86 there is none of integer instructions.
#[rustfmt::skip]
const ON_ARM: &[&[Event]] = &[
    &[CYCLES, INSTRUCTIONS,
      Event(&["l1d_misses"], RAW, 0x03), Event(&["l1d_references"], RAW, 0x04),
      Event(&["itlb_misses"], RAW, 0x02), Event(&["dtlb_misses"], RAW, 0x05)],
    &[Event(&["load_store", "loads"], RAW, 0x70), Event(&["load_store", "stores"], RAW, 0x71),
      Event(&["integer", "scalar_integer"], RAW, 0x73), Event(&["integer", "vector_integer"], RAW, 0x74),
      Event(&["branch"], RAW, 0x76), Event(&["integer", "crypto"], RAW, 0x77)],
];
#[rustfmt::skip]
const ON_X86: &[&[Event]] = &[
    &[CYCLES, INSTRUCTIONS, Event(&["branch"], HARDWARE, 4),
      Event(&["l1d_misses"], CACHE, cache(L1D, true)), Event(&["l1d_references"], CACHE, cache(L1D, false))],
    &[Event(&["itlb_misses"], CACHE, cache(ITLB, true)),
      Event(&["dtlb_misses"], CACHE, cache(DTLB, true)), Event(&["dtlb_references"], CACHE, cache(DTLB, false))],
];

fn groups() -> &'static [&'static [Event]] {
    match Isa::HOST {
        Isa::A64 => ON_ARM,
        Isa::X86 => ON_X86,
    }
}

/// Counts instructions of this process for a moment.
pub(super) fn check(isa: Isa) -> Result<(), WatchError> {
    if isa != Isa::HOST {
        return Err(WatchError::Missing(
            "the CPU's counters count programs of this machine's instruction set alone; take --source qemu"
                .to_owned(),
        ));
    }
    const THIS_THREAD: Pid = 0;
    let Event(_, kind, config) = INSTRUCTIONS;
    sys::counter(kind, config, THIS_THREAD)
        .map(drop)
        .map_err(missing)
}

fn missing(error: io::Error) -> WatchError {
    WatchError::Missing(match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "not supported here: this machine shows no counters of its CPU, as most virtual machines; take --source qemu"
                .to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "the kernel gives this user no counters: sysctl kernel.perf_event_paranoid=2".to_owned()
        }
        _ => format!("no counters of the CPU: {error}"),
    })
}

pub(super) fn watch(program: &Program, stop: &AtomicBool) -> Result<Watched, WatchError> {
    let mut tally = Tally::default();
    let mut stdout = Vec::new();
    for group in groups() {
        if stop.load(Ordering::Relaxed) {
            return Err(WatchError::Stopped);
        }
        let ended = count(program, group, &mut tally)?;
        stdout = ended.stdout;
    }
    Ok(Watched {
        tally,
        stdout,
        by: "counters of the CPU (perf_event_open)".to_owned(),
    })
}

/// Runs the program once, and adds what the group's counters count from its first instruction on.
fn count(program: &Program, group: &[Event], tally: &mut Tally) -> Result<Ended, WatchError> {
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        .envs(program.variables.iter().cloned());
    sys::traced(&mut command);
    let mut process = Process::start(&mut command)?;
    let pid = process.child.id() as Pid;
    let failed = |error: io::Error| WatchError::from(TraceError::from(error));
    // Until it is the program, of which it has executed nothing then.
    loop {
        match sys::wait(pid).map_err(failed)? {
            Stop::Signal(libc::SIGTRAP) => break,
            Stop::Signal(_) => sys::go_on(pid, 0).map_err(failed)?,
            Stop::Ended(status) => return process.ended(status),
        }
    }
    let counters = group
        .iter()
        .map(|Event(_, kind, config)| sys::counter(*kind, *config, pid));
    let counters: io::Result<Vec<_>> = counters.collect();
    let counters = counters.map_err(missing)?;
    sys::let_go(pid).map_err(failed)?;
    let ended = process.end()?;
    ended.check()?;
    for (Event(names, ..), mut counter) in group.iter().zip(counters) {
        let mut bytes = [0; 24];
        counter.read_exact(&mut bytes).map_err(failed)?;
        let (words, _) = bytes.as_chunks();
        let count = whole([0, 1, 2].map(|at| u64::from_ne_bytes(words[at])))?;
        for name in *names {
            tally.add(name, count);
        }
    }
    Ok(ended)
}

/// The count, if it ran all the time.
fn whole([count, wanted_ns, ran_ns]: [u64; 3]) -> Result<u64, WatchError> {
    match ran_ns == wanted_ns && ran_ns > 0 {
        true => Ok(count),
        false => Err(WatchError::Missing(format!(
            "a counter ran {ran_ns} of {wanted_ns} ns: another program has the CPU's counters"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_fit_six_counters_and_count_each_metric_once() {
        for groups in [ON_ARM, ON_X86] {
            assert!(groups.iter().all(|group| group.len() <= 6));
            let events: Vec<(u32, u64)> = groups
                .iter()
                .copied()
                .flatten()
                .map(|it| (it.1, it.2))
                .collect();
            let mut once = events.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), events.len());
        }
    }

    #[test]
    fn events_are_those_of_the_kernels_header() {
        // PERF_COUNT_HW_CACHE_ITLB | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16.
        assert_eq!(cache(ITLB, true), 0x1_0004);
        assert_eq!(cache(L1D, false), 0);
    }

    #[test]
    fn a_count_that_did_not_run_all_the_time_is_none() {
        assert_eq!(whole([7, 100, 100]).expect("whole"), 7);
        assert!(whole([7, 100, 50]).is_err());
        assert!(whole([0, 0, 0]).is_err());
    }
}
