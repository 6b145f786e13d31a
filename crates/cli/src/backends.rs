//! Every backend by its name: CPU paths, thread pools, models, devices.

use std::sync::Arc;

use dpb_accel::{FAMILIES, Family};
use dpb_core::measure::provenance::allowed_cpus;
use dpb_core::{
    Backend, Buf, Clock, Limits, OpSpec, Operator, Properties, SetupError, Unsupported, WallClock,
};
use dpb_operators::cpu;
use dpb_operators::registry::{self, Entry};
use dpb_sim::{Faults, Faulty, Model, Modelled};

use crate::args::{self, List};

/// The prefix of modelled engines; a model's parameters follow.
const SIM: &str = "sim/";
/// The prefix of backends with faults on purpose; the faults follow.
const FAULTY: &str = "faulty/";

/// Names with commas between them; a model's own commas are told by what follows them: `sim/lanes=2,job_ns=500,cpu/best`
/// is two names.
///
/// # Errors
/// If a name is missing beside a comma.
pub fn names(text: &str) -> Result<List<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for word in args::words(text)?.0 {
        match names.last_mut() {
            Some(last) if is_made_up(last) && word.contains('=') && !word.contains('/') => {
                last.push(',');
                last.push_str(&word);
            }
            _ => names.push(word),
        }
    }
    Ok(List(names))
}

/// The backend called `name`: `cpu/avx512`, `pool/4`, `sim/default`, `sim/lanes=2,job_ns=500`, `dpdk/compress_isal`,
/// `dpdk/libraries`. Of a device's name the slash may be a colon; `cpu` alone is `cpu/best`, `cpu-threads` a pool of as many
/// workers as this process may use cores.
///
/// # Errors
/// If there is none; the message lists what there is. A device that is not here is a backend that can do nothing and says
/// why, so that its rows do too.
pub fn by_name(name: &str) -> Result<Box<dyn Backend>, Unsupported> {
    if let Some((family, instance)) = device(name) {
        let opened = family.open(instance);
        return Ok(opened.unwrap_or_else(|why| Box::new(Absent::new(family, instance, why))));
    }
    let wrong = |error: SetupError| Unsupported {
        reason: error.to_string(),
    };
    if let Some(text) = name.strip_prefix(FAULTY) {
        let faults: Faults = text.parse().map_err(wrong)?;
        return Ok(Box::new(Faulty::new(text, faults, cpu::Cpu::best())));
    }
    let Some(text) = name.strip_prefix(SIM) else {
        if let Some(threads) = name.strip_prefix("pool/") {
            args::threads(threads).map_err(|what| Unsupported {
                reason: format!("backend `{name}`: {what}"),
            })?;
        }
        let cpu = cpu::by_name(name).map_err(|_| {
            let known: Vec<String> = all().into_iter().map(|listed| listed.name).collect();
            let known = known.join(", ");
            Unsupported {
                reason: format!(
                    "no backend `{name}`; there are: {known} (see `dpb list backends`)"
                ),
            }
        })?;
        return Ok(Box::new(cpu));
    };
    let model = if text == "default" { "" } else { text };
    let model: Model = model.parse().map_err(wrong)?;
    Ok(Box::new(Modelled::new(text, model, cpu::Cpu::best())))
}

/// The family and the device that `name` is of: `dpdk/compress_isal`, `dpdk:compress_isal`; `doca` is its first device.
fn device(name: &str) -> Option<(&'static dyn Family, &str)> {
    FAMILIES.iter().find_map(|family| {
        let rest = name.strip_prefix(family.name())?;
        let instance = match rest {
            "" => "",
            rest => rest.strip_prefix(['/', ':'])?,
        };
        Some((*family, instance))
    })
}

/// How a device is written.
fn device_name(family: &dyn Family, instance: &str) -> String {
    match instance {
        "" => family.name().to_owned(),
        instance => format!("{}/{instance}", family.name()),
    }
}

/// A device that this machine does not have.
struct Absent {
    name: String,
    why: Unsupported,
    clock: WallClock,
}

impl Absent {
    fn new(family: &dyn Family, instance: &str, why: Unsupported) -> Self {
        Self {
            name: device_name(family, instance),
            why,
            clock: WallClock::default(),
        }
    }
}

impl Backend for Absent {
    fn name(&self) -> &str {
        &self.name
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn properties(&self) -> Properties {
        Properties::of_device(None)
    }

    fn alloc(&self, _: usize) -> Result<Buf, SetupError> {
        Err(SetupError::Unsupported(self.why.clone()))
    }

    fn limits(&self, _: &OpSpec) -> Result<Limits, Unsupported> {
        Err(self.why.clone())
    }

    fn prepare(&self, _: &OpSpec) -> Result<Arc<dyn Operator>, SetupError> {
        Err(SetupError::Unsupported(self.why.clone()))
    }
}

/// Cores that this process may use.
fn cores() -> usize {
    allowed_cpus().len().max(1)
}

/// Whether the name's own parameters follow it with commas between.
fn is_made_up(name: &str) -> bool {
    name.starts_with(SIM) || name.starts_with(FAULTY)
}

/// A backend, or a kind of them, as lists show it.
#[derive(Debug)]
pub struct Listed {
    /// As after `--backend`; what stands in capitals is the caller's to fill in.
    pub name: String,
    /// Whether this machine has it.
    pub is_here: bool,
    /// What it runs.
    pub summary: String,
    /// What it needs, or what it is.
    pub details: String,
}

/// Every backend there is.
pub fn all() -> Vec<Listed> {
    let listed = |name: &str, summary: &str, details: String| Listed {
        name: name.to_owned(),
        is_here: true,
        summary: summary.to_owned(),
        details,
    };
    let best = listed(
        "cpu/best",
        "the best path for each operator",
        "on the caller's thread".into(),
    );
    let paths = cpu::Path::ALL.iter().copied().map(|path| {
        let entries = registry::OPERATORS.iter();
        let operators = entries.filter(|entry| entry.paths.contains(&path));
        let operators: Vec<&str> = operators.map(|entry| entry.name).collect();
        Listed {
            name: format!("cpu/{path}"),
            is_here: path.is_available(),
            summary: operators.join(", "),
            details: format!("needs {}", path.needs()),
        }
    });
    let cores = cores();
    let others = [
        listed(
            "pool/N",
            "the best path on N worker threads that all queues share",
            format!("{cores} cores here"),
        ),
        listed(
            "sim/default",
            "a modelled engine on virtual time, its results by cpu/best",
            Model::default().to_string(),
        ),
        listed(
            "sim/NAME=VALUE,…",
            "the same with other numbers",
            "for example sim/lanes=2,job_ns=500".into(),
        ),
        listed(
            "faulty/NAME=VALUE,…",
            "cpu/best with faults on purpose, to see that they are found",
            Faults::default().to_string(),
        ),
    ];
    let devices = FAMILIES.iter().flat_map(|family| {
        let listed = family.backends().into_iter();
        listed.map(|listed| Listed {
            name: device_name(*family, &listed.instance),
            is_here: listed.is_here,
            summary: listed.summary,
            details: listed.details,
        })
    });
    [best]
        .into_iter()
        .chain(paths)
        .chain(others)
        .chain(devices)
        .collect()
}

/// The names of all backends that `entry` has a word to say on: its own paths, found here or not, a pool of as many
/// workers as this process may use cores, the modelled engine, and the devices of this machine that have an engine for it. DPDK's are
/// to be named.
pub fn all_for(entry: &Entry) -> Vec<String> {
    let mut names: Vec<String> = entry
        .paths
        .iter()
        .map(|path| format!("cpu/{path}"))
        .collect();
    names.push(format!("pool/{}", cores()));
    names.push("sim/default".to_owned());
    let spec = entry.default_spec();
    let families = FAMILIES.iter().filter(|family| family.is_in_all());
    names.extend(families.flat_map(|family| devices_for(*family, &spec)));
    names
}

/// The names of a family's devices that can do `spec`; of one that chooses among its devices that alone.
fn devices_for(family: &dyn Family, spec: &OpSpec) -> Vec<String> {
    let has_engine = |instance: &String| {
        let backend = family.open(instance);
        backend.is_ok_and(|backend| backend.limits(spec).is_ok())
    };
    let listed = family.backends().into_iter();
    let here = listed.filter(|listed| listed.is_here);
    let mut here: Vec<String> = here.map(|listed| listed.instance).collect();
    if here.iter().any(String::is_empty) {
        here.retain(String::is_empty);
    }
    let able = here.iter().filter(|instance| has_engine(instance));
    able.map(|instance| device_name(family, instance)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_commas_are_its_own() {
        let names =
            names("cpu/best,sim/lanes=2,job_ns=500,pool/2,sim/default").expect("four names");
        assert_eq!(
            names.0,
            [
                "cpu/best",
                "sim/lanes=2,job_ns=500",
                "pool/2",
                "sim/default"
            ]
        );
        for name in &names {
            assert_eq!(by_name(name).expect("known").name(), name);
        }
        assert!(by_name("sim/wings=2").is_err_and(|why| why.reason.contains("lanes")));
        assert!(by_name("gpu/best").is_err_and(|why| why.reason.contains("cpu/best")));
        assert!(by_name("pool/99999999").is_err_and(|why| why.reason.contains("at most")));
    }

    #[test]
    fn short_names_stand_for_long_ones() {
        for (short, long) in [("cpu", "cpu/best"), ("cpu-threads", "pool/")] {
            let backend = by_name(short).expect("on any machine");
            assert!(backend.name().starts_with(long), "{}", backend.name());
        }
        let of = |name| device(name).map(|(family, instance)| (family.name(), instance));
        assert_eq!(of("dpdk:compress_isal"), Some(("dpdk", "compress_isal")));
        assert_eq!(of("dpdk/compress_isal"), Some(("dpdk", "compress_isal")));
        assert_eq!(of("doca"), Some(("doca", "")));
        assert_eq!(of("docax"), None);
        assert_eq!(of("cpu/best"), None);

        let spec = registry::find("copy").expect("registered").default_spec();
        let absent = by_name("rdma/no-such-device").expect("a backend that says why");
        assert_eq!(absent.name(), "rdma/no-such-device");
        let why = absent.limits(&spec).expect_err("there is none").reason;
        assert!(!why.is_empty());
    }
}
