//! What else happened on the cores while something was timed: context switches that nobody asked for, and time that a
//! hypervisor gave away. Read from `/proc`; what the kernel does not say is `None`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// What disturbed a measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interference {
    /// How long was watched, in seconds.
    pub wall_s: f64,
    /// Involuntary context switches of the threads watched.
    pub context_switches_involuntary: Option<u64>,
    /// CPU time that the hypervisor gave to others, over all CPUs, in seconds.
    pub steal_s: Option<f64>,
}

/// The kernel's counters at one moment.
#[derive(Debug)]
pub struct Watch {
    started: Instant,
    switches_by_thread: BTreeMap<String, u64>,
    steal_s: Option<f64>,
}

impl Watch {
    /// Starts to watch this process. Threads that end before [`Watch::stop`] are not counted.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            switches_by_thread: switches_by_thread(),
            steal_s: steal_s(),
        }
    }

    /// What happened since.
    pub fn stop(&self) -> Interference {
        let now = switches_by_thread();
        let switches = now.iter().map(|(thread, count)| {
            count.saturating_sub(*self.switches_by_thread.get(thread).unwrap_or(&0))
        });
        Interference {
            wall_s: self.started.elapsed().as_secs_f64(),
            context_switches_involuntary: (!now.is_empty()).then(|| switches.sum()),
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

fn switches_by_thread() -> BTreeMap<String, u64> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return BTreeMap::new();
    };
    let count = |thread: fs::DirEntry| {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        let (_, after) = status.split_once("nonvoluntary_ctxt_switches:")?;
        let count = after.lines().next()?.trim().parse().ok()?;
        Some((thread.file_name().to_string_lossy().into_owned(), count))
    };
    threads.flatten().filter_map(count).collect()
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
    fn watching_two_busy_threads_on_one_core_sees_them_switch() {
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
        if let Some(switches) = watched.context_switches_involuntary {
            assert!(switches > 2, "{watched:?}");
        }
    }

    #[test]
    fn what_is_not_known_gives_way() {
        let mut sum = Interference::default();
        sum.add(&Interference {
            wall_s: 1.0,
            context_switches_involuntary: Some(3),
            steal_s: None,
        });
        assert_eq!(sum.context_switches_involuntary, Some(3));
        assert_eq!(sum.steal_s, None);
    }
}
