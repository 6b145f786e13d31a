//! What EAL is started with on this machine.

use std::fs;
use std::path::Path;

#[cfg(target_arch = "x86_64")]
use dpb_core::cpu_level::Level;

/// Bits of vectors, and the level of the code that has them, the widest first.
#[cfg(target_arch = "x86_64")]
const WIDTHS: [(u32, Level); 2] = [(512, Level::of(&["avx512f"])), (256, Level::of(&["avx2"]))];
/// More arguments for EAL, with spaces between: `-a 0000:03:00.0`, `--log-level=debug`.
const VARIABLE: &str = "DPB_DPDK_EAL_ARGS";
/// Where there are no huge pages: for rings, operations and mbufs, not for data. A queue that takes chains of mbufs has some
/// 10 MiB, and a core up to two of each device's.
const MEMORY_MIB: usize = 512;
/// EAL's memory for each core besides.
const MEMORY_MIB_PER_CORE: usize = 32;

/// Whether the system has huge pages that nobody has taken.
pub(super) fn has_huge_pages() -> bool {
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages")
        .into_iter()
        .flatten()
        .flatten();
    sizes
        .map(|size| size.path().join("free_hugepages"))
        .any(|file| {
            let free = fs::read_to_string(file).unwrap_or_default();
            free.trim().parse::<u64>().is_ok_and(|pages| pages > 0)
        })
}

/// The arguments. Devices on buses are looked for only with huge pages: hardware needs memory that stays where it is.
/// Devices of software are added later, one by one.
pub(super) fn arguments(has_huge_pages: bool) -> Vec<String> {
    let mut arguments = vec!["dpb".to_owned(), "--iova-mode=va".to_owned()];
    arguments.extend(
        [
            "--no-telemetry",
            "--log-level=lib.*:error",
            "--log-level=pmd.*:alert",
            "--log-level=user*:error",
        ]
        .map(str::to_owned),
    );
    // One core for what EAL runs itself: polling is on the caller's threads.
    arguments.extend(["-l".to_owned(), first_core().to_string()]);
    match has_huge_pages {
        true => arguments.push("--in-memory".to_owned()),
        false => {
            arguments.extend(["--no-huge", "--no-pci", "--no-shconf", "-m"].map(str::to_owned));
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            arguments.push((MEMORY_MIB + cores * MEMORY_MIB_PER_CORE).to_string());
        }
    }
    // DPDK chooses code by this where it chooses at run time.
    #[cfg(target_arch = "x86_64")]
    if let Some((bits, _)) = WIDTHS.iter().rfind(|(_, level)| !level.is_allowed()) {
        arguments.push(format!("--force-max-simd-bitwidth={}", bits / 2));
    }
    let more = std::env::var(VARIABLE).unwrap_or_default();
    arguments.extend(more.split_whitespace().map(str::to_owned));
    arguments
}

/// The first core that this process may run on.
fn first_core() -> u32 {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.and_then(|list| list.trim().split([',', '-']).next()?.parse().ok());
    first.unwrap_or(0)
}
