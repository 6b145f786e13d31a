//! What this process has used: CPU time, resident memory and its peak; and how long its threads waited for a core.

use std::fs;
use std::sync::{Mutex, PoisonError};

use dpb_core::measure::CoreWaits;

use crate::service::protocol::Usage;

/// Reads the usage of this process. With `reset_peak` a new peak starts now, where the kernel allows it
/// (`/proc/self/clear_refs`); where not, the peak stays that of the whole process.
pub fn of_this_process(reset_peak: bool) -> Usage {
    let (peak_bytes, resident_bytes) = memory();
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    // 5: reset the peak resident set size (proc(5)).
    let peak_was_reset = reset_peak && fs::write("/proc/self/clear_refs", "5").is_ok();
    Usage {
        cpu_s: cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        core_wait_s: core_wait_s(),
        peak_bytes,
        resident_bytes,
        peak_was_reset,
    }
}

/// The time that the threads of this process have waited for a core, those that have ended as far as the last call of this saw
/// them; `None` where the kernel does not say.
pub fn core_wait_s() -> Option<f64> {
    static WAITS: Mutex<CoreWaits> = Mutex::new(CoreWaits::new());
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    waits.look()
}

/// Memory that could still be taken here, bytes: what the kernel calls available, and no more than what is left of the
/// bound of the container that this runs in; `None` where the kernel does not say.
pub fn memory_available_bytes() -> Option<u64> {
    let available = field(&read("/proc/meminfo"), "MemAvailable:")? * 1024;
    Some(available.min(container_left_bytes().unwrap_or(u64::MAX)))
}

/// Memory that may still be taken of the container's bound (cgroup v2). Its page cache would give way; files in memory would not.
fn container_left_bytes() -> Option<u64> {
    let group = |name: &str| read(&format!("/sys/fs/cgroup/memory.{name}"));
    let max: u64 = group("max").trim().parse().ok()?;
    let used: u64 = group("current").trim().parse().ok()?;
    let stat = group("stat");
    let cached = field(&stat, "file ")?.saturating_sub(field(&stat, "shmem ")?);
    Some(max.saturating_sub(used.saturating_sub(cached)))
}

/// Peak and present resident memory, bytes; 0 where `/proc` is missing.
fn memory() -> (u64, u64) {
    let status = read("/proc/self/status");
    let bytes = |name: &str| field(&status, name).map_or(0, |kib| kib * 1024);
    (bytes("VmHWM:"), bytes("VmRSS:"))
}

/// A file of the kernel's; empty where there is none.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The number in the line that begins with `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim_end_matches("kB").trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_cpu_show_up() {
        let before = of_this_process(true);
        let block = vec![1u8; 64 << 20];
        let sum: u64 = block.iter().map(|&b| u64::from(b)).sum();
        assert_eq!(sum, 64 << 20);
        let after = of_this_process(false);
        assert!(after.cpu_s > before.cpu_s);
        assert!(after.peak_bytes >= 64 << 20);
        assert!(after.peak_bytes >= after.resident_bytes);
    }

    #[test]
    fn available_memory_is_no_more_than_there_is() {
        let all = field(&read("/proc/meminfo"), "MemTotal:").unwrap() * 1024;
        let available = memory_available_bytes().unwrap();
        assert!((1 << 20..=all).contains(&available), "{available} of {all}");
    }
}
