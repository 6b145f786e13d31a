//! Threads of a system under test, and the cores that they and the trial's thread have.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use dpb_core::Clock;
use dpb_core::measure::provenance::allowed_cpus;
use dpb_net::pipeline::{Idle, Make, Settings};
use dpb_net::trial::Hosted;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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

/// The cores of a generator and of the threads beside it, in this order: those that are asked for, or else the last ones that this process may use, if that is one for each
/// thread. The first cores of a machine have its interrupts, as a rule: a generator on one is held up by each.
pub(in crate::cmd::net) fn cores(asked: Vec<u32>, threads: u64) -> Vec<u32> {
    match asked.is_empty() {
        true => last_cores(allowed_cpus(), threads as usize),
        false => asked,
    }
}

/// The last of these cores, one for each thread; none if there are too few, or one thread has no other beside it to keep away from.
fn last_cores(cpus: Vec<u32>, threads: usize) -> Vec<u32> {
    match cpus.len() < threads.max(2) {
        true => Vec::new(),
        false => cpus.into_iter().rev().take(threads).collect(),
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_generator_has_the_last_core_and_the_program_those_before_it() {
        assert_eq!(cores(vec![4, 2], 3), [4, 2]);
        assert_eq!(last_cores(vec![0, 1, 2, 5], 3), [5, 2, 1]);
        assert_eq!(last_cores(vec![0, 1], 1), [1]);
        // Threads that share cores are left to the kernel.
        assert!(last_cores(vec![0, 1], 3).is_empty());
        assert!(last_cores(vec![0], 1).is_empty());
    }

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
