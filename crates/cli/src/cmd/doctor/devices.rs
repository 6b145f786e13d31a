//! Libraries and devices: DuckDB, the cards, and what each family of backends says of itself.

use std::fs;

use dpb_core::{Families, Family};
use dpb_dbmods::duckdb;
use dpb_operators::cpu::Implementation;
use dpb_operators::registry::OPERATORS;

use super::{Finding, kernel_says};

const LIBRARY: &str = "library";
const DEVICE: &str = "device";

/// The paths of operators whose library is found at run time, and how to have it.
const PATHS: [(Implementation, &str); 2] = [
    (Implementation::IsaL, "`apt-get install libisal2`"),
    (
        Implementation::Hyperscan,
        "`apt-get install libhyperscan5`, or libvectorscan5",
    ),
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
pub(super) fn findings(families: Families) -> Vec<Finding> {
    let mut findings = vec![duck()];
    findings.extend(PATHS.map(|(path, remedy)| of_path(path, remedy)));
    findings.extend(cards());
    findings.extend(families.iter().flat_map(of_family));
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

fn of_path(path: Implementation, remedy: &str) -> Finding {
    let of: Vec<_> = (OPERATORS.iter())
        .filter(|entry| entry.paths.contains(&path))
        .collect();
    let names: Vec<_> = of.iter().map(|entry| entry.name).collect();
    let names = names.join(", ");
    match of.first() {
        Some(entry) if path.is_available() => {
            let code = entry.code(path);
            Finding::found(LIBRARY, path.name(), format!("{code}, for {names}"))
        }
        _ => {
            let detail = format!("needs {}; done without it: {names}", path.needs());
            Finding::missing(LIBRARY, path.name(), detail, remedy)
        }
    }
}

fn of_family(family: &dyn Family) -> Vec<Finding> {
    let section = family.name();
    let findings = family.findings().into_iter();
    findings.map(|found| Finding { section, found }).collect()
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

/// Names in a folder, sorted; none if it is not there.
fn entries(folder: &str) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
