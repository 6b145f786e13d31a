//! What this process has used: CPU time, resident memory and its peak; and how long its threads waited for a core.

use std::fs;
use std::sync::{Mutex, PoisonError};

use dpb_core::measure::CoreWaits;

use super::wire::Usage;

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

/// How long the threads of this process have waited for a core, those that have ended as far as the last call of this saw
/// them; `None` where the kernel does not say.
pub fn core_wait_s() -> Option<f64> {
    static WAITS: Mutex<CoreWaits> = Mutex::new(CoreWaits::new());
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    waits.look()
}

/// Peak and present resident memory, bytes; 0 where `/proc` is missing.
fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.trim_end_matches("kB").trim().parse::<u64>().ok())
            .map_or(0, |kib| kib * 1024)
    };
    (field("VmHWM:"), field("VmRSS:"))
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
}
