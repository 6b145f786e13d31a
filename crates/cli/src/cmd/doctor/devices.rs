//! Libraries and devices: DuckDB, DOCA, DPDK, RDMA, and the cards themselves.

use std::fs;
use std::path::{Path, PathBuf};

use dpb_dbmods::duckdb;

use super::{Finding, kernel_says};

const LIBRARY: &str = "library";
const DEVICE: &str = "device";

/// Where libraries lie: the loader's own path first, then the distributions' folders, then the vendor's (`ARCH` stands
/// for the processor's name).
const FOLDERS: [&str; 9] = [
    "/usr/local/lib",
    "/lib/ARCH-linux-gnu",
    "/usr/lib/ARCH-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
    "/opt/mellanox/doca/lib/ARCH-linux-gnu",
    "/opt/mellanox/doca/lib64",
    "/opt/mellanox/dpdk/lib/ARCH-linux-gnu",
];

/// PCI vendor and, where it matters, device numbers (the PCI ID repository's names).
const CARDS: [(u16, Option<u16>, &str); 11] = [
    (0x15b3, Some(0xa2d2), "NVIDIA BlueField (ConnectX-5)"),
    (0x15b3, Some(0xa2d6), "NVIDIA BlueField-2 (ConnectX-6 Dx)"),
    (0x15b3, Some(0xa2dc), "NVIDIA BlueField-3 (ConnectX-7)"),
    (0x15b3, Some(0x1017), "NVIDIA ConnectX-5"),
    (0x15b3, Some(0x101b), "NVIDIA ConnectX-6"),
    (0x15b3, Some(0x101d), "NVIDIA ConnectX-6 Dx"),
    (0x15b3, Some(0x1021), "NVIDIA ConnectX-7"),
    (0x15b3, None, "NVIDIA (Mellanox) network card"),
    (0x177d, None, "Marvell OCTEON or ThunderX"),
    (0x1dd8, None, "AMD Pensando"),
    (0x8086, Some(0x1452), "Intel IPU"),
];

/// Libraries, then devices.
pub(super) fn findings() -> Vec<Finding> {
    let mut findings = vec![duck(), doca(), dpdk(), verbs()];
    findings.extend(cards());
    findings.push(infiniband());
    findings
}

fn duck() -> Finding {
    match duckdb::Library::find() {
        Ok(library) => Finding::found(
            LIBRARY,
            "DuckDB",
            format!("{} in {}", library.version(), library.origin()),
        ),
        Err(missing) => Finding::missing(LIBRARY, "DuckDB", missing.reason, &missing.remedy),
    }
}

fn doca() -> Finding {
    let found = libraries("libdoca_");
    match found.first() {
        Some(first) => {
            let version = kernel_says("/opt/mellanox/doca/applications/VERSION");
            let version = version.map_or(String::new(), |version| format!(" {version}"));
            let folder = first.parent().unwrap_or(Path::new("/")).display();
            Finding::found(
                LIBRARY,
                "DOCA",
                format!("{} libraries in {folder}{version}", found.len()),
            )
        }
        None => Finding::missing(
            LIBRARY,
            "DOCA",
            "no libdoca_*.so",
            "on a BlueField or its host, install NVIDIA's doca-all or doca-runtime packages; nothing else needs it",
        ),
    }
}

fn dpdk() -> Finding {
    const REMEDY: &str = "Debian, Ubuntu: apt-get install libdpdk-dev dpdk; needs root or VFIO rights, and huge pages";
    let found = libraries("librte_eal.so");
    let Some(first) = found.first() else {
        return Finding::missing(LIBRARY, "DPDK", "no librte_eal.so", REMEDY);
    };
    let version = std::process::Command::new("pkg-config")
        .args(["--modversion", "libdpdk"])
        .output();
    let version = version.ok().filter(|output| output.status.success());
    match version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) {
        Some(version) => Finding::found(LIBRARY, "DPDK", format!("{version}, {}", first.display())),
        None => Finding::limited(
            LIBRARY,
            "DPDK",
            format!("{}, but pkg-config finds no libdpdk", first.display()),
            "the build needs the headers too: apt-get install libdpdk-dev pkg-config",
        ),
    }
}

fn verbs() -> Finding {
    match libraries("libibverbs.so.1").first() {
        Some(first) => Finding::found(LIBRARY, "RDMA verbs", first.display().to_string()),
        None => Finding::missing(
            LIBRARY,
            "RDMA verbs",
            "no libibverbs.so.1",
            "Debian, Ubuntu: apt-get install libibverbs1 ibverbs-providers; Red Hat: dnf install libibverbs",
        ),
    }
}

fn infiniband() -> Finding {
    let names = entries("/sys/class/infiniband");
    match names.as_slice() {
        [] => Finding::missing(
            DEVICE,
            "RDMA device",
            "none in /sys/class/infiniband",
            "with root and the kernel's rdma_rxe module, rdma link add rxe0 type rxe netdev eth0 makes an emulated one",
        ),
        names => Finding::found(DEVICE, "RDMA device", names.join(", ")),
    }
}

/// DPUs and network cards of the makers that dpb knows.
fn cards() -> Vec<Finding> {
    let number = |device: &str, field: &str| {
        let text = kernel_says(&format!("/sys/bus/pci/devices/{device}/{field}"))?;
        u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let mut found = Vec::new();
    for device in entries("/sys/bus/pci/devices") {
        let (Some(vendor), Some(id)) = (number(&device, "vendor"), number(&device, "device"))
        else {
            continue;
        };
        let known = CARDS
            .iter()
            .find(|(maker, model, _)| *maker == vendor && model.is_none_or(|model| model == id));
        if let Some((_, _, name)) = known {
            found.push(Finding::found(
                DEVICE,
                "PCI",
                format!("{name} at {device} ({vendor:04x}:{id:04x})"),
            ));
        }
    }
    if found.is_empty() {
        found.push(Finding::missing(
            DEVICE,
            "PCI",
            "no card of NVIDIA, Marvell, AMD Pensando or Intel's IPU",
            "CPU backends and models run without one",
        ));
    }
    found
}

/// Files whose names begin so, in all folders that libraries lie in.
fn libraries(prefix: &str) -> Vec<PathBuf> {
    let of_loader = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let own = of_loader
        .split(':')
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let usual = FOLDERS
        .iter()
        .map(|folder| PathBuf::from(folder.replace("ARCH", std::env::consts::ARCH)));
    let mut found = Vec::new();
    for folder in own.chain(usual) {
        let Ok(files) = fs::read_dir(&folder) else {
            continue;
        };
        let paths = files.flatten().map(|file| file.path());
        let fits = |path: &PathBuf| {
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            name.starts_with(prefix) && name.contains(".so")
        };
        found.extend(
            paths
                .filter(fits)
                .filter_map(|path| path.canonicalize().ok()),
        );
    }
    // A library has several names, and /lib is often /usr/lib.
    found.sort();
    found.dedup();
    found
}

/// Names in a folder, sorted; none if it is not there.
fn entries(folder: &str) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
