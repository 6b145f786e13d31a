//! Programs between ports in memory, and the cores that they and the trial's thread have.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use dpb_core::{Clock, PacketPort};
use dpb_net::pipeline::{Dispatcher, Idle, Make, Settings, Shard, Station, WhenFull, Work, ring};
use dpb_net::port::Looped;
use dpb_net::trial::Hosted;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::super::program::Program;

/// For so long a program that is told to stop may finish.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a program under test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cmd::net) enum Place {
    /// On threads of its own
    Threads,
    /// On the trial's thread, between whose packets it works
    Inline,
}

/// The calling thread on a core, until this is dropped.
///
/// Threads inherit the cores of the one that starts them. So this is made when all others have been started: of the program, and of operators' pools.
pub(in crate::cmd::net) struct Pinned(Option<CpuSet>);

impl Pinned {
    /// On this core; where it was if there is none.
    ///
    /// # Errors
    /// The kernel's, as a sentence.
    pub(in crate::cmd::net) fn on(core: Option<u32>) -> Result<Self, String> {
        let Some(core) = core else {
            return Ok(Self(None));
        };
        let before = sched_getaffinity(None).map_err(|error| format!("--pin {core}: {error}"))?;
        pin(&[core])?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It was there before; where it may not go back, it stays.
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// Keeps the calling thread to these cores; to none in particular if there are none.
///
/// # Errors
/// The kernel's, as a sentence.
pub(in crate::cmd::net) fn pin(cores: &[u32]) -> Result<(), String> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core as usize));
    sched_setaffinity(None, &set)
        .map_err(|error| format!("a thread cannot be pinned to {cores:?}: {error}"))
}

/// Starts loops at their place. Their threads stay on `cores`, if there are any.
///
/// # Errors
/// The reason why a loop cannot start, as a sentence.
pub(in crate::cmd::net) fn host(
    loops: Vec<(String, Make)>,
    place: Place,
    cores: &[u32],
    clock: &Arc<dyn Clock>,
) -> Result<Hosted, String> {
    if place == Place::Inline {
        return Hosted::inline(loops).map_err(|error| super::said(&error));
    }
    let settings = Settings {
        cores: cores.to_vec(),
        // A thread that spins on a core which it shares takes it from whoever has work.
        idle: match cores.len() < loops.len() {
            true => Idle::Yield,
            false => Idle::Spin,
        },
        clock: Arc::clone(clock),
        patience: PATIENCE,
    };
    Hosted::threads(loops, &settings).map_err(|error| super::said(&error))
}

/// How a dispatcher's loops are joined.
#[derive(Clone, Copy, Debug)]
pub(in crate::cmd::net) struct Rings {
    /// Bursts that a ring to another core holds.
    pub(in crate::cmd::net) bursts: usize,
    pub(in crate::cmd::net) when_full: WhenFull,
}

/// The loops of a program over these ports: one shard; or a dispatcher, which receives for the others, and a station for each thread. `crossing` gives the
/// dispatcher's port to itself, by which packets go that another thread has to go on with.
pub(in crate::cmd::net) fn loops(
    program: &Program,
    mut ports: Vec<Box<dyn PacketPort>>,
    threads: usize,
    rings: Rings,
    crossing: impl FnOnce(Looped) -> Box<dyn PacketPort>,
) -> Vec<(String, Make)> {
    let Rings { bursts, when_full } = rings;
    if threads == 1 {
        let program = program.clone();
        let make: Make = Box::new(move || {
            let (line, burst) = (program.line(0)?, program.burst());
            let shard = Shard::new("shard", ports, line, burst, when_full);
            Ok(Box::new(shard) as Box<dyn Work>)
        });
        return vec![("shard".to_owned(), make)];
    }
    if program.crossing().is_some() {
        // More than all rings hold, so that it is never full.
        let packets = 2 * threads * bursts * program.burst();
        ports.push(crossing(Looped::new(packets)));
    }
    let (mut remotes, mut loops) = (Vec::new(), Vec::new());
    for shard in 0..threads {
        let name = format!("shard {shard}");
        let (remote, ring) = ring(name.clone(), bursts);
        remotes.push(remote);
        let program = program.clone();
        let make: Make = Box::new(move || {
            let station = Station::new(Box::new(program.line(shard)?), vec![ring]);
            Ok(Box::new(station) as Box<dyn Work>)
        });
        loops.push((name, make));
    }
    let program = program.clone();
    let make: Make = Box::new(move || {
        let (spread, burst) = (program.spread()?, program.burst());
        let dispatcher = Dispatcher::new("dispatcher", ports, spread, remotes, burst, when_full);
        Ok(Box::new(dispatcher) as Box<dyn Work>)
    });
    loops.insert(0, ("dispatcher".to_owned(), make));
    loops
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// The thread comes back to its cores, and one that was started before never left them.
    #[test]
    fn a_thread_is_pinned_for_a_while() {
        let cores = || {
            let set = sched_getaffinity(None).expect("cores");
            (0..CpuSet::MAX_CPU)
                .filter(|&core| set.is_set(core))
                .collect::<Vec<_>>()
        };
        let test = move || {
            let before = cores();
            let first = before[0] as u32;
            {
                let _pinned = Pinned::on(Some(first)).expect("a core of this thread's");
                assert_eq!(cores(), [first as usize]);
                // Why others are started before.
                assert_eq!(
                    thread::spawn(cores).join().expect("cores"),
                    [first as usize]
                );
            }
            assert_eq!(cores(), before);
            drop(Pinned::on(None).expect("nothing is done"));
            assert_eq!(cores(), before);
        };
        thread::spawn(test).join().expect("it is so");
    }
}
