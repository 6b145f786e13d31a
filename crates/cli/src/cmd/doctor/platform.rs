//! The machine itself: CPU, memory, kernel.

use std::fs;

use dpb_core::measure::Machine;

use super::{Finding, kernel_says};

const PLATFORM: &str = "platform";
const KERNEL: &str = "kernel";

/// CPU, memory, and what the kernel allows.
pub(super) fn findings() -> Vec<Finding> {
    let machine = Machine::look();
    vec![
        Finding::found(
            PLATFORM,
            "CPU",
            format!(
                "{}, {} CPUs for this process",
                machine.cpu_model, machine.cpus
            ),
        ),
        instruction_sets(&machine),
        memory(&machine),
        numa(),
        governor(&machine),
        virtualisation(),
        Finding::found(
            KERNEL,
            "release",
            format!("Linux {} on {}", machine.kernel, std::env::consts::ARCH),
        ),
        huge_pages(),
        locked_memory(),
        io_uring(),
        counters(),
    ]
}

fn instruction_sets(machine: &Machine) -> Finding {
    match machine.cpu_features.as_slice() {
        [] => Finding::missing(
            PLATFORM,
            "instruction sets",
            "none that dpb knows",
            "portable code runs all the same",
        ),
        found => {
            let detail = format!("{}: {}", machine.cpu_level, found.join(" "));
            Finding::found(PLATFORM, "instruction sets", detail)
        }
    }
}

fn memory(machine: &Machine) -> Finding {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let free = meminfo("MemAvailable:").unwrap_or(0);
    let detail = format!(
        "{:.1} GiB, {:.1} GiB available",
        gib(machine.memory_bytes),
        gib(free)
    );
    if free < 2 << 30 {
        return Finding::limited(
            PLATFORM,
            "memory",
            detail,
            "scale factor 10 wants 2 GiB free: end other programs, or take a smaller --sf",
        );
    }
    Finding::found(PLATFORM, "memory", detail)
}

fn numa() -> Finding {
    let nodes = fs::read_dir("/sys/devices/system/node").map_or(0, |entries| {
        let names = entries.flatten().map(|entry| entry.file_name());
        let is_node = |name: &str| {
            name.strip_prefix("node")
                .is_some_and(|n| n.parse::<u32>().is_ok())
        };
        names
            .filter(|name| name.to_str().is_some_and(is_node))
            .count()
    });
    match nodes {
        0 | 1 => Finding::found(PLATFORM, "NUMA", "one node"),
        n => Finding::limited(
            PLATFORM,
            "NUMA",
            format!("{n} nodes"),
            "keep threads and memory on one node: numactl --cpunodebind=0 --membind=0 dpb …, or --pin",
        ),
    }
}

fn governor(machine: &Machine) -> Finding {
    match machine.governor.as_deref() {
        Some("performance") => Finding::found(PLATFORM, "governor", "performance"),
        Some(other) => Finding::limited(
            PLATFORM,
            "governor",
            other,
            "clock rates follow the load: as root, cpupower frequency-set -g performance",
        ),
        None => Finding::found(
            PLATFORM,
            "governor",
            "the kernel does not control the clock rate here",
        ),
    }
}

fn virtualisation() -> Finding {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    if flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")) {
        return Finding::limited(
            PLATFORM,
            "virtual machine",
            "the hypervisor may give cores to others",
            "records carry the time that was stolen; for figures to publish, use bare metal",
        );
    }
    Finding::found(PLATFORM, "virtual machine", "none that the CPU tells of")
}

fn huge_pages() -> Finding {
    let kib = meminfo("Hugepagesize:").unwrap_or(0) / 1024;
    let reserved = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let reserved = reserved.lines().find_map(|line| {
        line.strip_prefix("HugePages_Total:")?
            .trim()
            .parse::<u64>()
            .ok()
    });
    let transparent =
        kernel_says("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = transparent
        .split(['[', ']'])
        .nth(1)
        .unwrap_or("unknown")
        .to_owned();
    let detail = format!(
        "{} of {kib} KiB reserved, transparent: {chosen}",
        reserved.unwrap_or(0)
    );
    match reserved {
        Some(1..) => Finding::found(KERNEL, "huge pages", detail),
        _ => Finding::limited(
            KERNEL,
            "huge pages",
            detail,
            "DPDK wants some: as root, sysctl vm.nr_hugepages=512 (1 GiB of 2 MiB pages)",
        ),
    }
}

fn locked_memory() -> Finding {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max locked memory"));
    let soft = line
        .and_then(|line| line.split_whitespace().nth(3))
        .unwrap_or("unknown");
    match soft.parse::<u64>() {
        Ok(bytes) if bytes < 1 << 30 => Finding::limited(
            KERNEL,
            "locked memory",
            format!("{} MiB", bytes >> 20),
            "RDMA and DOCA register memory: raise memlock in /etc/security/limits.conf",
        ),
        _ => Finding::found(KERNEL, "locked memory", soft),
    }
}

fn io_uring() -> Finding {
    match kernel_says("/proc/sys/kernel/io_uring_disabled").as_deref() {
        Some("0") => Finding::found(KERNEL, "io_uring", "for everybody"),
        Some("1") => Finding::limited(
            KERNEL,
            "io_uring",
            "for privileged processes only",
            "as root, sysctl kernel.io_uring_disabled=0",
        ),
        Some(_) => Finding::missing(
            KERNEL,
            "io_uring",
            "switched off",
            "as root, sysctl kernel.io_uring_disabled=0",
        ),
        None => Finding::limited(
            KERNEL,
            "io_uring",
            "the kernel does not say (older than 6.6)",
            "storage tests will find out; kernels from 5.1 have it",
        ),
    }
}

fn counters() -> Finding {
    let paranoid = kernel_says("/proc/sys/kernel/perf_event_paranoid");
    let has_pmu = fs::read_dir("/sys/bus/event_source/devices").is_ok_and(|entries| {
        let mut names = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv8"))
    });
    let level = paranoid.clone().unwrap_or_else(|| "absent".to_owned());
    let detail = format!("perf_event_paranoid {level}");
    if !has_pmu {
        return Finding::missing(
            KERNEL,
            "hardware counters",
            format!("no PMU is visible, {detail}"),
            "cycles and cache misses need bare metal, or a virtual machine with vPMU",
        );
    }
    match paranoid.and_then(|level| level.parse::<i32>().ok()) {
        Some(..=2) => Finding::found(KERNEL, "hardware counters", detail),
        _ => Finding::limited(
            KERNEL,
            "hardware counters",
            detail,
            "as root, sysctl kernel.perf_event_paranoid=2",
        ),
    }
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
