//! The power that the machine draws while a side is measured, from what Linux shows: counters of energy (RAPL's packages, `powercap`) and sensors
//! (`hwmon`). It is all of the machine's power, of both sides and of everything else that runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The folder of Linux's classes of devices.
const CLASSES: &str = "/sys/class";
/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(100);

/// A thread that looks at all counters and sensors.
pub(super) struct Meter {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Power>>,
}

/// The mean power of a part of the machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Power {
    /// Its name, and where it comes from.
    pub(super) part: String,
    pub(super) watts: f64,
}

/// A file that is looked at.
struct Source {
    part: String,
    file: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Energy in microjoules, which begins anew behind this value.
    Energy { range_uj: u64 },
    /// Power in microwatts.
    Power,
}

/// A source, and the energy that it has shown so far.
struct Reading {
    source: Source,
    /// The last value that could be read, and when.
    last: (u64, Instant),
    microjoules: f64,
}

impl Meter {
    /// Begins; `None` if this machine shows nothing that this user may read.
    pub(super) fn start() -> Option<Self> {
        Self::of(Path::new(CLASSES))
    }

    fn of(classes: &Path) -> Option<Self> {
        let start = Instant::now();
        let sources = sources(classes).into_iter();
        let mut readings: Vec<_> = sources.filter_map(|it| Reading::first(it, start)).collect();
        if readings.is_empty() {
            return None;
        }
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            loop {
                let is_over = stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
                let at = Instant::now();
                readings.iter_mut().for_each(|it| it.look(at));
                if is_over {
                    break;
                }
            }
            let power = |it: Reading| it.mean(start);
            readings.into_iter().filter_map(power).collect()
        });
        Some(Self { stop, thread })
    }

    /// Ends; the mean power since the start.
    pub(super) fn finish(self) -> Vec<Power> {
        drop(self.stop);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Reading {
    /// The first look; `None` if the source cannot be read.
    fn first(source: Source, at: Instant) -> Option<Self> {
        let last = (number(&source.file)?, at);
        Some(Self {
            source,
            last,
            microjoules: 0.0,
        })
    }

    /// Adds the energy since the last look. A look that fails is skipped; the next one has its energy too.
    fn look(&mut self, at: Instant) {
        if let Some(now) = number(&self.source.file) {
            let (before, since) = std::mem::replace(&mut self.last, (now, at));
            let seconds = at.duration_since(since).as_secs_f64();
            self.microjoules += self.source.kind.microjoules(before, now, seconds);
        }
    }

    /// The mean power between `start` and the last look that succeeded; `None` if only the first did.
    fn mean(self, start: Instant) -> Option<Power> {
        let seconds = self.last.1.duration_since(start).as_secs_f64();
        (seconds > 0.0).then(|| Power {
            part: self.source.part,
            watts: self.microjoules / 1e6 / seconds,
        })
    }
}

impl Kind {
    /// The energy between two looks.
    fn microjoules(self, before: u64, now: u64, seconds: f64) -> f64 {
        match self {
            Self::Energy { range_uj } if now < before => {
                (range_uj - before.min(range_uj) + now) as f64
            }
            Self::Energy { .. } => (now - before) as f64,
            Self::Power => f64::midpoint(before as f64, now as f64) * seconds,
        }
    }
}

/// What a finding says of powers; nothing of none.
pub(super) fn text(powers: &[Power]) -> Option<String> {
    let parts: Vec<String> = powers
        .iter()
        .map(|Power { part, watts }| format!("{part} {watts:.1} W"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// All counters and sensors, by their files.
fn sources(classes: &Path) -> Vec<Source> {
    let mut found = BTreeMap::new();
    for folder in folders(&classes.join("powercap")) {
        let name = last_part(&folder);
        // Packages; what lies inside of one is counted with it.
        if !name.starts_with("intel-rapl:") || name.matches(':').count() != 1 {
            continue;
        }
        let zone = text_of(&folder.join("name")).unwrap_or(name);
        if let Some(range_uj) = number(&folder.join("max_energy_range_uj")) {
            let kind = Kind::Energy { range_uj };
            found.insert(folder.join("energy_uj"), (format!("{zone} (RAPL)"), kind));
        }
    }
    for folder in folders(&classes.join("hwmon")) {
        let chip = text_of(&folder.join("name")).unwrap_or_else(|| last_part(&folder));
        for file in folders(&folder) {
            let name = last_part(&file);
            let Some(input) = name.strip_suffix("_input") else {
                continue;
            };
            let kind = match () {
                () if input.starts_with("energy") => Kind::Energy { range_uj: u64::MAX },
                () if input.starts_with("power") => Kind::Power,
                () => continue,
            };
            let label = text_of(&folder.join(format!("{input}_label")));
            let label = label.unwrap_or_else(|| input.to_owned());
            found.insert(file, (format!("{chip} {label} (hwmon)"), kind));
        }
    }
    let source = |(file, (part, kind))| Source { part, file, kind };
    found.into_iter().map(source).collect()
}

/// The entries of a folder, which may not be there.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

fn last_part(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn text_of(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

fn number(file: &Path) -> Option<u64> {
    text_of(file)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn counters_and_sensors_become_watts() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        assert!(Meter::of(root).is_none());
        write(root, "powercap/intel-rapl:0/name", "package-0\n");
        write(
            root,
            "powercap/intel-rapl:0/max_energy_range_uj",
            "262143328850\n",
        );
        write(root, "powercap/intel-rapl:0/energy_uj", "262143328000\n");
        // A part of the package, and the same package by another driver.
        write(root, "powercap/intel-rapl:0:0/name", "core\n");
        write(root, "powercap/intel-rapl:0:0/max_energy_range_uj", "100\n");
        write(root, "powercap/intel-rapl:0:0/energy_uj", "1\n");
        write(root, "powercap/intel-rapl-mmio:0/name", "package-0\n");
        write(root, "hwmon/hwmon3/name", "mlxbf\n");
        write(root, "hwmon/hwmon3/power1_input", "20000000\n");
        write(root, "hwmon/hwmon3/power1_label", "total\n");
        write(root, "hwmon/hwmon3/energy1_input", "5000000\n");
        write(root, "hwmon/hwmon3/temp1_input", "41000\n");
        let meter = Meter::of(root).expect("there are counters");
        // A look that fails loses nothing. Two joules more, past the counter's end, and three.
        write(root, "powercap/intel-rapl:0/energy_uj", "");
        write(root, "hwmon/hwmon3/energy1_input", "");
        thread::sleep(2 * PERIOD);
        write(root, "powercap/intel-rapl:0/energy_uj", "1999150\n");
        write(root, "hwmon/hwmon3/energy1_input", "8000000\n");
        let powers = meter.finish();
        let parts: Vec<&str> = powers.iter().map(|it| it.part.as_str()).collect();
        assert_eq!(
            parts,
            [
                "mlxbf energy1 (hwmon)",
                "mlxbf total (hwmon)",
                "package-0 (RAPL)"
            ]
        );
        let [energy, power, package] = [0, 1, 2].map(|at| powers[at].watts);
        // All are looked at at once: the energies have one time, at least that of the sleep.
        assert!((package / energy - 2.0 / 3.0).abs() < 1e-9, "{powers:?}");
        assert!(
            energy > 0.0 && energy <= 3.0 / (2.0 * PERIOD.as_secs_f64()),
            "{powers:?}"
        );
        assert!((power - 20.0).abs() < 1e-9, "{powers:?}");
        let said = text(&powers).expect("powers");
        assert!(said.contains("mlxbf total (hwmon) ") && said.contains("package-0 (RAPL) "));
        assert_eq!(text(&[]), None);
    }
}
