//! Where a number was taken: the machine, the build, the command. Read once a process, from `/proc` and `/sys`; what
//! the kernel does not say stays empty and nothing fails.

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::record::{Provenance, unique_id};
use crate::cpu_level::Level;
use crate::evidence::{cpuinfo, emulator};

/// The facts that a binary knows about its own build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// Version and, if there was one, the revision: `0.1.0 (d53f06b)`.
    pub version: String,
    /// Compiler and target: `rustc 1.95.0, x86_64-unknown-linux-gnu`.
    pub toolchain: String,
}

static BUILD: OnceLock<Build> = OnceLock::new();

/// Says once, at a program's start, how it was built; records name it from then on. A second call changes nothing.
pub fn describe_build(build: Build) {
    let _ = BUILD.set(build);
}

impl Provenance {
    /// This process on this machine, now. Libraries and pinned cores are the caller's to add.
    pub fn here(seed: u64) -> Self {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        static RUN: OnceLock<String> = OnceLock::new();
        let machine = MACHINE.get_or_init(Machine::look);
        let build = BUILD.get_or_init(|| Build {
            version: env!("CARGO_PKG_VERSION").into(),
            toolchain: format!("rustc, {}", std::env::consts::ARCH),
        });
        Self {
            run: RUN
                .get_or_init(|| given_run().unwrap_or_else(new_run))
                .clone(),
            command: std::env::args_os()
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect(),
            started_unix_s: unix_s(),
            dpb_version: build.version.clone(),
            toolchain: build.toolchain.clone(),
            cpu_model: machine.cpu_model.clone(),
            cpus: machine.cpus,
            cpu_level: machine.cpu_level.clone(),
            cpu_features: machine.cpu_features.clone(),
            pinned: Vec::new(),
            governor: machine.governor.clone(),
            kernel: machine.kernel.clone(),
            memory_bytes: machine.memory_bytes,
            host: machine.host.clone(),
            libraries: BTreeMap::new(),
            made_of: None,
            seed,
        }
    }
}

/// Seconds since 1970, UTC.
pub fn unix_s() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// A name for a run of a set of processes: `DPB_RUN` in their environment makes their records those of one run.
pub fn new_run() -> String {
    unique_id(unix_s())
}

/// Whether this process is part of a run that another one began, which keeps the records.
pub fn is_part_of_run() -> bool {
    given_run().is_some()
}

/// The run that this process is part of, if whoever started it said so.
fn given_run() -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    let run = std::env::var("DPB_RUN").ok()?;
    (!run.is_empty() && run.len() <= 64 && run.chars().all(is_plain)).then_some(run)
}

/// The facts about a machine that do not change while a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// As the kernel says it; on Arm from the implementer and part numbers.
    pub cpu_model: String,
    /// Logical CPUs that this process may use.
    pub cpus: u32,
    /// The level of instruction sets that dpb's code may use: `x86-64-v4`, or `x86-64-v3 (masked)`.
    pub cpu_level: String,
    /// Extensions that were found, are not masked, and matter to dpb.
    pub cpu_features: Vec<String>,
    /// Frequency governor of the first CPU.
    pub governor: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// Main memory, bytes; the control group's limit if that is lower.
    pub memory_bytes: u64,
    /// `DPB_HOST` if set, else the kernel's node name.
    pub host: String,
}

impl Machine {
    /// Looks at this machine.
    pub fn look() -> Self {
        let uname = rustix::system::uname();
        Self {
            cpu_model: cpu_model(),
            cpus: cpus(),
            cpu_level: cpu_level(),
            cpu_features: cpu_features(),
            governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            kernel: uname.release().to_string_lossy().into_owned(),
            memory_bytes: memory_bytes(),
            host: std::env::var("DPB_HOST")
                .unwrap_or_else(|_| uname.nodename().to_string_lossy().into_owned()),
        }
    }
}

/// The CPUs that this process may use, by number.
pub fn allowed_cpus() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .map(|cpu| cpu as u32)
        .collect()
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32)
}

fn line_of(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.trim_matches(['\0', '\n', ' ']).to_owned();
    (!line.is_empty()).then_some(line)
}

fn cpu_model() -> String {
    if let Some(emulator) = emulator() {
        return format!("{} under {emulator}", std::env::consts::ARCH);
    }
    cpuinfo("model name")
        .or_else(|| arm_core(&cpuinfo("CPU implementer")?, &cpuinfo("CPU part")?))
        .or_else(|| line_of("/proc/device-tree/model"))
        .unwrap_or_else(|| format!("unknown {}", std::env::consts::ARCH))
}

/// The names of the cores that DPUs and Arm servers are made of (Arm's Main ID Register; the kernel's `cputype.h`).
fn arm_core(implementer: &str, part: &str) -> Option<String> {
    let name = match (implementer, part) {
        ("0x41", "0xd03") => "Arm Cortex-A53",
        ("0x41", "0xd07") => "Arm Cortex-A57",
        ("0x41", "0xd08") => "Arm Cortex-A72 (BlueField-2)",
        ("0x41", "0xd0b") => "Arm Cortex-A76",
        ("0x41", "0xd0c") => "Arm Neoverse N1",
        ("0x41", "0xd40") => "Arm Neoverse V1",
        ("0x41", "0xd42") => "Arm Cortex-A78AE (BlueField-3)",
        ("0x41", "0xd49") => "Arm Neoverse N2",
        ("0x41", "0xd4f") => "Arm Neoverse V2",
        ("0x43", "0x0b1" | "0x0b2") => "Marvell OCTEON TX2",
        ("0x61", _) => "Apple silicon",
        _ => return Some(format!("Arm core, implementer {implementer}, part {part}")),
    };
    Some(name.to_owned())
}

fn memory_bytes() -> u64 {
    let limit = number_in("/sys/fs/cgroup/memory.max");
    meminfo_bytes("MemTotal:")
        .unwrap_or(0)
        .min(limit.unwrap_or(u64::MAX))
}

/// Memory that can be had without swapping, as the kernel guesses; what the control group still allows if that is less.
/// Without limit where the kernel does not say.
pub fn memory_available_bytes() -> u64 {
    let left = || {
        let limit = number_in("/sys/fs/cgroup/memory.max")?;
        let used = number_in("/sys/fs/cgroup/memory.current")?;
        // Clean file pages count as used, and are given up when somebody needs them.
        let stat = fs::read_to_string("/sys/fs/cgroup/memory.stat").unwrap_or_default();
        let files = stat
            .lines()
            .find_map(|line| line.strip_prefix("inactive_file "));
        let files: u64 = files.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(files)))
    };
    let available = meminfo_bytes("MemAvailable:").unwrap_or(u64::MAX);
    available.min(left().unwrap_or(u64::MAX))
}

fn meminfo_bytes(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn number_in(path: &str) -> Option<u64> {
    line_of(path)?.parse().ok()
}

fn cpu_level() -> String {
    let level = Level::here().name();
    match Level::is_masked() {
        true => format!("{level} (masked)"),
        false => level.to_owned(),
    }
}

macro_rules! found {
    ($detect:ident: $($name:tt),+ $(,)?) => {
        [$(($name, crate::has!($detect: $name))),+]
            .into_iter()
            .filter_map(|(name, found)| found.then(|| name.to_owned()))
            .collect()
    };
}

#[cfg(target_arch = "x86_64")]
fn cpu_features() -> Vec<String> {
    found!(is_x86_feature_detected:
        "sse4.2", "pclmulqdq", "aes", "sha", "avx", "avx2", "bmi1", "bmi2", "lzcnt", "popcnt", "avx512f", "avx512bw",
        "avx512dq", "avx512vl", "avx512vbmi", "avx512vbmi2", "avx512vpopcntdq", "avx512ifma", "vpclmulqdq", "vaes",
        "gfni",
    )
}

#[cfg(target_arch = "aarch64")]
fn cpu_features() -> Vec<String> {
    found!(is_aarch64_feature_detected:
        "neon", "crc", "aes", "pmull", "sha2", "sha3", "lse", "dotprod", "sve", "sve2",
    )
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cpu_features() -> Vec<String> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_cpus_and_memory() {
        let here = Provenance::here(7);
        assert!(!here.cpu_model.is_empty() && !here.kernel.is_empty() && !here.host.is_empty());
        assert!(here.cpus >= 1 && here.memory_bytes > 1 << 20);
        assert!(here.started_unix_s > 1.7e9);
        assert_eq!(here.seed, 7);
        assert_eq!(here.command, std::env::args().collect::<Vec<_>>());
        assert!(!here.run.is_empty());
        assert_eq!(here.run, Provenance::here(8).run, "one process, one run");
    }

    #[test]
    fn features_agree_with_the_kernel() {
        let Some(flags) = cpuinfo("flags").filter(|_| cfg!(target_arch = "x86_64")) else {
            return;
        };
        // The kernel spells sse4.2 with an underscore and avx512vbmi2 with another; the rest is the same.
        for feature in ["aes", "avx2", "bmi2", "avx512f", "pclmulqdq"] {
            let kernel = flags.split(' ').any(|flag| flag == feature);
            let ours = cpu_features().iter().any(|found| found == feature);
            assert_eq!(ours, kernel, "{feature}");
        }
    }

    #[test]
    fn arm_cores_have_names() {
        assert_eq!(
            arm_core("0x41", "0xd08").as_deref(),
            Some("Arm Cortex-A72 (BlueField-2)")
        );
        assert!(arm_core("0x48", "0xd01").is_some_and(|name| name.contains("0x48")));
    }
}
