//! What else happened on the cores while something was timed: time that threads were ready and had no core, context
//! switches that nobody asked for, and time that a hypervisor gave away. Read from `/proc`; what the kernel does not say is `None`.
//!
//! The wait for a core is what counts. Context switches are kept for those who know them from other tools, but a thread
//! that polls and offers its core (`sched_yield`) is charged with thousands a second that hurt nobody.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// The other work that disturbed a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interference {
    /// The time that was watched, in seconds.
    pub wall_s: f64,
    /// The time for which the threads watched were ready to run and waited for a core, in seconds, summed over them.
    pub core_wait_s: Option<f64>,
    /// Involuntary context switches of the threads watched.
    pub context_switches_involuntary: Option<u64>,
    /// CPU time that the hypervisor gave to others, over all CPUs, in seconds.
    pub steal_s: Option<f64>,
}

/// How long this process's threads have waited for a core, those that have ended with them.
///
/// The kernel forgets what a thread waited when it ends (`/proc/self/schedstat` is of the first thread alone), so whoever
/// has threads that end looks now and then while they run. What a thread waits after the last look at it is missed.
#[derive(Debug, Default)]
pub struct CoreWaits {
    ended_ns: u64,
    /// What the threads that lived at the last look had waited then.
    alive_ns: BTreeMap<String, u64>,
}

impl CoreWaits {
    /// Of no thread yet.
    pub const fn new() -> Self {
        Self {
            ended_ns: 0,
            alive_ns: BTreeMap::new(),
        }
    }

    /// Looks at all threads that live; their wait and that of all ended ones, in seconds. It never falls. `None` where the
    /// kernel does not say.
    pub fn look(&mut self) -> Option<f64> {
        let now: BTreeMap<String, u64> = tasks()
            .filter_map(|task| Some((name_of(&task), core_wait_ns(&task)?)))
            .collect();
        if now.is_empty() {
            return None;
        }
        // A name that has waited less than before is another thread's.
        let ended = self.alive_ns.iter().filter(|&(name, before)| {
            let lives = now.get(name).is_some_and(|now| now >= before);
            !lives
        });
        self.ended_ns += ended.map(|(_, wait_ns)| wait_ns).sum::<u64>();
        let alive_ns = now.values().sum::<u64>();
        self.alive_ns = now;
        Some((self.ended_ns + alive_ns) as f64 / 1e9)
    }
}

/// The kernel's counters at one moment.
#[derive(Debug)]
pub struct Watch {
    started: Instant,
    threads: BTreeMap<String, Thread>,
    steal_s: Option<f64>,
}

/// What the kernel counted for one thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    switches: u64,
    core_wait_ns: u64,
}

impl Watch {
    /// Starts to watch this process. Threads that end before [`Watch::stop`] are not counted.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            threads: threads(),
            steal_s: steal_s(),
        }
    }

    /// The interference since the watch began.
    pub fn stop(&self) -> Interference {
        let now = threads();
        let (mut switches, mut core_wait_ns) = (0, 0);
        for (name, thread) in &now {
            let before = self.threads.get(name).copied().unwrap_or_default();
            switches += thread.switches.saturating_sub(before.switches);
            core_wait_ns += thread.core_wait_ns.saturating_sub(before.core_wait_ns);
        }
        let is_known = !now.is_empty();
        Interference {
            wall_s: self.started.elapsed().as_secs_f64(),
            core_wait_s: is_known.then_some(core_wait_ns as f64 / 1e9),
            context_switches_involuntary: is_known.then_some(switches),
            steal_s: self
                .steal_s
                .zip(steal_s())
                .map(|(then, now)| (now - then).max(0.0)),
        }
    }
}

impl Interference {
    /// Adds another span of time.
    pub fn add(&mut self, other: &Self) {
        self.wall_s += other.wall_s;
        self.core_wait_s = sum(self.core_wait_s, other.core_wait_s);
        self.context_switches_involuntary = sum(
            self.context_switches_involuntary,
            other.context_switches_involuntary,
        );
        self.steal_s = sum(self.steal_s, other.steal_s);
    }
}

/// `None` is nothing known, not zero: it gives way to what is known.
fn sum<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

/// Threads that end while they are read are left out. Empty where there is no `/proc`, or no `schedstat`.
fn threads() -> BTreeMap<String, Thread> {
    let read = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let (_, after) = status.split_once("nonvoluntary_ctxt_switches:")?;
        let thread = Thread {
            switches: after.lines().next()?.trim().parse().ok()?,
            core_wait_ns: core_wait_ns(&task)?,
        };
        Some((name_of(&task), thread))
    };
    tasks().filter_map(read).collect()
}

/// This process's threads; none where there is no `/proc`.
fn tasks() -> impl Iterator<Item = fs::DirEntry> {
    let entries = fs::read_dir("/proc/self/task");
    entries.into_iter().flatten().flatten()
}

fn name_of(task: &fs::DirEntry) -> String {
    task.file_name().to_string_lossy().into_owned()
}

/// The second number of `schedstat`, after the time on a core and before the time slices.
fn core_wait_ns(task: &fs::DirEntry) -> Option<u64> {
    let schedstat = fs::read_to_string(task.path().join("schedstat")).ok()?;
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// The eighth number of the first line of `/proc/stat`, in ticks of 10 ms (USER_HZ is 100 on every Linux).
fn steal_s() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let all_cpus = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: f64 = all_cpus.split_whitespace().nth(7)?.parse().ok()?;
    Some(ticks / 100.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn watching_two_busy_threads_on_one_core_sees_them_wait() {
        // Both are pinned to the same core, so the kernel must take turns.
        let mut one = rustix::thread::CpuSet::new();
        let allowed = rustix::thread::sched_getaffinity(None).expect("Linux has affinity");
        let core = (0..1024)
            .find(|&core| allowed.is_set(core))
            .expect("a core");
        one.set(core);
        let (start, end) = (Barrier::new(3), AtomicBool::new(false));
        let watched = std::thread::scope(|scope| {
            // They outlive the watch: ended threads are not counted.
            for _ in 0..2 {
                scope.spawn(|| {
                    rustix::thread::sched_setaffinity(None, &one).expect("our own core");
                    start.wait();
                    while !end.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            start.wait();
            let watch = Watch::start();
            std::thread::sleep(Duration::from_millis(200));
            let seen = watch.stop();
            end.store(true, Ordering::Relaxed);
            seen
        });
        assert!(watched.wall_s >= 0.2);
        if let Err(missing) = fs::read_to_string("/proc/thread-self/schedstat") {
            assert_eq!(watched.core_wait_s, None);
            println!("skipped: this kernel does not count waits for a core: {missing}");
            return;
        }
        // Each has half a core at best: together they waited about as long as was watched.
        let switches = watched.context_switches_involuntary.expect("counted");
        let core_wait_s = watched.core_wait_s.expect("counted");
        assert!(switches > 2 && core_wait_s > 0.1, "{watched:?}");
    }

    #[test]
    fn what_a_thread_waited_stays_when_it_has_ended() {
        let mut waits = CoreWaits::new();
        let Some(before) = waits.look() else {
            println!("skipped: this kernel does not count waits for a core");
            return;
        };
        // More threads than cores, so that some must wait; they tell what the kernel says of each.
        let threads = 2 * std::thread::available_parallelism().map_or(1, |n| n.get());
        let (told, looked) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
        let spin_and_tell = || {
            let until = Instant::now() + Duration::from_millis(50);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            let schedstat = fs::read_to_string("/proc/thread-self/schedstat").expect("was there");
            told.wait();
            looked.wait();
            let wait_ns = schedstat.split_whitespace().nth(1).expect("three numbers");
            wait_ns.parse::<f64>().expect("a number") / 1e9
        };
        let (waited_s, while_alive) = std::thread::scope(|scope| {
            let spinning: Vec<_> = (0..threads).map(|_| scope.spawn(spin_and_tell)).collect();
            told.wait();
            let while_alive = waits.look().expect("still there");
            looked.wait();
            let ended = spinning.into_iter().map(|thread| thread.join());
            let waited_s: f64 = ended.map(|wait_s| wait_s.expect("no panic")).sum();
            (waited_s, while_alive)
        });
        assert!(waited_s > 0.0);
        // A microsecond for the rounding of sums.
        assert!(while_alive + 1e-6 >= before + waited_s);
        assert!(waits.look().expect("still there") >= while_alive);
    }

    #[test]
    fn what_is_not_known_gives_way() {
        let mut sum = Interference::default();
        sum.add(&Interference {
            wall_s: 1.0,
            core_wait_s: None,
            context_switches_involuntary: Some(3),
            steal_s: None,
        });
        assert_eq!(sum.context_switches_involuntary, Some(3));
        assert_eq!(sum.steal_s, None);
    }
}
