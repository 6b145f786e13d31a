//! Every backend by its name: CPU paths, thread pools, models.

use dpb_core::measure::Evidence;
use dpb_core::measure::provenance::allowed_cpus;
use dpb_core::{Backend, OpSpec, SetupError, Unsupported};
use dpb_operators::cpu;
use dpb_operators::registry::Entry;
use dpb_sim::{Model, Modelled};

use crate::args::{self, List};

/// The prefix of modelled engines; a model's parameters follow.
const SIM: &str = "sim/";

/// Names with commas between them; a model's own commas are told by what follows them: `sim/lanes=2,job_ns=500,cpu/best`
/// is two names.
///
/// # Errors
/// If a name is missing beside a comma.
pub fn names(text: &str) -> Result<List<String>, String> {
    let mut names: Vec<String> = Vec::new();
    for word in args::words(text)?.0 {
        match names.last_mut() {
            Some(last) if last.starts_with(SIM) && word.contains('=') && !word.contains('/') => {
                last.push(',');
                last.push_str(&word);
            }
            _ => names.push(word),
        }
    }
    Ok(List(names))
}

/// The backend called `name`: `cpu/avx512`, `pool/4`, `sim/default`, `sim/lanes=2,job_ns=500`.
///
/// # Errors
/// If there is none; the message lists what there is.
pub fn by_name(name: &str) -> Result<Box<dyn Backend>, Unsupported> {
    let Some(text) = name.strip_prefix(SIM) else {
        return cpu::by_name(name).map(|cpu| Box::new(cpu) as Box<dyn Backend>);
    };
    let model = if text == "default" { "" } else { text };
    let model: Model = model.parse().map_err(|error: SetupError| Unsupported {
        reason: error.to_string(),
    })?;
    Ok(Box::new(Modelled::new(text, model, cpu::Cpu::best())))
}

/// What a number from the backend called `name` is.
pub fn evidence(name: &str) -> Evidence {
    match name.strip_prefix(SIM) {
        Some(text) => Evidence::Simulated {
            model: match text {
                "default" => Model::default().to_string(),
                text => text.to_owned(),
            },
        },
        None => Evidence::of_this_cpu(),
    }
}

/// The names of all backends that `entry` has a word to say on: its own paths, found here or not, a pool of as many
/// workers as this process may use cores, and the modelled engine.
pub fn all_for(entry: &Entry) -> Vec<String> {
    let mut names: Vec<String> = entry
        .paths
        .iter()
        .map(|path| format!("cpu/{path}"))
        .collect();
    names.push(format!("pool/{}", allowed_cpus().len().max(1)));
    names.push("sim/default".to_owned());
    names
}

/// The code path that stands behind the name here: what `cpu/best` and `pool/N` mean on this machine.
pub fn path(name: &str, spec: &OpSpec) -> Option<String> {
    let cpu = cpu::by_name(name).ok()?;
    cpu.path(spec).ok().map(|path| path.to_string())
}

/// The path that `cpu/best` takes for `entry` here.
pub fn best_path(entry: &Entry) -> String {
    path("cpu/best", &entry.default).unwrap_or_else(|| "nothing".to_owned())
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
    }
}
